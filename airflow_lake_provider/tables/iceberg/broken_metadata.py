"""Check loaded metadata once, before anything walks along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.history_checks import REMEDY, refuse_broken_history

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def refuse_broken_metadata(name: str, metadata: TableMetadata) -> None:
    """Refuse metadata whose snapshots or sort order no writer can have made.

    :param name: of the table.
    :raises BrokenMetadataError: naming what is wrong.
    """
    snapshots = ((s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in metadata.snapshots)
    moved = (entry.timestamp_ms for entry in metadata.snapshot_log)
    written = (entry.timestamp_ms for entry in metadata.metadata_log)
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    # PyIceberg looks the order up as if it were there, and ends in a StopIteration.
    orders = [order.order_id for order in metadata.sort_orders]
    if metadata.default_sort_order_id not in orders:
        raise BrokenMetadataError(
            f"{name}: default-sort-order-id is {metadata.default_sort_order_id}, expected one of the sort-orders "
            f"{orders}. {REMEDY}."
        )
    refuse_broken_history(name, snapshots, (*moved, *written), refs)
