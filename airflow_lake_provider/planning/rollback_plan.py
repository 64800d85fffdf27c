"""Plan a rollback: main goes back to an earlier snapshot, and with it what the table says it has applied.

Properties are of the table, not of a snapshot, so that moving main back does not move them back. A batch is never
silently left out: what cannot be told stays such that the next upsert is refused, or is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from airflow_lake_provider.contracts.applied.applied_history import MainHistory
from airflow_lake_provider.contracts.applied.run_key import CLEAR_OR_NEW_RUN, RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, moved_sources, newest_generation
from airflow_lake_provider.contracts.as_of import head_at
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, RefMove, RollbackSpec
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot, TableFacts, ancestors
from airflow_lake_provider.contracts.table_properties import (
    EPOCH_PREFIX,
    EVENTS_PREFIX,
    HISTORY_AT,
    KEY_CHANGES_PREFIX,
    POSITION_PREFIX,
    RECENT_RUN_KEYS,
    RUN_KEY,
    applied_properties,
    newest_entry,
)
from airflow_lake_provider.planning.metadata_changes import PlannedChange
from airflow_lake_provider.tables.base import LoadedTable

# By which the clocks of two writers may differ; Iceberg's own tolerance.
_CLOCKS_MS = 60_000


def plan_rollback(table: LoadedTable, spec: RollbackSpec) -> PlannedChange:
    """Decide where main goes, and which run keys and positions it has there.

    The rollback leaves a run key of its own: a retry that comes after later commits takes none of them away.

    :param table: loaded now.
    :raises UnsupportedError: main was never at the snapshot, or its position of a source is not known.
    :raises InvalidSpecError: main is not at ``expected_snapshot_id``.
    :raises ForgottenRunError: it cannot be told whether an earlier try has rolled the table back.
    """
    run_key = spec.run.run_key(spec.digest_text(), ())
    facts = table.facts
    known_runs = RecentRunKeys.read(facts.properties)
    if run_key in known_runs:
        reason = f"recognised by run key {run_key}: this run has rolled the table back"
        return PlannedChange.nothing(table, spec, reason, Outcome.ALREADY_APPLIED)
    history, target = list(facts.ancestors()), _target(facts, spec)
    if target not in history:
        head = history[0].id if history else None
        raise UnsupportedError(
            f"{spec.table}: snapshot {target.id} is no ancestor of main's head {head}, so main cannot "
            "go back to it. A branch of yours is published by LakePublishBranchOperator"
        )
    lost, left = history[: history.index(target)], history[history.index(target) :]
    if not lost and _has_its_state(table, target):
        return PlannedChange.nothing(table, spec, f"main is at snapshot {target.id} already")
    known_runs.refuse_forgotten(spec.run, spec.table, CLEAR_OR_NEW_RUN)
    _refuse_other_head(spec, history[0].id, target.id)
    return _planned(table, spec, lost, left, run_key)


def _planned(
    table: LoadedTable, spec: RollbackSpec, lost: Sequence[Snapshot], left: Sequence[Snapshot], run_key: str
) -> PlannedChange:
    """Return the change that leaves main some of its snapshots; both sequences are newest first."""
    before = _applied_before(table, left[0], lost)
    now, head = applied_properties(table.facts.properties), left[0].id
    keys_now = {key for key, _ in RecentRunKeys.read(now).entries}
    keys_before = {key for key, _ in RecentRunKeys.read(before).entries}
    wanted = {**before, **RecentRunKeys.read(before).add(run_key, datetime.now(UTC)).to_properties()}
    at = lost[0].id if lost else head
    change = MetadataChange(
        table_uuid=table.facts.uuid,
        expected_refs={MAIN: at},
        moved_refs=(RefMove(name=MAIN, kind="branch", snapshot=head),),
        set_properties={name: value for name, value in wanted.items() if now.get(name) != value},
        removed_properties=tuple(sorted(now.keys() - wanted.keys())),
    )
    what = f"{len(lost)} snapshots back" if lost else "where it was; only run keys and positions went back"
    return PlannedChange.of(
        table,
        spec,
        f"main is at snapshot {head}, {what}",
        change,
        ref=MAIN,
        ref_before=at,
        ref_after=head,
        run_key=run_key,
        snapshots_rolled_back=tuple(snapshot.id for snapshot in lost),
        run_keys_removed=tuple(sorted(keys_now - keys_before)),
        source_positions=_moved_positions(now, wanted),
        warnings=(*_warnings(table, spec, wanted), *table.harmed_by_rollback(lost, left)),
    )


def _target(facts: TableFacts, spec: RollbackSpec) -> Snapshot:
    if spec.tag is not None:
        ref = facts.references.get(spec.tag)
        if ref is None or ref.is_branch:
            tags = sorted(name for name, ref in facts.references.items() if not ref.is_branch)
            raise UnsupportedError(f"{spec.table}: there is no tag {spec.tag!r}; its tags are {tags}")
        wanted, what = ref.snapshot, f"of tag {spec.tag!r}"
    elif spec.timestamp is not None:
        wanted, what = _at(facts, spec), f"of {spec.timestamp.isoformat()}"
    else:
        wanted, what = spec.snapshot_id or "", "that was named"
    snapshot = facts.snapshots.get(wanted)
    if snapshot is None:
        raise UnsupportedError(
            f"{spec.table}: snapshot {wanted} {what} is not in the table's metadata: it was expired, or is of another "
            "table"
        )
    return snapshot


def _at(facts: TableFacts, spec: RollbackSpec) -> str:
    """Return where main was at a moment, by its log."""
    snapshot = head_at(facts, spec.timestamp) if spec.timestamp is not None else None
    if snapshot is None:
        raise UnsupportedError(
            f"{spec.table}: main has no known snapshot of {spec.timestamp}: there was none, or it was expired"
        )
    return snapshot


def _refuse_other_head(spec: RollbackSpec, head: str, target: str) -> None:
    expected = spec.expected_snapshot_id
    if expected is not None and head not in (expected, target):
        raise InvalidSpecError(
            f"{spec.table}: main is at snapshot {head} and not at expected_snapshot_id={expected}; look at what was "
            "committed since"
        )


def _moved_positions(now: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, int]:
    moved = {name for name in now.keys() | wanted.keys() if now.get(name) != wanted.get(name)}
    names = sorted(name.removeprefix(POSITION_PREFIX) for name in moved if name.startswith(POSITION_PREFIX))
    return {name: SourcePosition.read(wanted, name).generation for name in names}


def _warnings(table: LoadedTable, spec: RollbackSpec, wanted: Mapping[str, str]) -> list[str]:
    warnings = []
    for name in sorted(name.removeprefix(POSITION_PREFIX) for name in wanted if name.startswith(POSITION_PREFIX)):
        lists = SourcePosition.read(wanted, name).lists.values()
        side_files = [each.side_file for each in lists if each.side_file is not None]
        if not all(table.has_file(side_file.path) for side_file in side_files):
            warnings.append(
                f"the list of files that source {name} had consumed is gone, so its next upsert is refused until it "
                "runs with on_repeat='apply'"
            )
    if any(name.startswith(EPOCH_PREFIX) for name in applied_properties(table.facts.properties)):
        warnings.append(
            f"{spec.table}__deleted_keys is a table of its own and was not rolled back: events of keys that were "
            "deleted since then are dropped; roll it back, too"
        )
    return warnings


def _applied_before(table: LoadedTable, target: Snapshot, lost: Sequence[Snapshot]) -> dict[str, str]:
    """Return the properties that say what main had applied at a snapshot.

    :param lost: snapshots that main loses.
    :raises UnsupportedError: it is not known where a source was.
    """
    applied = _applied_by_version(table, target)
    return applied if applied is not None else _applied_by_history(table.facts, target, lost)


def _is_of_main(facts: TableFacts) -> bool:
    """Return True if no property names a snapshot that main lacks, as a rollback of somebody else would leave."""
    ours, properties = [snapshot.summary for snapshot in facts.ancestors()], facts.properties
    sources = [name.removeprefix(POSITION_PREFIX) for name in properties if name.startswith(POSITION_PREFIX)]
    if any(SourcePosition.read(properties, name).is_rolled_back(newest_generation(ours, name)) for name in sources):
        return False
    every = (snapshot.summary.get(RUN_KEY) for snapshot in facts.snapshots.values())
    foreign = {*every} - {summary.get(RUN_KEY) for summary in ours}
    return not any(key in foreign for key, _ in RecentRunKeys.read(properties).entries)


def _has_its_state(table: LoadedTable, head: Snapshot) -> bool:
    """Return True if the properties are those of main's head, or no other ones of it are there to be had."""
    facts = table.facts
    if not _is_of_main(facts):
        return False
    history, applied = MainHistory.of(facts.head(), facts.snapshots), applied_properties(facts.properties)
    sources = [name.removeprefix(POSITION_PREFIX) for name in applied if name.startswith(POSITION_PREFIX)]
    # What a rollback took from the properties, something else may have given back to main.
    moved = {name for snapshot in history.ancestors for name in moved_sources(snapshot.summary)}
    generations = {name: SourcePosition.read(applied, name).generation for name in {*sources, *moved}}
    if not any(history.ahead_of(name, generation) for name, generation in generations.items()):
        return True
    return _applied_by_version(table, head) in (None, applied)


