"""Plan tags, the upgrade of a format version and the publication of a branch; a rollback has its own module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, moved_sources
from airflow_lake_provider.contracts.durations import epoch_millis, span_millis, to_iso
from airflow_lake_provider.contracts.errors import BrokenMetadataError, UnsupportedError
from airflow_lake_provider.contracts.property_values import shown, whole_number
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    MetadataChange,
    PublishBranchSpec,
    RefMove,
    TableUpgradeSpec,
)
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import HISTORY_AT, RUN_KEY, SOURCE_POSITION, newest_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_lake_provider.contracts.specs.job import JobSpec
    from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts, TableState
    from airflow_lake_provider.tables.base import LoadedTable


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    """One decision.

    :param change: None where nothing is left to do.
    :param report: as it is once the change is made.
    """

    change: MetadataChange | None
    report: MetadataChangeReport

    @classmethod
    def nothing(
        cls, table: LoadedTable, spec: JobSpec, reason: str, outcome: Outcome = Outcome.NOTHING_DUE
    ) -> PlannedChange:
        """Return that the table is already as it was asked for."""
        return cls(change=None, report=_report(table, spec, outcome, reason))

    @classmethod
    def of(cls, table: LoadedTable, spec: JobSpec, reason: str, change: MetadataChange, **facts: Any) -> PlannedChange:
        """Return a change.

        :param facts: fields of the report.
        """
        report = _report(table, spec, Outcome.DONE, reason)
        warnings = (*report.warnings, *facts.pop("warnings", ()))
        return cls(change=change, report=replace(report, warnings=warnings, **facts))


def _report(table: LoadedTable, spec: JobSpec, outcome: Outcome, reason: str) -> MetadataChangeReport:
    state: TableState | None = None
    warnings: tuple[str, ...] = ()
    try:
        state = table.state()
    except BrokenMetadataError as error:
        # A rollback is what helps where the head's files are gone.
        warnings = (f"the counts of main's head are not known: {error}",)
    return MetadataChangeReport(
        table=spec.table,
        outcome=outcome,
        reason=reason,
        operation=spec.action,
        before=state,
        after=state,
        format_version=table.facts.format_version,
        warnings=warnings,
    )


def plan_tag(table: LoadedTable, spec: CreateTagSpec) -> PlannedChange:
    """Decide where a tag goes.

    A tag that is there stays, unless it is to be replaced or another snapshot was named: a retry moves nothing.

    :param table: loaded now.
    :raises UnsupportedError: the name is taken, or there is no such snapshot.
    """
    facts = table.facts
    _refuse_branch(facts, spec.table, spec.tag)
    refs = facts.heads()
    there, wanted = refs.get(spec.tag), spec.snapshot_id or refs.get(MAIN)
    if wanted is None or wanted not in facts.snapshots:
        missing = f"snapshot {wanted} is not in the metadata" if wanted else "main has no snapshot"
        raise UnsupportedError(f"{spec.table}: tag {spec.tag!r} has nothing to be on: {missing}")
    max_age = None if spec.max_age is None else span_millis(spec.max_age)
    has_age = there is None or not spec.replace or max_age in (None, facts.references[spec.tag].max_ref_age)
    if there is not None and has_age and (there == wanted or not (spec.replace or spec.snapshot_id)):
        return PlannedChange.nothing(table, spec, f"tag {spec.tag!r} is on snapshot {there} already")
    if there is not None and not spec.replace:
        raise UnsupportedError(
            f"{spec.table}: tag {spec.tag!r} is on snapshot {there}, not on {wanted}; move it with replace=True"
        )
    change = MetadataChange(
        table_uuid=facts.uuid,
        expected_refs={spec.tag: there},
        moved_refs=(
            RefMove(
                name=spec.tag,
                kind="tag",
                snapshot=wanted,
                max_age_ms=max_age,
            ),
        ),
    )
    return PlannedChange.of(
        table,
        spec,
        f"tag {spec.tag!r} is on snapshot {wanted}",
        change,
        ref=spec.tag,
        ref_before=there,
        ref_after=wanted,
        warnings=tuple(_past_its_age(table, spec.tag, facts.snapshots[wanted], max_age)),
    )


def _past_its_age(table: LoadedTable, tag: str, snapshot: Snapshot, max_age: int | None) -> Iterator[str]:
    """Yield a warning where an expiry removes a tag at once: ages count from the snapshot, not from the tag.

    :param max_age: asked for, in milliseconds; None keeps that of a tag that is moved, or leaves it to the table.
    """
    whose, references = "the tag's max_age", table.facts.references
    if max_age is None and tag in references:
        max_age = references[tag].max_ref_age
    if max_age is None:
        whose, max_age = table.age_of_refs() or ("", None)
    if max_age is not None and epoch_millis(datetime.now(UTC)) - snapshot.at > max_age:
        yield (
            f"snapshot {snapshot.id} is older than {whose}, {to_iso(timedelta(milliseconds=max_age))}, so the next "
            f"expiry removes tag {tag!r}, and may remove the snapshot; give a max_age above the age of the snapshot"
        )


def plan_tag_removal(table: LoadedTable, spec: DropTagSpec) -> PlannedChange:
    """Decide whether there is a tag to remove.

    :param table: loaded now.
    :raises UnsupportedError: the name is a branch's.
    """
    _refuse_branch(table.facts, spec.table, spec.tag)
    there = table.facts.heads().get(spec.tag)
    if there is None:
        return PlannedChange.nothing(table, spec, f"there is no tag {spec.tag!r}")
    change = MetadataChange(table_uuid=table.facts.uuid, expected_refs={spec.tag: there}, removed_refs=(spec.tag,))
    return PlannedChange.of(table, spec, f"tag {spec.tag!r} was removed", change, ref=spec.tag, ref_before=there)


def _refuse_branch(facts: TableFacts, name: str, tag: str) -> None:
    ref = facts.references.get(tag)
    if ref is not None and ref.is_branch:
        raise UnsupportedError(f"{name}: {tag!r} is a branch of the table, not a tag")


def plan_upgrade(table: LoadedTable, spec: TableUpgradeSpec) -> PlannedChange:
    """Decide whether a table has to be upgraded, and warn of what changes for its readers and writers.

    :param table: loaded now.
    :raises UnsupportedError: another writer may fail after the upgrade.
    """
    facts, version = table.facts, table.facts.format_version
    if version >= spec.format_version:
        return PlannedChange.nothing(table, spec, f"the table has format version {version} already")
    harm = table.harmed_by_upgrade(spec.format_version)
    if harm is not None and not spec.allow_other_writers:
        raise UnsupportedError(f"{spec.table}: {harm}")
    change = MetadataChange(table_uuid=facts.uuid, format_version=spec.format_version)
    return PlannedChange.of(
        table,
        spec,
        f"the table went from format version {version} to {spec.format_version}; there is no way back",
        change,
        format_version=spec.format_version,
        warnings=(*table.changed_by_upgrade(spec.format_version), *filter(None, [harm])),
    )


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
    positions = _positions(properties, gained)
    harmed = table.harmed_by_dropping(spec.branch, gained) if spec.drop_branch else ()
    change = MetadataChange(
        table_uuid=table.facts.uuid,
        expected_refs={MAIN: refs.get(MAIN), spec.branch: refs[spec.branch]},
        moved_refs=(RefMove(name=MAIN, kind="branch", snapshot=refs[spec.branch]),),
        removed_refs=(spec.branch,) if spec.drop_branch else (),
        set_properties=_with_run_keys(properties, keys)
        | _properties(positions)
        | newest_entry(reversed(summaries), HISTORY_AT),
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


def _positions(properties: Mapping[str, str], gained: Sequence[Snapshot]) -> dict[str, SourcePosition]:
    """Return the positions that fall behind the snapshots that main gains, moved up to them.

    Which files a branch has consumed is noted nowhere. The count goes on, by which a rollback is told. The moment
    is noted, too: a file that was there before it may be in the table.

    :param gained: newest first.
    """
    positions: dict[str, SourcePosition] = {}
    for snapshot in reversed(gained):
        for name, text in moved_sources(snapshot.summary).items():
            generation = whole_number(text)
            position = positions.get(name) or SourcePosition.read(properties, name)
            if generation is None:
                raise BrokenMetadataError(
                    f"a snapshot of the branch has {SOURCE_POSITION!r} {shown(text)} in its summary, expected a "
                    "whole number after the '='; it cannot be told what the branch has applied. Write the branch anew"
                )
            moved_to = max(generation, position.generation)
            positions[name] = replace(position, generation=moved_to).published([snapshot])
    return positions


def _properties(positions: Mapping[str, SourcePosition]) -> dict[str, str]:
    return {key: value for name, position in positions.items() for key, value in position.to_properties(name).items()}
