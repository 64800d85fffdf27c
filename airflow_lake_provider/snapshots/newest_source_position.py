"""Read from a table's snapshots how far it has consumed its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.source_position import newest_position
from airflow_lake_provider.snapshots.ancestors import ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table


def newest_source_position(table: Table, source_name: str) -> str | None:
    """Return ``lake.source-position`` of the newest unexpired ancestor of main that names a source; None without one.

    :param table: loaded now.
    :param source_name: see ``contracts.source_position``.
    """
    found = ancestors(table.metadata, table.current_snapshot())
    return newest_position((s.summary.additional_properties for s in found if s.summary), source_name)
