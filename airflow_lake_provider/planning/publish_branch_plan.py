"""Plan the publication of a branch: main moves forward to its head, and takes over what was applied there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import BrokenMetadataError, UnsupportedError
from airflow_lake_provider.contracts.flink_commits import JOB_AGE
from airflow_lake_provider.contracts.flink_obstacles import jobs_of_dropped_branch, recent
from airflow_lake_provider.contracts.metadata_change import MetadataChange, RefMove
from airflow_lake_provider.contracts.metadata_change_specs import MAIN, PublishBranchSpec
from airflow_lake_provider.contracts.property_values import shown, whole_number
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.source_position import SourcePosition, moved_sources
from airflow_lake_provider.contracts.table_properties import RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.planning.planned_change import PlannedChange, refs_of
from airflow_lake_provider.planning.retention_facts import snapshot_facts
from airflow_lake_provider.tables.iceberg.ancestors import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def plan_publication(table: Table, spec: PublishBranchSpec) -> PlannedChange:
    """Decide what main gains by a branch.

    :param table: loaded now.
    :raises UnsupportedError: there is no such branch, or main has commits that the branch lacks.
    """
    branch = table.metadata.refs.get(spec.branch)
    if branch is None and spec.drop_branch:
        reason = f"there is no branch {spec.branch!r}: it was published and dropped, or nothing was written to it"
        return PlannedChange.nothing(table, spec, reason)
    if branch is None or branch.snapshot_ref_type.value != "branch":
        raise UnsupportedError(
            f"{spec.table}: there is no branch {spec.branch!r}; its refs are {sorted(refs_of(table))}"
        )
    main = table.current_snapshot()
    if main is not None and branch.snapshot_id in _lineage(table, MAIN):
        return _already_published(table, spec)
    gained = _lineage(table, spec.branch)
    if main is not None:
        if main.snapshot_id not in gained:
            raise UnsupportedError(
                f"{spec.table}: main is at snapshot {main.snapshot_id}, which branch {spec.branch!r} lacks, so main "
                "cannot be moved forward to it. Drop the branch, and write the batch again: it then starts from main"
            )
        gained = dict(list(gained.items())[: list(gained).index(main.snapshot_id)])
    return _publication(table, spec, list(reversed(gained.values())))


def _publication(table: Table, spec: PublishBranchSpec, gained: list[Snapshot]) -> PlannedChange:
    refs = refs_of(table)
    said = [snapshot.summary.additional_properties if snapshot.summary else {} for snapshot in gained]
    keys = [summary[RUN_KEY] for summary in said if RUN_KEY in summary]
    positions = _positions(table.properties, said)
    change = MetadataChange(
        table_uuid=str(table.metadata.table_uuid),
        expected_refs={MAIN: refs.get(MAIN), spec.branch: refs[spec.branch]},
        moved_refs=(RefMove(name=MAIN, kind="branch", snapshot=refs[spec.branch]),),
        removed_refs=(spec.branch,) if spec.drop_branch else (),
        set_properties=_with_run_keys(table.properties, keys) | _properties(positions),
    )
    return PlannedChange.of(
        table,
        spec,
        f"main is at snapshot {refs[spec.branch]}, the head of branch {spec.branch!r}",
        change,
        ref=MAIN,
        ref_before=refs.get(MAIN),
        ref_after=refs[spec.branch],
        committed=tuple(str(snapshot.snapshot_id) for snapshot in gained),
        run_keys_added=tuple(keys),
        source_positions={name: position.generation for name, position in positions.items()},
        warnings=tuple(_flink_jobs(table, spec, gained)) if spec.drop_branch else (),
    )


def _flink_jobs(table: Table, spec: PublishBranchSpec, gained: list[Snapshot]) -> list[str]:
    facts = {fact.id: fact for fact in snapshot_facts(table)}
    newest_first = [facts[snapshot.snapshot_id] for snapshot in reversed(gained)]
    return jobs_of_dropped_branch(newest_first, spec.branch, recent(JOB_AGE))


def _already_published(table: Table, spec: PublishBranchSpec) -> PlannedChange:
    refs, reason = refs_of(table), f"main has every snapshot of branch {spec.branch!r} already"
    if not spec.drop_branch:
        return PlannedChange.nothing(table, spec, reason)
    change = MetadataChange(
        table_uuid=str(table.metadata.table_uuid),
        expected_refs={spec.branch: refs[spec.branch]},
        removed_refs=(spec.branch,),
    )
    return PlannedChange.of(
        table, spec, f"{reason}; the branch was dropped", change, ref=spec.branch, ref_before=refs[spec.branch]
    )


def _lineage(table: Table, branch: str) -> dict[int, Snapshot]:
    """Return the snapshots of a branch, newest first."""
    return {found.snapshot_id: found for found in ancestors(table.metadata, table.snapshot_by_name(branch))}


def _with_run_keys(properties: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    recent, now = RecentRunKeys.read(properties), datetime.now(UTC)
    added = list(keys)
    for key in added:
        recent = recent.add(key, now)
    return recent.to_properties() if added else {}


def _positions(properties: Mapping[str, str], said: Iterable[Mapping[str, str]]) -> dict[str, SourcePosition]:
    """Return the positions that fall behind the snapshots that main gains, moved up to them.

    Which files a branch has consumed is noted nowhere. Only the count goes on, by which a rollback is told.
    """
    found: dict[str, SourcePosition] = {}
    for summary in said:
        for name, text in moved_sources(summary).items():
            generation = whole_number(text)
            position = found.get(name) or SourcePosition.read(properties, name)
            if generation is None:
                raise BrokenMetadataError(
                    f"a snapshot of the branch has {SOURCE_POSITION!r} {shown(text)} in its summary, expected a "
                    "whole number after the '='; it cannot be told what the branch has applied. Write the branch anew"
                )
            if generation > position.generation:
                found[name] = replace(position, generation=generation)
    return found


def _properties(positions: Mapping[str, SourcePosition]) -> dict[str, str]:
    return {key: value for name, found in positions.items() for key, value in found.to_properties(name).items()}
