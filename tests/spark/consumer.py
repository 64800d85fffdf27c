"""A target table that follows another one, run as the driver runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import IncrementalReport
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow

QUERY = "SELECT id, name, n * 10 AS revenue, _change_type FROM changes"


@dataclass
class Consumer:
    """A target table that follows the table of a flow."""

    source: Flow
    target: Flow

    def run(self, run: str | RunIdentity, progress: Progress | None = None, **changes: Any) -> IncrementalReport:
        arguments: dict[str, Any] = {
            "catalog": "lake_default",
            "table": self.target.table,
            "run": run if isinstance(run, RunIdentity) else RunIdentity.of("dag", run, "task", "-1"),
            "source": self.source.table,
            "consumer": "revenue",
            "keys": ("id",),
            "to_snapshot": self.source.head(),
            "query": QUERY,
        }
        spec = IncrementalSpec(**{**arguments, **changes})
        return run_incremental(self.source.spark, spec, progress or Progress())

    def commit(self, run: str, *rows: dict[str, Any]) -> None:
        self.source.arrive(f"{run}.jsonl", *rows)
        self.source.apply(run)

    def copy(self, name: str) -> Consumer:
        """Register both tables under another name, as they are now."""
        return Consumer(self.source.copy(f"source.{name}"), self.target.copy(f"mart.{name}"))

    def expected(self) -> dict[int, tuple[Any, ...]]:
        """Compute the target from the whole source, in plain Python."""
        return {key: (name, n * 10) for key, (name, n) in self.source.rows().items()}
