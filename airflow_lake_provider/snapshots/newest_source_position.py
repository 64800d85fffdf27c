"""Read from a table's snapshots how far it has consumed its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.source_position import newest_position

if TYPE_CHECKING:
    from pyiceberg.table import Table


def newest_source_position(table: Table, source_name: str) -> str | None:
    """Return ``lake.source-position`` of the newest unexpired ancestor of main that names a source; None without one.

    :param table: loaded now.
    :param source_name: see ``contracts.source_position``.
    """
    # Put off for DAG files, which are parsed and read no table.
    from pyiceberg.table.snapshots import ancestors_of

    ancestors = ancestors_of(table.current_snapshot(), table.metadata)
    return newest_position((s.summary.additional_properties for s in ancestors if s.summary), source_name)
