"""Plan an expiry of rows from metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from pyiceberg.expressions import BooleanExpression, LessThan, Reference
from pyiceberg.expressions.literals import literal

from airflow_lake_provider.contracts.reports.job import Outcome, RowExpiryReport
from airflow_lake_provider.contracts.row_age import AgeLimit, age_limit, age_sentence, most_rows
from airflow_lake_provider.contracts.table_properties import EXPIRED_BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.types import NestedField

    from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
    from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts, TableState
    from airflow_lake_provider.tables.iceberg.file_groups import FileRecord
    from airflow_lake_provider.tables.iceberg.live_files import LiveFiles


class _Table(Protocol):
    """Table as the plan asks it, such as :class:`.LoadedIcebergTable`."""

    @property
    def facts(self) -> TableFacts: ...
    def state(self) -> TableState: ...
    def column(self, name: str) -> NestedField | None: ...
    def live_files(self, where: str | BooleanExpression | None, column: NestedField | None = None) -> LiveFiles: ...


def plan_row_expiry(table: _Table, spec: RowExpirySpec) -> RowExpiryReport:
    """Tell which files have rows that are too old, by their bounds; manifests are read, and no data file.

    Rows are counted at most: of a file with younger ones, nobody knows how many are old.

    :raises InvalidSpecError: the column is missing, or has no time.
    """
    before, shape = table.state(), table.facts.shape
    columns = {name: shape.columns[name] for name in shape.names}
    asked_at = spec.asked_at or datetime.now(UTC)
    limit = age_limit(spec, columns, asked_at, table.facts.ancestors())
    report = RowExpiryReport(
        table=spec.table, outcome=Outcome.NOTHING_NEW, reason=age_sentence(spec, limit), before=before
    )
    if limit is None or before.snapshot is None:
        return report
    old = table.live_files(
        LessThan(term=Reference(spec.column), value=literal(limit.literal)), table.column(spec.column)
    ).data
    old = _without_expired(old, table.facts.ancestors(), limit)
    whole = [file for file in old if _is_whole(file, limit)]
    rows = sum(file.records for file in old)
    return RowExpiryReport(
        table=spec.table,
        outcome=Outcome.PLANNED if old else Outcome.NOTHING_NEW,
        reason=f"{report.reason}; {_sentence(spec, before, rows, sum(file.records for file in whole))}",
        before=before,
        expired_before=limit.literal,
        rows_deleted=rows,
        files_removed=len(whole),
        files_changed=len(old) - len(whole),
    )


def _is_whole(file: FileRecord, limit: AgeLimit) -> bool:
    """Tell whether bounds say that all rows are too old."""
    return file.bounds is not None and file.nulls == 0 and bool(file.bounds[1] < limit.number)


def _without_expired(files: Sequence[FileRecord], history: Iterable[Snapshot], limit: AgeLimit) -> list[FileRecord]:
    """Leave out the files that were there when rows of this very age went: bounds go on naming deleted rows."""
    newer: set[str] = set()
    for snapshot in history:
        if snapshot.summary.get(EXPIRED_BEFORE) == limit.text:
            return [file for file in files if file.snapshot is None or file.snapshot in newer]
        newer.add(snapshot.id)
    return list(files)


def _sentence(spec: RowExpirySpec, before: TableState, most: int, least: int) -> str:
    total = max(1, before.rows + before.deleted_rows)
    if not most:
        return "no file has such a row"
    limit = most_rows(spec.max_share, total)
    is_refused = limit is not None and most > limit
    refused = f"; more than max_share={spec.max_share:g} would be refused" if is_refused else ""
    return f"{least:,} to {most:,} of {total:,} rows would go, {least / total:.0%} to {most / total:.0%}{refused}"
