"""Say why a run leaves its table as it is, and what an earlier try of it has committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.commit_counts import counts_in_summary, counts_in_words
from airflow_lake_provider.contracts.job_report import JobReport, Outcome
from airflow_lake_provider.contracts.table_facts import Snapshot


@dataclass(frozen=True)
class Unchanged:
    """A run that leaves the table as it is.

    :param reason: for the report.
    :param warning: what its reader should know beside it; None for nothing.
    :param run_key: by which an earlier try was recognised; None for other reasons.
    :param commit: of that try; None where its snapshot has expired.
    """

    outcome: Outcome
    reason: str
    warning: str | None = None
    run_key: str | None = None
    commit: Snapshot | None = None

    def told(self, report: type[JobReport]) -> dict[str, Any]:
        """Return the fields of a report that say why, and what an earlier try did."""
        warnings = (self.warning,) if self.warning else ()
        if self.run_key is None:
            return {"outcome": self.outcome, "reason": self.reason, "warnings": warnings}
        counts = counts_in_summary(report, self.commit.summary if self.commit else {})
        expired = "the snapshot of its commit has expired: what it did is not known any more"
        in_snapshot = f", in snapshot {self.commit.id}{counts_in_words(counts)}" if self.commit else ""
        return {
            "outcome": self.outcome,
            "reason": f"{self.reason}{in_snapshot}",
            "run_key": self.run_key,
            "committed": (str(self.commit.id),) if self.commit else (),
            "warnings": warnings if self.commit else (*warnings, expired),
            **counts,
        }
