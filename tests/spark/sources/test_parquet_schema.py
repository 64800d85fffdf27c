"""The schema of Parquet files, found without a Spark job: the same as Spark finds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.unread_types import schema_of_footers
from tests.spark.said_settings import said
from tests.spark.sql.spark_traces import SparkTraces

SQL = (
    "CAST(1 AS TINYINT) AS b, CAST(1 AS SMALLINT) AS s, 1 AS i, 1L AS l, 1.5F AS f, 1.5D AS d, 1.5BD AS dec, "
    "true AS t, 'x' AS `a.b`, X'01' AS bin, DATE'2026-01-01' AS day, TIMESTAMP'2026-01-01 00:00:00' AS at, "
    "TIMESTAMP_NTZ'2026-01-01 00:00:00' AS at_ntz, array(1, NULL) AS `größe`, map('k', struct(1 AS x)) AS m, "
    "struct(array(1.5BD) AS inner) AS st, CAST(NULL AS STRING) AS n"
)


def of_spark(spark: SparkSession, folder: Path) -> object:
    paths = [file.path for file in list_input_files(spark, str(folder))]
    return spark.read.option("mergeSchema", "true").parquet(*paths).schema


def ours(spark: SparkSession, folder: Path) -> object:
    files = list_input_files(spark, str(folder))
    found = schema_of_footers(spark, files)
    return None if found is None else spark.read.schema(found).parquet(*(file.path for file in files)).schema


def test_files_that_spark_has_written_have_the_schema_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"SELECT {SQL}").write.parquet(str(tmp_path / "in"))
    assert ours(spark, tmp_path / "in") == of_spark(spark, tmp_path / "in")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.parquet.binaryAsString", "true"),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", "false"),
        ("spark.sql.legacy.parquet.nanosAsLong", "true"),
    ],
)
def test_files_of_another_writer_are_read_by_the_settings_of_the_session(
    spark: SparkSession, tmp_path: Path, name: str, value: str
) -> None:
    rows = {
        "id": pa.array([1, 2], pa.uint32()),
        "raw": pa.array([b"a", None], pa.binary()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "at": pa.array([1, 2], pa.timestamp("us")),
        "at_utc": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        "tags": pa.array([["a"], None], pa.list_(pa.string())),
    }
    if name.endswith("nanosAsLong"):
        rows["exact"] = pa.array([1, 2], pa.timestamp("ns"))
    pq.write_table(pa.table(rows), tmp_path / "1.parquet")
    with said(spark, {name: value}):
        assert ours(spark, tmp_path) == of_spark(spark, tmp_path) is not None


def test_the_schema_of_a_few_files_is_found_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"id": [number], "name": ["x"]}), tmp_path / f"{number}.parquet")
    files = list_input_files(spark, str(tmp_path))
    with SparkTraces(spark, tmp_path / "canary").none_left():
        batch = read_files(spark, Files(path=str(tmp_path), format="parquet", name="b"), files, None)
    assert batch.rows.columns[:2] == ["id", "name"]
    assert batch.rows.count() == 3


def test_what_not_all_files_have_is_merged_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [2], "name": ["x"]}), tmp_path / "2.parquet")
    files = list_input_files(spark, str(tmp_path))
    assert schema_of_footers(spark, files) is None
    batch = read_files(spark, Files(path=str(tmp_path), format="parquet", name="b"), files, None)
    assert sorted(batch.rows.columns[:2]) == ["id", "name"]


def test_a_file_that_is_no_parquet_is_left_to_spark_which_names_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_text("no parquet")
    assert schema_of_footers(spark, list_input_files(spark, str(tmp_path))) is None


def test_many_files_are_left_to_sparks_tasks(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(9):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number}.parquet")
    assert schema_of_footers(spark, list_input_files(spark, str(tmp_path))) is None


def test_padded_text_which_spark_refuses_of_a_given_schema_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "code", "type": "char(5)"}]
    schema = {"type": "struct", "fields": [{**field, "nullable": True, "metadata": {}} for field in fields]}
    rows = pa.table({"id": [1], "code": ["ab   "]})
    written_by_spark = {"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema)}
    pq.write_table(rows.replace_schema_metadata(written_by_spark), tmp_path / "1.parquet")
    files = list_input_files(spark, str(tmp_path))
    batch = read_files(spark, Files(path=str(tmp_path), format="parquet", name="b"), files, None)
    assert [row["code"] for row in batch.rows.collect()] == ["ab   "]