def _applied_by_version(table: LoadedTable, target: Snapshot) -> dict[str, str] | None:
    """Return the properties of the last version of the metadata in which main was at a snapshot before it moved on.

    Only one file is read for each commit that was made while main was there, and a few before it.

    :return: None where the metadata log does not reach back so far, or the version is gone.
    """
    applied = None
    # A version that is gone, in which main was elsewhere, would not be missed.
    for version in table.versions_since(target.at - _CLOCKS_MS):
        if version.head() != target.id:
            if applied is not None:
                return applied
        elif _is_of_main(version):
            applied = applied_properties(version.properties)
    return applied


def _applied_by_history(facts: TableFacts, target: Snapshot, lost: Sequence[Snapshot]) -> dict[str, str]:
    """Return the properties that main has at a snapshot, as far as its history tells.

    A source that was consumed since keeps its position: it is ahead of the snapshot's, so an upsert is refused with
    RolledBackError until a person decides.
    """
    properties = applied_properties(facts.properties)
    kept = [snapshot.summary for snapshot in ancestors(facts.snapshots, target.id)]
    if any(HISTORY_AT in snapshot.summary for snapshot in lost):
        properties.pop(HISTORY_AT, None)
        properties |= newest_entry(kept, HISTORY_AT)
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
    named = [newest_generation([snapshot.summary], source) for snapshot in lost]
    generations = [generation for generation in named if generation is not None]
    if generations and min(generations) > 1:
        raise UnsupportedError(
            f"{table}: what source {source} had applied at that snapshot is not known any more, so a rollback could "
            "leave out batches. Roll back by the format's own means, such as Iceberg's rollback_to_snapshot, then run "
            "the upsert with on_repeat='apply'"
        )
    return bool(generations)


def _keys_before(facts: TableFacts, target: Snapshot, kept: Iterable[Mapping[str, str]]) -> RecentRunKeys:
    recent, keys = RecentRunKeys.read(facts.properties), {summary.get(RUN_KEY) for summary in kept}
    left = [at for (_, before), (at, _) in pairwise(facts.main_log) if before == target.id]
    # Keys have whole seconds. One that is dropped too much lets an old run repeat itself; one too few loses a batch.
    until = (left[0] if left else target.at) // 1000
    entries = tuple((key, at) for key, at in recent.entries if key in keys or at < until)
    return RecentRunKeys(entries, recent.dropped_before)
