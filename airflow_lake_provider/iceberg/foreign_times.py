"""Whether statistics of times can be trusted: files that Iceberg has not written may count in other units."""

from __future__ import annotations

from collections.abc import Mapping

# Set by add_files, migrate and snapshot, as files of other writers have no field ids.
NAME_MAPPING = "schema.name-mapping.default"
# Types of Iceberg that count microseconds.
TIMES = frozenset({"timestamp", "timestamptz"})


def times_are_sure(properties: Mapping[str, str]) -> bool:
    """Tell whether the bounds of ``timestamp`` and ``timestamptz`` columns are microseconds in all files of a table.

    Of a Parquet file with milliseconds that was added, Iceberg takes these for microseconds, in manifests as well as
    in the reader (apache/iceberg#18173). No metadata proves that a table has no such file.

    :param properties: of the table.
    """
    return NAME_MAPPING not in properties
