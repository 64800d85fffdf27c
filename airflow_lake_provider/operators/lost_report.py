"""Resolve a lost report: ask the table itself whether the commit was made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    JobFailedError,
    MissingTableError,
    UnknownOutcomeError,
)
from airflow_lake_provider.contracts.incremental_spec import IncrementalSpec
from airflow_lake_provider.contracts.job_report import REPORTS, JobReport, Outcome
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.snapshots.run_keys_in_history import applied_runs

_WITH_RUN_KEYS = (UpsertSpec, IncrementalSpec, DeleteRowsSpec, UpdateRowsSpec)


@dataclass(frozen=True)
class LostReport:
    """The run keys of one task that a table knew before a submission.

    :param known: run keys; a new one afterwards proves the commit.
    """

    lake: LakeCatalogHook
    spec: JobSpec
    known: frozenset[str]

    @classmethod
    def before(cls, lake: LakeCatalogHook, spec: JobSpec) -> LostReport:
        """Look at the table before the driver starts."""
        lost_report = cls(lake, spec, frozenset())
        return replace(lost_report, known=frozenset(lost_report._applied()))

    def of_any_try(self) -> LostReport:
        """Return one to which a commit of an earlier try counts, too."""
        return replace(self, known=frozenset())

    def resolve(self, lost: JobFailedError) -> JobReport:
        """Return a report when the commit was made.

        :param lost: raised when it did not.
        :raises UnknownOutcomeError: the catalog does not answer either.
        """
        try:
            applied = self._applied()
        except CatalogUnavailableError as error:
            raise UnknownOutcomeError(
                f"{lost} Whether it committed is not known, the catalog does not answer: {error} A retry is safe."
            ) from lost
        new = [key for key in applied if key not in self.known]
        if not new:
            raise lost
        snapshot = applied[new[0]]
        return REPORTS[self.spec.action](
            table=self.spec.table,
            outcome=Outcome.APPLIED,
            reason=f"the driver's report was lost, but the table holds the commit of run key {new[0]}",
            run_key=new[0],
            committed=(snapshot,) if snapshot else (),
            warnings=("the driver's report was lost: counts are not known",),
        )

    def _applied(self) -> dict[str, str | None]:
        """Return run key to snapshot id of what this task has committed; nothing for actions without run keys."""
        if not isinstance(self.spec, _WITH_RUN_KEYS):
            return {}
        try:
            return applied_runs(self.lake.load_table(self.spec.table), self.spec.run.who, self.spec.target_branch)
        except MissingTableError:
            return {}
