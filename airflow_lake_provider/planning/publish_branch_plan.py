"""Plan the publication of a branch: main moves forward to its head, and takes over what was applied there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, moved_sources
from airflow_lake_provider.contracts.errors import BrokenMetadataError, UnsupportedError
from airflow_lake_provider.contracts.property_values import shown, whole_number
from airflow_lake_provider.contracts.specs.metadata_changes import MAIN, MetadataChange, PublishBranchSpec, RefMove
from airflow_lake_provider.contracts.table_properties import RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.planning.planned_change import PlannedChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_lake_provider.contracts.table_facts import Snapshot
    from airflow_lake_provider.tables.base import LoadedTable


def plan_publication(table: LoadedTable, spec: PublishBranchSpec) -> PlannedChange:
    """Decide what main gains by a branch.

    :param table: loaded now.
    :raises UnsupportedError: there is no such branch, or main has commits that the branch lacks.
    """
    facts = table.facts
    branch = facts.references.get(spec.branch)
    if branch is None and spec.drop_branch:
        reason = f"there is no branch {spec.branch!r}: it was published and dropped, or nothing was written to it"
        return PlannedChange.nothing(table, spec, reason)
    if branch is None or not branch.is_branch:
        raise UnsupportedError(
            f"{spec.table}: there is no branch {spec.branch!r}; its refs are {sorted(facts.references)}"
        )
    main = facts.newest()
    if main is not None and any(snapshot.id == branch.snapshot for snapshot in facts.ancestors()):
        return _already_published(table, spec)
    gained = list(facts.ancestors(spec.branch))
    if main is not None:
        if main not in gained:
            raise UnsupportedError(
                f"{spec.table}: main is at snapshot {main.id}, which branch {spec.branch!r} lacks, so main "
                "cannot be moved forward to it. Drop the branch, and write the batch again: it then starts from main"
            )
        gained = gained[: gained.index(main)]
    return _publication(table, spec, gained)


def _publication(table: LoadedTable, spec: PublishBranchSpec, gained: list[Snapshot]) -> PlannedChange:
    """Return the change that gives main some snapshots.

    :param gained: newest first.
    """
    properties, refs = table.facts.properties, table.facts.heads()
    summaries = [snapshot.summary for snapshot in reversed(gained)]
    keys = [summary[RUN_KEY] for summary in summaries if RUN_KEY in summary]
    positions = _positions(properties, summaries)
    harmed = table.harmed_by_dropping(spec.branch, gained) if spec.drop_branch else ()
    change = MetadataChange(
        table_uuid=table.facts.uuid,
        expected_refs={MAIN: refs.get(MAIN), spec.branch: refs[spec.branch]},
        moved_refs=(RefMove(name=MAIN, kind="branch", snapshot=refs[spec.branch]),),
        removed_refs=(spec.branch,) if spec.drop_branch else (),
        set_properties=_with_run_keys(properties, keys) | _properties(positions),
    )
    return PlannedChange.of(
        table,
        spec,
        f"main is at snapshot {refs[spec.branch]}, the head of branch {spec.branch!r}",
        change,
        ref=MAIN,
        ref_before=refs.get(MAIN),
        ref_after=refs[spec.branch],
        committed=tuple(snapshot.id for snapshot in reversed(gained)),
        run_keys_added=tuple(keys),
        source_positions={name: position.generation for name, position in positions.items()},
        warnings=tuple(harmed),
    )


def _already_published(table: LoadedTable, spec: PublishBranchSpec) -> PlannedChange:
    refs, reason = table.facts.heads(), f"main has every snapshot of branch {spec.branch!r} already"
    if not spec.drop_branch:
        return PlannedChange.nothing(table, spec, reason)
    change = MetadataChange(
        table_uuid=table.facts.uuid,
        expected_refs={spec.branch: refs[spec.branch]},
        removed_refs=(spec.branch,),
    )
    return PlannedChange.of(
        table, spec, f"{reason}; the branch was dropped", change, ref=spec.branch, ref_before=refs[spec.branch]
    )


def _with_run_keys(properties: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    recent, now = RecentRunKeys.read(properties), datetime.now(UTC)
    added = list(keys)
    for key in added:
        recent = recent.add(key, now)
    return recent.to_properties() if added else {}


def _positions(properties: Mapping[str, str], summaries: Iterable[Mapping[str, str]]) -> dict[str, SourcePosition]:
    """Return the positions that fall behind the snapshots that main gains, moved up to them.

    Which files a branch has consumed is noted nowhere. Only the count goes on, by which a rollback is told.
    """
    positions: dict[str, SourcePosition] = {}
    for summary in summaries:
        for name, text in moved_sources(summary).items():
            generation = whole_number(text)
            position = positions.get(name) or SourcePosition.read(properties, name)
            if generation is None:
                raise BrokenMetadataError(
                    f"a snapshot of the branch has {SOURCE_POSITION!r} {shown(text)} in its summary, expected a "
                    "whole number after the '='; it cannot be told what the branch has applied. Write the branch anew"
                )
            if generation > position.generation:
                positions[name] = replace(position, generation=generation)
    return positions


def _properties(positions: Mapping[str, SourcePosition]) -> dict[str, str]:
    return {key: value for name, position in positions.items() for key, value in position.to_properties(name).items()}
