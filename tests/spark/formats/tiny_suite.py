"""The behaviour suite for the format that only tests have: its session, and what reads its tables back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.capabilities import FORMATS
from airflow_lake_provider.contracts.reports.job import UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.spark.formats.suite import FormatSuite
from tests.spark.formats.tiny_format import WAREHOUSE, TinyTable
from tests.spark.upsert_flow import Flow
from tests.tiny_format import TINY


class TinyFlow(Flow):
    """A table of the format, run as the driver runs it and read back by pyarrow."""

    def spec(self, run: str = "run 1", **changes: Any) -> UpsertSpec:
        return super().spec(run, **{"table_format": TINY.name, **changes})

    def apply(self, run: str = "run 1", progress: Progress | None = None, **changes: Any) -> UpsertReport:
        report = dispatch_action(self.spark, self.spec(run, **changes), progress or Progress())
        assert isinstance(report, UpsertReport)
        return report

    def heads(self) -> list[dict[str, Any]]:
        """All heads that the table has had, oldest first."""
        folder = Path(str(self.spark.conf.get(WAREHOUSE))) / self.table
        return [json.loads(path.read_text()) for path in TinyTable(self.spark, folder).heads()]

    def head(self) -> str:
        return str(self.heads()[-1]["version"])

    def properties(self) -> dict[str, str]:
        return dict(self.heads()[-1]["properties"])

    def records(self, branch: str = "main") -> list[dict[str, Any]]:
        assert branch == "main"
        found: list[dict[str, Any]] = pq.read_table(self.heads()[-1]["rows"]).to_pylist()
        return found

    def rows_of_spark(self) -> dict[int, tuple[Any, ...]]:
        found = self.spark.read.parquet(self.heads()[-1]["rows"]).collect()
        return {each["id"]: (each["name"], each["n"]) for each in found}

    def commits_of(self, run_key: str | None, branch: str = "main") -> int:
        assert branch == "main"
        return sum(1 for head in self.heads() if head["run_key"] == run_key)


class TinySuite(FormatSuite):
    """Tables of Parquet files."""

    capabilities = TINY
    flow_kind = TinyFlow
    counts_rows = False

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
        session = spark.newSession()
        session.conf.set(WAREHOUSE, str(tmp_path_factory.mktemp("tiny")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(FORMATS, TINY.name, TINY)
            yield session
