"""Counts of a commit in its snapshot's summary: a retry reports a commit whose own report was lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.reports.job import (
    DeleteRowsReport,
    JobReport,
    LoadReport,
    OverwritePartitionsReport,
    RowExpiryReport,
    UpdateRowsReport,
)
from airflow_lake_provider.contracts.table_properties import ROWS_MATCHED

ReportT = TypeVar("ReportT", bound=LoadReport)
# Counts of a report that no summary has.
_OF_TRIES = ("attempts", "audit_runs", "events_dropped")
# Names in the summary by the fields of reports.
_NAMES = {
    name: f"lake.{name.replace('_', '-')}"
    for name in (
        "batch_files",
        "batch_rows",
        "batch_keys",
        "rows_inserted",
        "rows_updated",
        "rows_deleted",
        "rows_unchanged",
        "rows_appended",
        "rows_written",
        "rows_replaced",
        "partitions_replaced",
        "duplicates_in_batch",
        "duplicates_in_table",
        "dead_letters",
        "upserts_read",
        "deletes_read",
    )
}
# Since Spark 4.1 a MERGE writes them itself.
_OF_MERGE = {
    f"rows_{change}": f"spark.merge-into.num-target-rows-{change}" for change in ("inserted", "updated", "deleted")
}
_OTHERWISE: dict[type[JobReport], dict[str, str]] = {
    # Which rows go is known in the commit alone.
    OverwritePartitionsReport: {
        "rows_replaced": "deleted-records",
        "partitions_replaced": "changed-partition-count",
    },
    DeleteRowsReport: {"rows_deleted": ROWS_MATCHED},
    RowExpiryReport: {"rows_deleted": ROWS_MATCHED},
    UpdateRowsReport: {"rows_updated": ROWS_MATCHED},
}


def counts_to_summary(**counts: int | None) -> dict[str, str]:
    """Return entries for the summary of a snapshot that is about to be committed.

    :param counts: by the fields of reports; None for what nobody counted.
    """
    return {_NAMES[field]: str(count) for field, count in counts.items() if count is not None}


def counts_in_summary(report: type[JobReport], summary: Mapping[str, str]) -> dict[str, Any]:
    """Return a report's counts by field, read from a snapshot's summary; None for those that it lacks.

    :param summary: of a snapshot; empty where it has expired.
    """
    names = [field.name for field in fields(report) if field.name in _NAMES]
    return {name: _count(report, summary, name) for name in names}


_MORE = re.compile(r"; \d+ more commits? followed, ")


def of_both(earlier: ReportT, later: ReportT) -> ReportT:
    """Return one report of the commits of a run, each of which has input of its own.

    :param later: of one more commit, or why there was none.
    """
    if not later.committed:
        return replace(earlier, warnings=_both("warnings", earlier, later), seconds=later.seconds)
    counted = [field.name for field in fields(later) if field.name in (*_NAMES, *_OF_TRIES)]
    counts: dict[str, Any] = {name: _sum(getattr(earlier, name), getattr(later, name)) for name in counted}
    listed: dict[str, Any] = {name: _both(name, earlier, later) for name in ("committed", "schema_changes", "warnings")}
    # Only the first one says what was lost, or has changed, before the run.
    first, more = _MORE.split(earlier.reason)[0], len(listed["committed"]) - 1
    reason = f"{first}; {more} more {'commit' if more == 1 else 'commits'} followed, the last of which {later.reason}"
    return replace(later, before=earlier.before, reason=reason, **listed, **counts)


def _both(name: str, earlier: JobReport, later: JobReport) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*getattr(earlier, name), *getattr(later, name))))


def _sum(earlier: int | None, later: int | None) -> int | None:
    return None if earlier is None or later is None else earlier + later


def counts_in_words(counts: Mapping[str, int | None]) -> str:
    """Return the counts of :func:`counts_in_summary` as the end of a sentence; empty without any."""
    parts = [f"{count:,} {_words(name)}" for name, count in counts.items() if count is not None]
    return f": {', '.join(parts)}" if parts else ""


def _words(name: str) -> str:
    noun, _, change = name.partition("_")
    if noun == "dead":
        return f"{noun} {change}"
    if noun == "batch":
        return "keys" if change == "keys" else f"{change} read"
    if noun == "duplicates":
        return f"{noun} {change.replace('_', ' the ')}"
    return f"{noun} {change}" if noun in ("rows", "partitions") else f"{noun} read"


def _count(report: type[JobReport], summary: Mapping[str, str], name: str) -> int | None:
    other = {**_OF_MERGE, **_OTHERWISE.get(report, {})}.get(name, "")
    count = whole_number(summary.get(_NAMES[name]))
    return whole_number(summary.get(other)) if count is None else count
