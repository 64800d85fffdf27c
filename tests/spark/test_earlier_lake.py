"""A lake of an earlier commit: each source goes on where its table stands, nothing applied twice, nothing lost."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import IncrementalReport, Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.earlier_lake import REVENUE, Rows, deliveries, revenue, write
from tests.spark.conftest import EARLIER_MOUNT
from tests.spark.upsert_flow import Flow

LAKE = Path(__file__).parents[1] / "data" / "lake_of_9bcfaf4" / "lake.tar.xz"
DELIVERIES = deliveries()


class EarlierLake:
    """The lake, unpacked where a mount leads that all its locations name."""

    def __init__(self, spark: SparkSession) -> None:
        mounted = spark.sparkContext.getConf().get(f"{EARLIER_MOUNT}./inbox") or ""
        self.spark, self.folder = spark, Path(mounted.removeprefix("file://")).parent
        with tarfile.open(LAKE) as packed:
            # Python before 3.11.4 knows no filters, and from 3.14 on this one is the default.
            if hasattr(tarfile, "data_filter"):
                packed.extraction_filter = tarfile.data_filter
            packed.extractall(self.folder)  # it is in the repository
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake")
        for table, metadata in json.loads((self.folder / "tables.json").read_text()).items():
            spark.sql(f"CALL lake_default.system.register_table('lake.{table}', '{metadata}')")

    def apply(self, name: str, run: str) -> UpsertReport:
        """Apply what the source of a table has."""
        delivery = DELIVERIES[name]
        plain: dict[str, Any] = {"source": delivery.source, "delete_when": None, "exclude_columns": ()}
        flow = Flow(self.spark, f"lake.{name}", self.folder / "inbox" / name, {**plain, **delivery.arguments})
        return flow.apply(run)

    def go_on(self, name: str) -> UpsertReport:
        """Apply what comes later, of the products first: others read them, and a part of the tests may lack theirs."""
        if name != "products":
            self.go_on("products")
        write(self.folder / "inbox" / name, DELIVERIES[name].after)
        return self.apply(name, "later")

    def run_incremental(self, run: str) -> IncrementalReport:
        head = self.spark.sql("SELECT snapshot_id FROM lake.products.snapshots ORDER BY committed_at DESC").head()
        assert head is not None
        spec = IncrementalSpec(
            catalog="lake_default",
            table="lake.revenue",
            run=RunIdentity.of("dag", run, "task", "-1"),
            source="lake.products",
            consumer="revenue",
            keys=("id",),
            to_snapshot=str(head[0]),
            query=REVENUE,
        )
        return run_incremental(self.spark, spec, Progress())

    def properties(self, name: str) -> dict[str, str]:
        return {row.key: row.value for row in self.spark.sql(f"SHOW TBLPROPERTIES lake.{name}").collect()}

    def rows(self, name: str) -> Rows:
        found = self.spark.sql(f"SELECT id, n, note FROM lake.{name}").collect()
        assert len({row.id for row in found}) == len(found)
        return {row.id: (row.n, row.note) for row in found}


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Iterator[EarlierLake]:
    yield EarlierLake(spark)
    for row in spark.sql("SHOW TABLES IN lake").collect():
        spark.sql(f"DROP TABLE lake.{row.tableName}")


def test_what_the_earlier_commit_applied_is_known_to_a_retry_and_to_a_new_run(lake: EarlierLake) -> None:
    before = {name: delivery.rows_before for name, delivery in DELIVERIES.items()}
    assert {name: lake.rows(name) for name in DELIVERIES} == before
    for run in ("run 1", "run 2", "a new run"):
        assert {name for name in DELIVERIES if lake.apply(name, run).outcome is Outcome.APPLIED} == set()
        assert not lake.run_incremental(run).is_of_this_try
    assert {name: lake.rows(name) for name in DELIVERIES} == before


@pytest.mark.parametrize("name", DELIVERIES)
def test_a_source_goes_on_where_the_earlier_commit_left_it_and_then_knows_it_all(lake: EarlierLake, name: str) -> None:
    assert lake.go_on(name).outcome is Outcome.APPLIED
    assert lake.rows(name) == DELIVERIES[name].rows
    position = json.loads(lake.properties(name)["lake.position.inbox"])
    assert position.keys() - {"shape"} == {"generation", "positions"}, "written in the form of before"
    # What it persists now is read as well.
    assert lake.apply(name, "later").outcome is Outcome.ALREADY_APPLIED
    assert lake.apply(name, "later still").outcome is Outcome.NOTHING_NEW
    assert lake.rows(name) == DELIVERIES[name].rows


def test_an_incremental_run_goes_on_where_the_earlier_commit_left_it(lake: EarlierLake) -> None:
    # Another test may have done it, and a part of the tests may lack that one.
    lake.go_on("products")
    report = lake.run_incremental("later")
    assert (report.outcome, report.upserts_read, report.deletes_read) == (Outcome.APPLIED, 2, 1)
    assert lake.rows("revenue") == revenue(DELIVERIES["products"].rows)
    assert lake.run_incremental("later still").outcome is Outcome.NOTHING_NEW
