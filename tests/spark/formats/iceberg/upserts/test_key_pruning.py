from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import BatchKeys, key_pruning
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks.spark_meter import SparkMeter
from tests.spark.upsert_flow import Flow, row


def pruning(rows: DataFrame, *keys: str, table: str = "other_columns") -> tuple[list[str], str]:
    spark = rows.sparkSession
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pruning")
    spark.sql("CREATE TABLE IF NOT EXISTS pruning.other_columns (x INT) USING iceberg")
    iceberg = IcebergTable(spark, "lake_default", TableName.parse(f"pruning.{table}"))
    commit = KeyedCommit(action="upsert", rows=rows, keys=keys, run_key="r", base=None)
    return key_pruning(iceberg, BatchKeys.of(commit), "t")


@pytest.mark.parametrize(
    "values",
    [
        "CAST(-9223372036854775808 AS BIGINT), 0L, 9223372036854775807L",
        "CAST(1 AS TINYINT), CAST(-128 AS TINYINT)",
        "0.000000000000000001BD, CAST(-12345678901234567890.5 AS DECIMAL(38,18)), 0BD",
        "'', 'it''s', '\\\\', 'a\\nb', '\\'', 'ü', '\\u0024{id}', '\\u0024{env:HOME}'",
        "CAST(X'4DFC6C6C6572' AS STRING), 'M'",
        "'a' COLLATE UTF8_LCASE, 'B' COLLATE UTF8_LCASE",
        "DATE '0001-01-01', DATE '9999-12-31', DATE '+12345-01-01'",
        "TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP '+12345-01-01 00:00:00'",
        "true, false",
        "X'00ff', X''",
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_no_key_of_the_batch_fails_its_own_pruning(spark: SparkSession, values: str, many: bool) -> None:
    # Rows are counted, not different keys: a batch has one row per key, so 300 rows stand for many keys.
    rows = spark.sql(f"SELECT k FROM (SELECT explode(array({values})) AS k), range({300 if many else 1})")
    predicates, _ = pruning(rows, "k")
    assert rows.alias("t").filter(" AND ".join(predicates) or "true").count() == rows.count()


def test_few_keys_are_listed_and_many_are_bounded(spark: SparkSession) -> None:
    assert pruning(spark.range(3, 5).toDF("a`b"), "a`b") == (["t.`a``b` IN (3L, 4L)"], "pruned by 2 keys")
    day = "date_add(DATE '2025-01-01', CAST(id % 7 AS INT)) AS day"
    many = spark.range(300).selectExpr("id", day, "id > 3 AS flag")
    assert pruning(many, "id") == (["t.`id` BETWEEN 0L AND 299L"], "pruned by the range of id")
    assert pruning(many, "day", "id", "flag") == (
        ["t.`day` BETWEEN date_from_unix_date(20089) AND date_from_unix_date(20095)", "t.`id` BETWEEN 0L AND 299L"],
        "pruned by the range of day and the range of id",
    )


def test_keys_are_listed_once_however_often_a_read_is_pruned(spark: SparkSession) -> None:
    pruning(spark.range(1).toDF("k"), "k")
    table = IcebergTable(spark, "lake_default", TableName.parse("pruning.other_columns"))
    keys = BatchKeys.of(KeyedCommit(action="upsert", rows=spark.range(3, 5), keys=("id",), run_key="r", base=None))
    key_pruning(table, keys, "t")
    meter = SparkMeter(spark)
    assert key_pruning(table, keys, "u", by_bucket=False) == (["u.`id` IN (3L, 4L)"], "pruned by 2 keys")
    assert meter.read().stages == 0


def test_late_rows_among_new_ones_leave_the_range_between_them_out(spark: SparkSession) -> None:
    late = spark.range(7, 8).unionByName(spark.range(-3000, -2900))
    rows = late.unionByName(spark.range(5_000_000_000, 5_000_000_300))
    (predicate,), reason = pruning(rows, "id")
    assert reason == "pruned by 3 ranges of id"
    assert rows.alias("t").filter(predicate).count() == 401
    assert spark.range(20_000_000, 20_000_001).alias("t").filter(predicate).isEmpty()
    times = rows.selectExpr("timestamp_micros(id) AS at", "id")
    (at, _), reason = pruning(times, "at", "id")
    assert reason == "pruned by 3 ranges of at and 3 ranges of id"
    assert times.alias("t").filter(at).count() == 401


def test_values_of_a_partition_column_in_a_composite_key_are_listed(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pruning")
    columns = "region STRING, id BIGINT"
    spark.sql(f"CREATE TABLE IF NOT EXISTS pruning.regions ({columns}) USING iceberg PARTITIONED BY (region)")
    rows = spark.range(300).selectExpr("IF(id % 2 = 0, 'a', 'z') AS region", "id")
    (region, _), reason = pruning(rows, "region", "id", table="regions")
    assert region in ("t.`region` IN ('a', 'z')", "t.`region` IN ('z', 'a')")
    assert reason == "pruned by 2 values of region and the range of id"


def test_of_a_table_with_many_buckets_only_those_with_keys_of_the_batch_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow(spark, "pruning.buckets", tmp_path / "inbox", {"strategy": UpsertStrategy.POSITIONS})
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(310)))
    layout = TableLayout(partition_by=("bucket(512, id)",), properties={"write.distribution-mode": "hash"})
    flow.apply("run 1", create=layout)
    batch = [number for number in range(310) if number % 5]
    flow.arrive("2.jsonl", *(row(number, "b") for number in batch))
    hit = {BucketTransform(512).transform(LongType())(number) for number in batch}
    # A file without a key of the batch fails every read of it.
    held = flow.loaded().scan().plan_files()
    others = [Path(task.file.file_path.removeprefix("file:")) for task in held if task.file.partition[0] not in hit]
    assert others
    for path in others:
        path.rename(path.with_suffix(".hidden"))
    report = flow.apply("run 2")
    for path in others:
        path.with_suffix(".hidden").rename(path)
    assert f"pruned by the range of id and {len(hit)} buckets of id" in str(report.strategy_reason)
    assert flow.rows() == {number: ("b" if number in batch else "a", 0) for number in range(310)}


@pytest.mark.parametrize("keys", ["id", "region, id"])
def test_buckets_that_nearly_all_have_keys_of_the_batch_do_not_prune(spark: SparkSession, keys: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pruning")
    columns = "region STRING, id BIGINT"
    spark.sql(f"CREATE TABLE IF NOT EXISTS pruning.few ({columns}) USING iceberg PARTITIONED BY (bucket(16, id))")
    rows = spark.range(300).selectExpr("'a' AS region", "id")
    assert "bucket" not in pruning(rows, *keys.split(", "), table="few")[1]


def test_a_text_key_that_is_no_utf_8_is_found_in_the_bucket_that_the_writer_gave_it(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pruning")
    spark.sql("CREATE TABLE pruning.texts (k STRING) USING iceberg PARTITIONED BY (bucket(4096, k))")
    odd = "CAST(X'6DFC6D' AS STRING)"
    rows = spark.sql(f"SELECT CAST(id AS STRING) AS k FROM range(300) UNION ALL SELECT {odd} UNION ALL SELECT 'z'")
    predicates, reason = pruning(rows, "k", table="texts")
    assert "bucket" not in reason
    rows.filter(f"k = {odd}").writeTo("pruning.texts").append()
    assert spark.table("pruning.texts").alias("t").filter(" AND ".join(predicates) or "true").count() == 1


def test_a_batch_that_spells_its_key_otherwise_is_pruned_as_well(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(spark, "pruning.spelled", tmp_path / "inbox", {"strategy": UpsertStrategy.POSITIONS})
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    spark.range(1, 301).selectExpr("id AS ID", "'b' AS NAME", "0 AS n", "'u' AS op").write.parquet(f"{tmp_path}/2")
    report = flow.apply("run 2", source=Files(path=f"{tmp_path}/2", format="parquet"))
    assert "pruned by the range of" in str(report.strategy_reason)
    assert len(flow.rows()) == 300


def test_a_batch_without_rows_prunes_nothing(spark: SparkSession) -> None:
    assert pruning(spark.range(0), "id")[0] == []


def test_the_least_numbers_of_a_type_are_found_in_the_partition_that_truncate_gives_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id INT, name STRING, n INT, op STRING"
    source = Files(path=f"{tmp_path}/inbox/*.jsonl", format="json", schema=schema)
    flow = Flow(spark, "pruning.least", tmp_path / "inbox", {"source": source, "strategy": UpsertStrategy.POSITIONS})
    least = -(2**31)
    numbers = [*range(least, least + 150), *range(100)]
    flow.arrive("1.jsonl", *(row(number, "a") for number in numbers))
    flow.apply("run 1", create=TableLayout(partition_by=("truncate(50, id)",)))
    flow.arrive("2.jsonl", *(row(number, "b") for number in numbers))
    flow.apply("run 2")
    assert flow.rows() == dict.fromkeys(numbers, ("b", 0))
    run = RunIdentity.of("dag", "run 3", "task", "-1")
    spec = DeleteRowsSpec(catalog="lake_default", table=flow.table, run=run, where="id < 50")
    report = delete_rows(spark, spec, Progress())
    assert (report.rows_deleted, sorted(flow.rows())) == (200, list(range(50, 100)))
    assert "branch main" in (report.retained_by or ())
    run = RunIdentity.of("dag", "run 4", "task", "-1")
    above = DeleteRowsSpec(catalog="lake_default", table=flow.table, run=run, where=f"id > {least}", proof=False)
    assert delete_rows(spark, above, Progress()).rows_deleted == 50


@pytest.mark.parametrize("count", [1, 300], ids=["listed keys", "a range of keys"])
@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.MERGE])
def test_the_least_numbers_of_an_int_are_found_once_it_is_a_bigint(
    spark: SparkSession, tmp_path: Path, count: int, strategy: UpsertStrategy
) -> None:
    # Java's truncate(10, -2147483648) is 2147483646 of an INT, and -2147483650 of a BIGINT.
    source = Files(path=f"{tmp_path}/inbox/*.jsonl", format="json", schema="id INT, name STRING, n INT, op STRING")
    flow = Flow(spark, f"pruning.widened_{strategy}_{count}", tmp_path / "inbox", {"source": source})
    numbers = range(-(2**31), -(2**31) + count)
    flow.arrive("1.jsonl", *(row(number, "a") for number in numbers))
    flow.apply("run 1", create=TableLayout(partition_by=("truncate(10, id)",)))
    spark.sql(f"ALTER TABLE {flow.table} ALTER COLUMN id TYPE BIGINT")
    flow.arrive("2.jsonl", *(row(number, "b") for number in numbers))
    wider = Files(path=source.path, format="json", schema="id BIGINT, name STRING, n INT, op STRING")
    flow.apply("run 2", source=wider, strategy=strategy)
    assert flow.rows() == dict.fromkeys(numbers, ("b", 0))
    assert flow.spark.table(flow.table).count() == count
