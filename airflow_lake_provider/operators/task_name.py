"""Names of the tasks of an application, by which a later try or clearing of it knows each of them again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from airflow_lake_provider.contracts.applied.run_key import WHO_DIGITS
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.spec_codec import is_task_name

_CHANGES_OF_ROWS = (OverwritePartitionsSpec, DeleteRowsSpec, UpdateRowsSpec, RowExpirySpec)


def name_of(given: object, spec: JobSpec | InvalidSpecError, unrendered: object) -> tuple[str, ...]:
    """Return the name of a task, which its place in the list does not change.

    It is action and table, with the name that its author gives the task, or of a load the source and the branch. A
    deletion has the name of its keys, and an expiry of rows the column. An update has a digest of what it sets where:
    carried out again under another name, it would count twice. A deletion has none of its predicate, which whoever
    reads the digest could guess. Others of one name are told apart by their order.

    :param given: by the author, rendered.
    :param unrendered: the same before; a template of the time gives each process another text.
    """
    name = f"{_action(given)} {table_of(given)}"
    if (named := name_by_author(given, spec)) is not None:
        # In quotes, as a source may have the same name, or a column.
        return (name, f"'{named}'")
    if isinstance(spec, LoadSpec):
        # A branch has no position: only its run keeps an append from being added twice.
        branch = () if spec.branch is None else (f"on {spec.branch}",)
        return (name, *filter(None, (name_of_source(spec),)), *branch)
    if isinstance(spec, DeleteRowsSpec) and spec.keys_from is not None and spec.keys_from.name:
        return (name, spec.keys_from.name)
    if isinstance(spec, RowExpirySpec):
        return (name, spec.column)
    update = unrendered if isinstance(unrendered, UpdateRowsSpec) else spec
    if isinstance(update, UpdateRowsSpec):
        what = to_json({"assignments": update.assignments, "where": str(update.where)})
        return (name, hashlib.sha256(what.encode()).hexdigest()[:WHO_DIGITS])
    return (name,)


def numbered(names: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield names, with its number where one comes again."""
    counts = Counter[tuple[str, ...]]()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else (*name, f"#{counts[name]}")


def told_apart_by_order(names: Iterable[tuple[str, ...]], specs: Iterable[object]) -> Iterator[str]:
    """Yield the names of changes of rows that come again in a list, where another order would mix them up."""
    for name, spec in zip(names, specs, strict=True):
        if len(name) > 1 and name[-1].startswith("#") and isinstance(spec, _CHANGES_OF_ROWS):
            yield " ".join(name[:-1])


def name_by_author(given: object, spec: JobSpec | InvalidSpecError) -> str | None:
    """Return the name that the author gives a task, also one that is refused; None without one, or with no fit one."""
    if isinstance(given, Mapping):
        name = given.get("name")
        return name if is_task_name(name) else None
    named = given if isinstance(given, JobSpec) else spec
    return named.task_name if isinstance(named, JobSpec) else None


def table_of(given: object) -> str:
    """Return the table that a task writes, as far as it is known."""
    if isinstance(given, JobSpec):
        return given.table
    name = given.get("table", given.get("target")) if isinstance(given, Mapping) else None
    return name if isinstance(name, str) else "?"


def name_of_source(spec: LoadSpec) -> str | None:
    """Return the name that the author gives the source of a load; None without one."""
    name: str | None = getattr(spec.source, "name", None)
    return name


def _action(given: object) -> str:
    if isinstance(given, JobSpec):
        return given.action
    return str(given.get("action")) if isinstance(given, Mapping) else "?"
