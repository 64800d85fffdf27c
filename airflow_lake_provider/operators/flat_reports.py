"""The reports that verdicts judge, of one task or of many, in one row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow.sdk import XComArg

from airflow_lake_provider.contracts.errors import InvalidSpecError


def flat_reports(reports: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the reports of a task, of several ones, or of the instances of a mapped one; None is no report.

    :param reports: XCom of the tasks.
    :raises InvalidSpecError: it has what is no report.
    """
    if isinstance(reports, Mapping) and "outcome" in reports:
        yield reports
    elif isinstance(reports, Iterable) and not isinstance(reports, (str, bytes, Mapping)):
        for each in reports:
            yield from flat_reports(each)
    elif reports is not None:
        kind = "a mapping with no 'outcome'" if isinstance(reports, Mapping) else f"a {type(reports).__name__}"
        raise InvalidSpecError(f"reports must be what lake operators leave in XCom, got {kind}; give their output")


def names_of_tasks(reports: Any) -> list[str]:
    """Return what names each of several tasks whose XCom is asked for: its id, or else its place in the list.

    :param reports: before they are rendered.
    """
    given = reports if isinstance(reports, (list, tuple)) else [reports]
    ids = [[task.task_id for task, _ in XComArg.iter_xcom_references(each)] for each in given]
    return [", ".join(of_one) or f"reports[{number}]" for number, of_one in enumerate(ids)]


def without_report(reports: Any, names: list[str]) -> list[str]:
    """Return the names of those of several tasks that have left no report.

    :param reports: XCom of the tasks.
    :param names: of :func:`names_of_tasks`; a template may make other reports than these.
    """
    given = reports if isinstance(reports, (list, tuple)) else [reports]
    named = names if len(names) == len(given) else [f"reports[{number}]" for number in range(len(given))]
    return [name for name, each in zip(named, given, strict=True) if each is None]
