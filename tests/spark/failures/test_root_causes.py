"""Real failures under a driver: the error begins with the cause, and its type says whether a retry may help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError, BrokenMetadataError, JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.failures import lake_errors
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from airflow_lake_provider.spark_jobs.run_tasks import failure as failure_of
from tests.spark.full_disk import files_of_at_most
from tests.spark.upsert_flow import Flow, row


def failure(flow: Flow, **changes: Any) -> LakeProviderError:
    spec = flow.spec("run 2", **changes)
    with pytest.raises(LakeProviderError) as told:
        dispatch_action(flow.spark, spec, Progress())
    said = str(told.value)
    assert said.startswith(f"table {flow.table} in {spec.catalog}: ")
    assert "Py4J" not in said.partition(": ")[2]
    assert "\n" not in said
    return told.value


def seen(flow: Flow) -> dict[int, tuple[str, int]]:
    return {found["id"]: (found["name"], found["n"]) for found in flow.spark.table(flow.table).collect()}


def cause_of(error: LakeProviderError) -> str:
    return str(error).partition(": ")[2]


@pytest.fixture
def two_batches(flow: Flow) -> Flow:
    flow.arrive("1.jsonl", *(row(key, "a") for key in range(20)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(key, "b") for key in range(10, 30)))
    return flow


STRATEGIES = [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE, UpsertStrategy.EQUALITY]


@pytest.mark.parametrize("size", [100, 1500, 3500])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_disk_without_space_is_the_cause_wherever_it_ends(
    two_batches: Flow, strategy: UpsertStrategy, size: int
) -> None:
    with files_of_at_most(two_batches.spark, size):
        error = failure(two_batches, strategy=strategy)
    # SQLite says of this limit that it could not write; of a disk that is full it says that.
    if "SQLITE_IOERR" not in str(error):
        assert type(error) is JobFailedError
        assert cause_of(error).startswith("no space is left on ")
    assert two_batches.apply("run 2", strategy=strategy).outcome is Outcome.APPLIED
    assert seen(two_batches) == {key: ("a" if key < 10 else "b", 0) for key in range(30)}


def test_sparks_own_disk_is_told_from_the_tables(two_batches: Flow) -> None:
    spark = two_batches.spark
    with files_of_at_most(spark, 1000), pytest.raises(JobFailedError) as told, lake_errors("table t in lake", dict):
        spark.range(20_000).selectExpr("uuid() AS v").groupBy("v").count().orderBy("v").collect()
    assert cause_of(told.value).startswith("no space is left on the disk of Spark's own files: IOException: ")
    assert "spark.local.dir" in str(told.value)


def test_memory_that_runs_out_is_told(spark: SparkSession) -> None:
    java: Any = spark._jvm
    with pytest.raises(JobFailedError) as told, lake_errors("table t in lake", dict):
        java.java.util.ArrayList(2**31 - 1)
    assert cause_of(told.value).startswith("memory ran out: OutOfMemoryError: ")


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(concat('x', v) AS INT)",
        "CAST(v + 99999999999 AS INT)",
        "1 / (v - v)",
        "v % (v - v)",
        "v + 9223372036854775807L",
        "CAST(v AS DECIMAL(3, 2)) * 100 + CAST(repeat('9', 38) AS DECIMAL(38, 0))",
        "CAST(v * 1000 AS DECIMAL(3, 0))",
        "to_timestamp(concat('no', v), 'yyyy')",
        "make_date(2026, 13, CAST(v AS INT))",
        "sequence(v, v)[5]",
        "element_at(array(v), 0)",
        "map_from_arrays(array(v, v), array(1, 2))",
        "map_from_arrays(array(nullif(v, v)), array(1))",
        "(SELECT w FROM VALUES (1), (2) AS t(w))",
        "from_utc_timestamp(TIMESTAMP '2026-01-01', concat('Mar', v))",
        "date_format(TIMESTAMP '2026-01-01', concat('YYYY', v))",
        "raise_error(concat('x', v))",
        "regexp_replace('a', concat('(', v), 'x')",
        "from_json(concat('{', v), 'a INT', map('mode', 'FAILFAST'))",
        "encode(concat('\u00e9', v), 'US-ASCII')",
        "array_repeat(v, 2147483647)",
        "url_decode(concat('%', v))",
        "sequence(1, v, 0 * v)",
        "printf('%d', concat('a', v))",
    ],
)
def test_an_expression_that_fails_on_a_value_is_not_tried_again(spark: SparkSession, expression: str) -> None:
    rows = spark.range(1, 3).selectExpr("id AS v").repartition(2)
    with pytest.raises(BadInputError) as told, lake_errors("table t in lake", dict):
        rows.selectExpr(f"{expression} AS made").collect()
    assert cause_of(told.value).startswith("an expression failed on a value: ")


def test_a_condition_of_deletes_that_is_none_refuses_the_batch(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "no"), row(2, "perhaps"))
    error = failure(flow, delete_when="name")
    assert type(error) is BadInputError
    assert "'perhaps'" in str(error)
    assert seen(flow) == {1: ("a", 0)}


def test_a_folder_that_may_not_be_written_is_told(two_batches: Flow) -> None:
    # Not even root may make files there.
    two_batches.spark.sql(
        f"ALTER TABLE {two_batches.table} SET TBLPROPERTIES ('write.data.path' = 'file:///sys/kernel')"
    )
    error = failure(two_batches, strategy=UpsertStrategy.POSITIONS)
    assert cause_of(error).startswith(("access was denied: ", "a folder cannot be made: "))


@pytest.mark.parametrize("kind", ["data", "manifest", "manifest list", "metadata"])
def test_a_file_that_is_gone_is_named_with_its_table(two_batches: Flow, kind: str) -> None:
    flow, table = two_batches, two_batches.loaded()
    manifests = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]  # there is one
    gone = {
        "data": next(iter(table.scan().plan_files())).file.file_path,
        "manifest": manifests[0].manifest_path,
        "manifest list": table.current_snapshot().manifest_list,  # type: ignore[union-attr]  # as above
        "metadata": table.metadata_location,
    }[kind]
    Path(gone.removeprefix("file://").removeprefix("file:")).unlink()
    # A catalog object of its own, as another driver has.
    error = failure(replace(flow, spark=flow.spark.newSession()))
    assert type(error) is BrokenMetadataError
    what = "its metadata file" if kind == "metadata" else "a file that its metadata names,"
    assert cause_of(error).startswith(f"{what} file:/")
    assert gone.rpartition("/")[2] in str(error)
    assert " is gone. Restore it" in str(error)


def test_a_session_that_does_not_start_says_what_java_said_and_not_what_was_called(spark: SparkSession) -> None:
    # As of a jar that is not there, before there is a session.
    with pytest.raises(Exception, match="An error occurred while calling") as raised:
        spark.sparkContext._jsc.sc().addJar("/nope/a\0.jar")
    told = failure_of("the Spark session", raised.value).message
    assert told == "the Spark session failed with IOException: Invalid file path"
