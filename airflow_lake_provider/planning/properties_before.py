"""Work out what main had applied at an earlier snapshot, where no version of the metadata tells it any more.

A batch is never silently left out: what cannot be told stays such that the next upsert is refused, or is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.source_position import newest_generation
from airflow_lake_provider.contracts.table_properties import (
    EPOCH_PREFIX,
    EVENTS_PREFIX,
    KEY_CHANGES_PREFIX,
    POSITION_PREFIX,
    RECENT_RUN_KEYS,
    RUN_KEY,
    applied_properties,
)
from airflow_lake_provider.planning.applied_before import summaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def properties_before(table: Table, target: Snapshot, lost: Sequence[int]) -> dict[str, str]:
    """Return the properties that main has at a snapshot, as far as its history tells.

    A source that was consumed since keeps its position: it is ahead of the snapshot's, so an upsert is refused with
    RolledBackError until a person decides.

    :param lost: ids of the snapshots that main loses.
    :raises UnsupportedError: it is not known where a source was.
    """
    properties = applied_properties(table.properties)
    kept = list(summaries(table.metadata, target))
    for name in [name for name in properties if name.startswith(POSITION_PREFIX)]:
        source = name.removeprefix(POSITION_PREFIX)
        if newest_generation(kept, source) is None and _is_moved_by(table, source, lost):
            for prefix in (POSITION_PREFIX, EVENTS_PREFIX, KEY_CHANGES_PREFIX, EPOCH_PREFIX):
                properties.pop(prefix + source, None)
    if RECENT_RUN_KEYS in properties:
        properties |= _keys_before(table, target, {summary.get(RUN_KEY) for summary in kept}).to_properties()
    return properties


def _is_moved_by(table: Table, source: str, lost: Sequence[int]) -> bool:
    """Tell whether the lost snapshots have the first commit of a source; none of those that main keeps names it.

    :raises UnsupportedError: they have a later one only.
    """
    found = [snapshot for snapshot in map(table.snapshot_by_id, lost) if snapshot is not None and snapshot.summary]
    said = [newest_generation([s.summary.additional_properties], source) for s in found if s.summary is not None]
    generations = [generation for generation in said if generation is not None]
    if generations and min(generations) > 1:
        raise UnsupportedError(
            f"{'.'.join(table.name())}: what source {source} had applied at that snapshot is not known any more, so a "
            "rollback could leave out batches. Use Iceberg's rollback_to_snapshot, then run the upsert with "
            "on_repeat='apply'"
        )
    return bool(generations)


def _keys_before(table: Table, target: Snapshot, kept: set[str | None]) -> RecentRunKeys:
    recent = RecentRunKeys.read(table.properties)
    left = [
        entry.timestamp_ms
        for before, entry in zip(table.metadata.snapshot_log, table.metadata.snapshot_log[1:], strict=False)
        if before.snapshot_id == target.snapshot_id
    ]
    # Keys have whole seconds. One that is dropped too much lets an old run repeat itself; one too few loses a batch.
    until = (left[0] if left else target.timestamp_ms) // 1000
    entries = tuple((key, at) for key, at in recent.entries if key in kept or at < until)
    return RecentRunKeys(entries, recent.dropped_before)
