"""Say why a run leaves its table as it is."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.job_report import Outcome


@dataclass(frozen=True)
class Unchanged:
    """A run that leaves the table as it is.

    :param reason: for the report.
    :param warning: what its reader should know beside it; None for nothing.
    """

    outcome: Outcome
    reason: str
    warning: str | None = None
