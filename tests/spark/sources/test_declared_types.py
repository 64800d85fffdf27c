"""A declared schema of files that have types of their own: it may widen them, and changes no value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.kafka.records import read_records
from tests.spark.sources.kafka.topic_writer import add_connector
from tests.spark.sources.test_avro_files import write
from tests.spark.sources.test_unreadable_files import apply, flow

# A column of Parquet, how it is declared, and what the refusal says of it.
OTHERS: dict[str, tuple[pa.Array, str, str]] = {
    "decimal as BIGINT": (pa.array([Decimal("1.50")], pa.decimal128(18, 2)), "BIGINT", r"v is decimal\(18,2\)"),
    "decimal as INT": (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "INT", r"v is decimal\(9,2\)"),
    "int as SMALLINT": (pa.array([70_000], pa.int32()), "SMALLINT", "v is int and declared as smallint"),
    "int as TINYINT": (pa.array([300], pa.int32()), "TINYINT", "v is int and declared as tinyint"),
    "uint32 as INT": (pa.array([2**32 - 1], pa.uint32()), "INT", "v is bigint and declared as int"),
    "uint64 as BIGINT": (pa.array([2**64 - 1], pa.uint64()), "BIGINT", r"v is decimal\(20,0\)"),
    "int as DATE": (pa.array([20240102], pa.int32()), "DATE", "v is int and declared as date"),
    "nested": (pa.array([{"x": 70_000}], pa.struct([("x", pa.int32())])), "STRUCT<x: SMALLINT>", r"v\.x is int"),
}
OF_AVRO = {
    "CAST(1.2345 AS DECIMAL(10,4))": "DECIMAL(10,2)",
    "TIMESTAMP'2024-01-02 10:00:00'": "DATE",
    "1704189600L": "TIMESTAMP",
    "10000000000L": "INT",
}


@pytest.mark.parametrize("is_dictionary", [True, False])
@pytest.mark.parametrize("case", OTHERS)
def test_parquet_is_read_as_no_other_type(spark: SparkSession, tmp_path: Path, case: str, is_dictionary: bool) -> None:
    column, kind, told = OTHERS[case]
    rows = pa.table({"id": [1], "v": column})
    pq.write_table(rows, tmp_path / "a.parquet", use_dictionary=is_dictionary, store_decimal_as_integer=True)
    with pytest.raises(BadInputError, match=rf"{told}.*cast in a Query"):
        apply(spark, tmp_path / "a.parquet", format="parquet", schema=f"id BIGINT, v {kind}")


@pytest.mark.parametrize("value", OF_AVRO)
def test_avro_is_read_as_no_other_type(spark: SparkSession, tmp_path: Path, value: str) -> None:
    add_connector(spark)
    write(spark, tmp_path / "in", a=f"SELECT 1L AS id, {value} AS v")
    with pytest.raises(BadInputError, match=r"v is \S+ and declared as .*cast in a Query"):
        apply(spark, tmp_path / "in", format="avro", schema=f"id BIGINT, v {OF_AVRO[value]}")


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_declared_column_is_null_where_a_file_lacks_it_and_refused_where_all_do(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    add_connector(spark)
    queries = {"a": "SELECT 1L AS id, 2.5D AS total", "b": "SELECT 2L AS id"}
    if kind == "avro":
        write(spark, tmp_path / "in", **queries)
    else:
        (tmp_path / "in").mkdir()
        writer: Any = pq if kind == "parquet" else orc
        writer.write_table(pa.table({"id": [1], "total": [2.5]}), str(tmp_path / "in" / f"a.{kind}"))
        writer.write_table(pa.table({"id": [2]}), str(tmp_path / "in" / f"b.{kind}"))
    apply(spark, tmp_path / "in", f"declared_{kind}", format=kind, schema="id BIGINT, TOTAL DOUBLE")
    assert flow(spark, tmp_path, f"declared_{kind}").rows() == {1: (2.5,), 2: (None,)}
    with pytest.raises(BadInputError, match=r"have no column \['totl'\].*they have \['id', 'total'\]"):
        apply(spark, tmp_path / "in", format=kind, schema="id BIGINT, totl DOUBLE")


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_declared_field_inside_a_column_is_null_where_a_file_lacks_it_and_refused_where_all_do(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    add_connector(spark)
    queries = {
        "a": "SELECT 1L AS id, named_struct('city', 'Ulm', 'zip', '1') AS at, array(named_struct('sku', 'x')) AS lines",
        "b": "SELECT 2L AS id, named_struct('city', 'Bern') AS at, array(named_struct('sku', 'y')) AS lines",
    }
    if kind == "avro":
        write(spark, tmp_path / "in", **queries)
    else:
        (tmp_path / "in").mkdir()
        writer: Any = pq if kind == "parquet" else orc
        whole = {"id": [1], "at": [{"city": "Ulm", "zip": "1"}], "lines": [[{"sku": "x"}]]}
        short = {"id": [2], "at": [{"city": "Bern"}], "lines": [[{"sku": "y"}]]}
        writer.write_table(pa.table(whole), str(tmp_path / "in" / f"a.{kind}"))
        writer.write_table(pa.table(short), str(tmp_path / "in" / f"b.{kind}"))
    declared = "id BIGINT, at STRUCT<CITY: STRING, zip: STRING>, lines ARRAY<STRUCT<sku: STRING>>"
    apply(spark, tmp_path / "in", f"fields_{kind}", format=kind, schema=declared)
    assert flow(spark, tmp_path, f"fields_{kind}").rows() == {
        1: ({"CITY": "Ulm", "zip": "1"}, [{"sku": "x"}]),
        2: ({"CITY": "Bern", "zip": None}, [{"sku": "y"}]),
    }
    for wrong, told in {
        "at STRUCT<town: STRING, zip: STRING>": r"\['at\.town'\].*they have \['at\.city', 'at\.zip'\]",
        "lines ARRAY<STRUCT<code: STRING>>": r"\['lines\.element\.code'\].*they have \['lines\.element\.sku'\]",
        "lin ARRAY<STRUCT<sku: STRING>>": r"\['lin'\].*they have \['at', 'id', 'lines'\]",
    }.items():
        with pytest.raises(BadInputError, match=f"have no column {told}"):
            apply(spark, tmp_path / "in", format=kind, schema=f"id BIGINT, {wrong}")


def test_a_declared_type_widens_numbers(spark: SparkSession, tmp_path: Path) -> None:
    numbers = {
        "i": pa.array([7], pa.int32()),
        "f": pa.array([1.5], pa.float32()),
        "u": pa.array([2**32 - 1], pa.uint32()),
    }
    pq.write_table(pa.table({"id": [1], **numbers}), tmp_path / "a.parquet")
    schema = "id BIGINT, i BIGINT, f DOUBLE, u BIGINT"
    apply(spark, tmp_path / "a.parquet", "declared_wider", format="parquet", schema=schema)
    assert flow(spark, tmp_path, "declared_wider").rows() == {1: (7, 1.5, 2**32 - 1)}


def test_parquet_of_pandas_and_of_old_writers_is_read_in_the_type_that_it_means(
    spark: SparkSession, tmp_path: Path
) -> None:
    time, day = datetime(2026, 1, 2, 3, 4, 5, 6), date(2026, 1, 2)  # noqa: DTZ001  # it has no zone
    values = {
        "t": pa.array([time], pa.timestamp("us")),
        "d": pa.array([day], pa.date32()),
        "b": pa.array(["é".encode()], pa.binary()),
    }
    nested = pa.StructArray.from_arrays([values["t"], values["b"]], names=["t", "b"])
    pq.write_table(pa.table({"id": [1], **values, "s": nested}), tmp_path / "a.parquet")
    schema = "id BIGINT, t TIMESTAMP, d TIMESTAMP_NTZ, b STRING, s STRUCT<t: TIMESTAMP, b: STRING>"
    apply(spark, tmp_path / "a.parquet", "declared_meaning", format="parquet", schema=schema)
    at = time.replace(tzinfo=UTC)
    assert flow(spark, tmp_path, "declared_meaning").rows() == {
        1: (at, datetime(2026, 1, 2), "é", {"t": at, "b": "é"})  # noqa: DTZ001  # it has no zone
    }


def test_orc_of_old_hive_whose_columns_have_no_names_is_read_by_place(spark: SparkSession, tmp_path: Path) -> None:
    orc.write_table(pa.table({"_col0": [1], "_col1": ["x"]}), str(tmp_path / "a.orc"))
    apply(spark, tmp_path / "a.orc", "hive_places", format="orc", schema="id BIGINT, name STRING")
    assert flow(spark, tmp_path, "hive_places").rows() == {1: ("x",)}
    with pytest.raises(BadInputError, match="name is string and declared as bigint"):
        apply(spark, tmp_path / "a.orc", format="orc", schema="id BIGINT, name BIGINT")


def test_keys_of_json_are_texts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "m": {"1": 1}}\n')
    for kind in ("MAP<INT, INT>", "ARRAY<STRUCT<m: MAP<DATE, INT>>>"):
        with pytest.raises(BadInputError, match=r"cannot be read as \{'m': .*Say MAP<STRING, \.\.\.>"):
            apply(spark, tmp_path / "a.json", format="json", schema=f"id BIGINT, m {kind}")
    records = spark.createDataFrame([], "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP")
    topic = KafkaTopic("kafka", "t", schema="id BIGINT, m MAP<INT, INT>")
    with pytest.raises(BadInputError, match=r"records of topic t cannot be read as \{'m': 'map<int,int>'\}"):
        read_records(topic, records, None, deletes=False, has_order=False)
