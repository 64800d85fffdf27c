"""Tasks of an application that do not go together: two of one name or batch, and plans behind changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeGuard

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec
from airflow_lake_provider.operators.task_name import name_of_source


def without_clashes(
    written: Sequence[JobSpec | InvalidSpecError], is_planned_first: Callable[[JobSpec], bool]
) -> list[JobSpec | InvalidSpecError]:
    """Return the specs, with an error in place of each that does not go with another one of the job.

    :param is_planned_first: tells whether a task is planned before the application starts.
    """
    named = Counter(map(_named, written))
    unnamed = Counter(spec.table for spec in written if _needs_name(spec))
    batches = Counter(_batch(spec) for spec in written if isinstance(spec, LoadSpec) and spec.batch_id)
    sent: dict[str, list[JobSpec]] = {}
    checked: list[JobSpec | InvalidSpecError] = []
    for spec in written:
        clash = None if isinstance(spec, InvalidSpecError) else _clash_of_names(spec, named, unnamed, batches)
        if clash is None and isinstance(spec, JobSpec) and is_planned_first(spec):
            clash = _clash_of_order(spec, sent.get(spec.table, ()))
        checked.append(spec if clash is None else InvalidSpecError(clash))
        if isinstance(spec, JobSpec):
            sent.setdefault(spec.table, []).append(spec)
    return checked


def _clash_of_names(
    spec: JobSpec,
    named: Counter[tuple[str, ...]],
    unnamed: Counter[str],
    batches: Counter[tuple[str, ...]],
) -> str | None:
    if spec.task_name is not None and named[_named(spec)] > 1:
        return (
            f"{spec.table}: {named[_named(spec)]} tasks {spec.action!r} have the name {spec.task_name!r}; give each "
            "another one"
        )
    if _needs_name(spec) and unnamed[spec.table] > 1:
        return (
            f"{spec.table}: {unnamed[spec.table]} loads have a source without a name, under which the table keeps "
            "its position; give each a name, for example Files(..., name='orders_eu')"
        )
    if isinstance(spec, LoadSpec) and spec.batch_id and batches[_batch(spec)] > 1:
        return f"{spec.table}: two loads of the table have batch_id {spec.batch_id!r} and one source; they are one"
    return None


def _clash_of_order(spec: JobSpec, earlier: Sequence[JobSpec]) -> str | None:
    if not earlier or _are_different_tags([*earlier, spec]):
        return None
    what = "a dry run" if getattr(spec, "dry_run", False) else spec.action
    return (
        f"{spec.table}: {what} is planned before the application starts, so it cannot stand behind another task of "
        "its table; give it first, or an operator of its own"
    )


def _are_different_tags(specs: Sequence[JobSpec]) -> bool:
    """Tell whether each makes a tag of its own, so that each is planned and committed whatever became of the others."""
    names = [spec.tag for spec in specs if isinstance(spec, CreateTagSpec)]
    return len(set(names)) == len(specs)


def _needs_name(spec: JobSpec | InvalidSpecError) -> TypeGuard[LoadSpec]:
    """Tell whether the table keeps a position for the task, under a name that its author does not give."""
    return isinstance(spec, LoadSpec) and spec.keeps_position and not name_of_source(spec)


def _named(spec: JobSpec | InvalidSpecError) -> tuple[str, ...]:
    return (spec.action, spec.table, spec.task_name or "") if isinstance(spec, JobSpec) else ()


def _batch(spec: LoadSpec) -> tuple[str, ...]:
    return spec.table, str(spec.batch_id), name_of_source(spec) or ""
