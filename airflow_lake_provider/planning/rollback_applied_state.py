"""Tell what main had applied at an earlier snapshot, which a rollback puts back.

Properties are of the table, not of a snapshot, so that moving main back does not move them back. A batch is never
silently left out: what cannot be told stays such that the next upsert is refused, or is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, newest_generation
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts, ancestors
from airflow_lake_provider.contracts.table_properties import (
    EPOCH_PREFIX,
    EVENTS_PREFIX,
    KEY_CHANGES_PREFIX,
    POSITION_PREFIX,
    RECENT_RUN_KEYS,
    RUN_KEY,
    applied_properties,
)
from airflow_lake_provider.tables.base import LoadedTable

# By which the clocks of two writers may differ; Iceberg's own tolerance.
_CLOCKS_MS = 60_000


def applied_before(table: LoadedTable, target: Snapshot, lost: Sequence[Snapshot]) -> dict[str, str]:
    """Return the properties that say what main had applied at a snapshot.

    :param lost: snapshots that main loses.
    :raises UnsupportedError: it is not known where a source was.
    """
    told = _told_by_a_version(table, target)
    return told if told is not None else _told_by_the_history(table.facts, target, lost)


def is_of_main(facts: TableFacts) -> bool:
    """Return True if no property names a snapshot that main lacks, as a rollback of somebody else would leave."""
    line, properties = [snapshot.summary for snapshot in facts.ancestors()], facts.properties
    sources = [name.removeprefix(POSITION_PREFIX) for name in properties if name.startswith(POSITION_PREFIX)]
    if any(SourcePosition.read(properties, name).is_rolled_back(newest_generation(line, name)) for name in sources):
        return False
    every = (snapshot.summary.get(RUN_KEY) for snapshot in facts.snapshots.values())
    foreign = {*every} - {summary.get(RUN_KEY) for summary in line}
    return not any(key in foreign for key, _ in RecentRunKeys.read(properties).entries)


def _told_by_a_version(table: LoadedTable, target: Snapshot) -> dict[str, str] | None:
    """Return the properties of the last version of the metadata in which main was at a snapshot before it moved on.

    Only one file is read for each commit that was made while main was there, and a few before it.

    :return: None where the metadata log does not reach back so far, or the version is gone.
    """
    told = None
    # A version that is gone, in which main was elsewhere, would not be missed.
    for version in table.versions_since(target.at - _CLOCKS_MS):
        if version.head() != target.id:
            if told is not None:
                return told
        elif is_of_main(version):
            told = applied_properties(version.properties)
    return told


def _told_by_the_history(facts: TableFacts, target: Snapshot, lost: Iterable[Snapshot]) -> dict[str, str]:
    """Return the properties that main has at a snapshot, as far as its history tells.

    A source that was consumed since keeps its position: it is ahead of the snapshot's, so an upsert is refused with
    RolledBackError until a person decides.
    """
    properties = applied_properties(facts.properties)
    kept = [snapshot.summary for snapshot in ancestors(facts.snapshots, target.id)]
    for name in [name for name in properties if name.startswith(POSITION_PREFIX)]:
        source = name.removeprefix(POSITION_PREFIX)
        if newest_generation(kept, source) is None and _is_moved_by(facts.name, source, lost):
            for prefix in (POSITION_PREFIX, EVENTS_PREFIX, KEY_CHANGES_PREFIX, EPOCH_PREFIX):
                properties.pop(prefix + source, None)
    if RECENT_RUN_KEYS in properties:
        properties |= _keys_before(facts, target, kept).to_properties()
    return properties


def _is_moved_by(table: str, source: str, lost: Iterable[Snapshot]) -> bool:
    """Tell whether the lost snapshots have the first commit of a source; none of those that main keeps names it.

    :raises UnsupportedError: they have a later one only.
    """
    said = [newest_generation([snapshot.summary], source) for snapshot in lost]
    generations = [generation for generation in said if generation is not None]
    if generations and min(generations) > 1:
        raise UnsupportedError(
            f"{table}: what source {source} had applied at that snapshot is not known any more, so a rollback could "
            "leave out batches. Use Iceberg's rollback_to_snapshot, then run the upsert with on_repeat='apply'"
        )
    return bool(generations)


def _keys_before(facts: TableFacts, target: Snapshot, kept: Iterable[Mapping[str, str]]) -> RecentRunKeys:
    recent, keys = RecentRunKeys.read(facts.properties), {summary.get(RUN_KEY) for summary in kept}
    left = [at for (_, before), (at, _) in pairwise(facts.main_log) if before == target.id]
    # Keys have whole seconds. One that is dropped too much lets an old run repeat itself; one too few loses a batch.
    until = (left[0] if left else target.at) // 1000
    entries = tuple((key, at) for key, at in recent.entries if key in keys or at < until)
    return RecentRunKeys(entries, recent.dropped_before)
