"""What the snapshots of a table say about the sources that it has consumed."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from airflow_lake_provider.contracts.table_properties import SOURCE_POSITION


def newest_source_position(table: Table, source_id: str) -> str | None:
    """Return ``lake.source-position`` of the newest unexpired ancestor of main that names a source; None without one.

    Unlike the property, it goes back with main when the table is rolled back.

    :param table: loaded now.
    :param source_id: see ``contracts.source_position``.
    """
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        said = snapshot.summary.additional_properties.get(SOURCE_POSITION, "") if snapshot.summary else ""
        if said.startswith(f"{source_id}="):
            return said
    return None
