"""Resolve a lost report: ask the table itself whether the commit was made."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from airflow_lake_provider.contracts.applied.applied_history import applied_runs
from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    LakeProviderError,
    MissingTableError,
    UnknownOutcomeError,
)
from airflow_lake_provider.contracts.reports.commit_counts import counts_in_summary, counts_in_words
from airflow_lake_provider.contracts.reports.job import DeleteRowsReport, JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import REPORTS
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.contracts.table_properties import ERASED_DIGEST
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

_WITH_RUN_KEYS = (LoadSpec, IncrementalSpec, DeleteRowsSpec, UpdateRowsSpec, RowExpirySpec)


@dataclass(frozen=True)
class LostReport:
    """The run keys of one task that a table knew before a submission.

    :param branch: that is written.
    :param run_keys: those before; a new one afterwards proves the commit.
    """

    lake: LakeCatalogHook
    spec: JobSpec
    branch: str
    run_keys: frozenset[str]

    @classmethod
    def before(cls, lake: LakeCatalogHook, spec: JobSpec, branch: str) -> LostReport:
        """Look at the table before the driver starts."""
        lost_report = cls(lake, spec, branch, frozenset())
        return replace(lost_report, run_keys=frozenset(lost_report._applied()[1]))

    def of_any_try(self) -> LostReport:
        """Return one to which a commit of an earlier try counts, too."""
        return replace(self, run_keys=frozenset())

    def has_made(self, run_key: str | None) -> bool:
        """Tell whether a commit is there that was not before; False where the catalog does not say."""
        if run_key is None or run_key in self.run_keys:
            return False
        with suppress(LakeProviderError):
            return run_key in self._run_keys_after
        return False

    @cached_property
    def _run_keys_after(self) -> frozenset[str]:
        """Those that the table knows once the driver has ended; event, metrics and lineage ask for them in turn."""
        return frozenset(self._applied()[1])

    def resolve(self, lost: LakeProviderError) -> JobReport:
        """Return a report when the commit was made.

        :param lost: raised when it did not.
        :raises UnknownOutcomeError: the catalog does not answer either.
        """
        try:
            facts, applied = self._applied()
        except CatalogUnavailableError as error:
            raise UnknownOutcomeError(
                f"{lost} Whether it committed is not known, the catalog does not answer: {error} A retry is safe."
            ) from lost
        new = [key for key in applied if key not in self.run_keys]
        if not new:
            raise lost
        snapshot = applied[new[0]]
        report = REPORTS[self.spec.action]
        summary = _summary(facts, snapshot)
        counts = counts_in_summary(report, summary)
        proof: dict[str, Any] = {"erased_digest": summary.get(ERASED_DIGEST)} if report is DeleteRowsReport else {}
        return report(
            table=self.spec.table,
            outcome=Outcome.APPLIED,
            reason="the driver's report was lost, but the table holds the commit of run key "
            f"{new[0]}{counts_in_words(counts)}",
            run_key=new[0],
            committed=(snapshot,) if snapshot else (),
            warnings=("the driver's report was lost: counts are from the snapshot's summary, as far as it has them",),
            **counts,
            **proof,
        )

    def _applied(self) -> tuple[TableFacts | None, dict[str, str | None]]:
        """Return the table's facts, and run key to snapshot id of what this task has committed to it.

        :return: nothing for actions without run keys, of a missing table, and of a format that workers do not read.
        """
        if not isinstance(self.spec, _WITH_RUN_KEYS) or not self.lake.table_format.worker:
            return None, {}
        try:
            facts = self.lake.loaded(self.spec.table).facts
        except MissingTableError:
            return None, {}
        return facts, applied_runs(facts, self.spec.run.who, self.branch)


def _summary(facts: TableFacts | None, snapshot: str | None) -> Mapping[str, str]:
    commit = facts.snapshots.get(snapshot) if facts is not None and snapshot else None
    return commit.summary if commit is not None else {}
