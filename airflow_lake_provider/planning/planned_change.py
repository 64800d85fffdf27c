"""A decision of the worker on a change of metadata: what to commit, and the report of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.reports.job import MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.specs.job import JobSpec
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
        return cls(change=change, report=replace(_report(table, spec, Outcome.DONE, reason), **facts))


def _report(table: LoadedTable, spec: JobSpec, outcome: Outcome, reason: str) -> MetadataChangeReport:
    state = table.state()
    return MetadataChangeReport(
        table=spec.table,
        outcome=outcome,
        reason=reason,
        operation=spec.action,
        before=state,
        after=state,
        format_version=table.facts.format_version,
    )
