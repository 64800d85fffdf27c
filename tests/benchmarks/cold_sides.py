"""Whole applications that a cold comparison runs: our upsert, a bare MERGE, and an empty application of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_lake_provider import Files
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.benchmarks.cold_tables import ColdTables
from tests.benchmarks.submitted_lake import EMPTY, SubmittedLake, task_context
from tests.benchmarks.upsert_tables import PLAIN

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook
    from airflow_lake_provider.operators.spark_application import TaskResult

CATALOG = "lake"
DRIVER_MEMORY = os.environ.get("LAKE_BENCH_MEMORY", "6g")
# As a user writes it on one machine: with Spark's 200 partitions it would lose seconds.
BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
spark.sql(sys.argv[1])
spark.stop()
"""
# The session that a job of ours opens, and the report without which the operator would fail.
EMPTY_OF_OURS = """
import sys
from pathlib import Path
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.reports.report_codec import reports_to_json
from airflow_lake_provider.spark_jobs.session.open_session import open_session
spark, _ = open_session()
nothing = UpsertReport(table="bench.ours", outcome=Outcome.NOTHING_NEW, reason="an empty application")
Path(sys.argv[sys.argv.index("--report") + 1]).write_text(reports_to_json({"task": nothing}))
spark.stop()
"""


class EmptyOperator(LakeUpsertOperator):
    """Submit an empty application with everything that the upsert's operator gives to its own.

    Counted are the seconds of ``spark-submit`` alone: what the worker does around it is a cost of ours.
    """

    submit_seconds = 0.0

    def __init__(self, *, script: Path, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.script = script

    def _get_hook(self) -> LakeSparkSubmitHook:
        hook = super()._get_hook()
        self.application = str(self.script)
        return hook

    def _submit(self, attempt: Any, context: Any) -> dict[str, TaskResult]:
        started = time.monotonic()
        reports = super()._submit(attempt, context)
        self.submit_seconds = time.monotonic() - started
        return reports


@dataclass(frozen=True)
class ColdSides:
    """The four applications of a round."""

    lake: SubmittedLake
    tables: ColdTables

    def all(self) -> dict[str, Callable[[int], float]]:
        """Return what runs each of them in a round, and returns its seconds."""
        return {
            "ours_empty": self.run_ours_empty,
            "ours": self.run_ours,
            "bare_empty": lambda _: self.lake.submit(EMPTY),
            "bare": self.run_bare,
        }

    def run_ours(self, number: int) -> float:
        """Upsert the round's batch through the operator, as a task does."""
        operator = LakeUpsertOperator(**self._arguments(number))
        started = time.monotonic()
        report = operator.execute(task_context(f"{self.tables.ours} {number}"))
        took = time.monotonic() - started
        if report["outcome"] != "applied":
            raise SystemExit(f"nothing was measured: {report}")
        phases = {phase: round(seconds, 2) for phase, seconds in report["seconds"].items()}
        print(f"   {report['strategy']}, phases: {phases}", flush=True)
        return took

    def run_ours_empty(self, number: int) -> float:
        """Submit an empty application as the operator submits the upsert."""
        script = self.lake.home / "empty.py"
        script.write_text(EMPTY_OF_OURS)
        operator = EmptyOperator(script=script, **self._arguments(number))
        operator.execute(task_context(f"empty {self.tables.ours} {number}"))
        return operator.submit_seconds

    def run_bare(self, number: int) -> float:
        """Submit a script with the MERGE that a user writes."""
        return self.lake.submit(BARE, PLAIN.merge(self.tables.bare, self.tables.batches[number]))

    def _arguments(self, number: int) -> dict[str, Any]:
        return {
            "task_id": "bench",
            "table": self.tables.ours.removeprefix(f"{CATALOG}."),
            "source": Files(self.tables.batches[number], format="parquet"),
            "keys": ["id"],
            "order_by": ["n"],
            "lake_conn_id": CATALOG,
            "driver_memory": DRIVER_MEMORY,
        }
