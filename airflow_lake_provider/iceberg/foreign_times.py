"""Whether statistics of times can be trusted: files that Iceberg has not written may count in other units."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_lake_provider.contracts.table_facts import TableFacts, ancestors
from airflow_lake_provider.contracts.table_properties import ACTION

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


def has_only_our_files_since(facts: TableFacts, snapshot: str, others: Collection[str]) -> bool:
    """Tell whether a snapshot is one of others, or has been made of one by commits of this package alone.

    These write microseconds, whatever they read.

    :param facts: of the table.
    """
    for each in ancestors(facts.snapshots, snapshot, stop=others, name=facts.name):
        if ACTION not in each.summary:
            return False
        snapshot = each.parent or ""
    return snapshot in others
