"""Plan the creation, the replacement and the removal of a tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.durations import span_millis
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import (
    MAIN,
    CreateTagSpec,
    DropTagSpec,
    MetadataChange,
    RefMove,
)
from airflow_lake_provider.planning.planned_change import PlannedChange

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.table_facts import TableFacts
    from airflow_lake_provider.tables.base import LoadedTable


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
    if there is not None and (there == wanted or not (spec.replace or spec.snapshot_id)):
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
                max_age_ms=None if spec.max_age is None else span_millis(spec.max_age),
            ),
        ),
    )
    reason = f"tag {spec.tag!r} is on snapshot {wanted}"
    return PlannedChange.of(table, spec, reason, change, ref=spec.tag, ref_before=there, ref_after=wanted)


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
