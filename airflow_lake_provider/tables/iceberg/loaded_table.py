"""Read the head of an Iceberg table from its loaded metadata: no call, no manifests, no data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.table_properties import CONSUMER_PREFIX
from airflow_lake_provider.tables.iceberg.broken_metadata import refuse_broken_metadata
from airflow_lake_provider.tables.snapshot_history import SnapshotRecord, TableHead

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MAIN = "main"
_CONSUMER_SNAPSHOT = ".snapshot"


def read_head(table: Table, branch: str = MAIN) -> TableHead:
    """Return what the loaded metadata says; nothing is fetched.

    :param table: just loaded, or refreshed.
    :param branch: branch or tag; one that does not exist has no head.
    :raises BrokenMetadataError: the snapshots are such as no writer makes.
    """
    metadata = table.metadata
    refuse_broken_metadata(".".join(table.name()), metadata)
    ref = metadata.refs.get(branch)
    log = metadata.snapshot_log if branch == MAIN else []
    return TableHead(
        head=ref.snapshot_id if ref else None,
        snapshots={snapshot.snapshot_id: _record(snapshot) for snapshot in metadata.snapshots},
        log=tuple((_time(entry.timestamp_ms), entry.snapshot_id) for entry in log),
        consumers=_consumers(table),
    )


def _consumers(table: Table) -> dict[str, int]:
    """Cursors of consumers; the tag, where there is one, is newer than or as new as the property."""
    by_property = {
        name.removeprefix(CONSUMER_PREFIX).removesuffix(_CONSUMER_SNAPSHOT): snapshot
        for name, value in table.metadata.properties.items()
        if name.startswith(CONSUMER_PREFIX)
        and name.endswith(_CONSUMER_SNAPSHOT)
        and (snapshot := whole_number(value)) is not None
    }
    by_tag = {
        name.removeprefix(CONSUMER_PREFIX): ref.snapshot_id
        for name, ref in table.metadata.refs.items()
        if name.startswith(CONSUMER_PREFIX)
    }
    return {**by_property, **by_tag}


def _record(snapshot: Snapshot) -> SnapshotRecord:
    summary = snapshot.summary
    return SnapshotRecord.from_summary(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        _time(snapshot.timestamp_ms),
        snapshot.sequence_number or 0,
        {"operation": summary.operation.value, **summary.additional_properties} if summary else None,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
