"""Keys of rows to delete: those that the files mean, or none and a refusal that names no value."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows
from airflow_lake_provider.spark_jobs.sources import delete_keys
from airflow_lake_provider.spark_jobs.sources.delete_keys import list_keys, lossless_cast
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from tests.spark.said_settings import said

SECRET = "47114711"


def listed(spark: SparkSession, path: Path, target: str = "customer_id BIGINT", **source: Any) -> DataFrame | None:
    """Keys of the files, in the types of a table with the columns ``target``."""
    options = {} if source.get("format", "csv") == "json" else {"header": "true"}
    keys_from = Files(str(path), **{"format": "csv", "options": options, **source})
    columns = parse_ddl(target)
    run = RunIdentity.of("dag", "run", "task", "-1")
    spec = DeleteRowsSpec(catalog="c", table="shop.orders", run=run, keys_from=keys_from, keys=tuple(columns.names))
    return list_keys(spark, spec, keys_from, columns).keys


def keys_in(spark: SparkSession, path: Path, target: str = "customer_id BIGINT", **source: Any) -> list[Any]:
    keys = listed(spark, path, target, **source)
    return [] if keys is None else sorted(row[0] if len(row) == 1 else tuple(row) for row in keys.collect())


def refusal(spark: SparkSession, path: Path, **arguments: Any) -> str:
    with pytest.raises(BadInputError) as refused:
        keys_in(spark, path, **arguments)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def test_a_header_says_which_column_a_key_is_in_whatever_the_place_of_it_in_the_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"request_id,customer_id\n7,{SECRET}\n")
    assert keys_in(spark, file, schema="customer_id BIGINT, request_id STRING") == [int(SECRET)]
    assert keys_in(spark, file) == [int(SECRET)]
    assert "the columns of its schema" in refusal(spark, file, schema="customer_id BIGINT")
    (tmp_path / "b.csv").write_text(f"customer_id,request_id\n{SECRET},8\n")
    for schema in (None, "customer_id BIGINT, request_id BIGINT"):
        assert "the same in all files" in refusal(spark, tmp_path, schema=schema)


@pytest.mark.parametrize(("most", "are_broadcast"), [(3, True), (2, False)])
def test_few_keys_alone_are_sent_to_each_executor(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, are_broadcast: bool
) -> None:
    (tmp_path / "a.csv").write_text("customer_id\n1\n2\n3\n")
    monkeypatch.setattr(delete_keys, "_MOST_BROADCAST", most)
    keys = listed(spark, tmp_path)
    assert keys is not None
    rows = spark.range(10).withColumnRenamed("id", "customer_id")
    # Of its own Spark would send so few.
    with said(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}):
        found = rows.join(keys, on="customer_id", how="left_semi")
        assert ("BroadcastHashJoin" in str(java_rows(found).queryExecution().executedPlan())) == are_broadcast
        assert sorted(row[0] for row in found.collect()) == [1, 2, 3]


def test_keys_of_csv_that_is_read_without_its_header_are_refused_with_the_option(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"customer_id,request_id\n{SECRET},7\n")
    assert "options={'header': True}" in refusal(spark, file, options={})


def test_a_first_key_that_was_taken_for_a_header_is_not_told(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"{SECRET}\n{SECRET}1\n")
    refusal(spark, file)
    refusal(spark, file, schema="customer_id BIGINT")


def test_records_of_keys_that_cannot_be_read_are_refused_with_their_place(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"customer_id\n1\n{SECRET}.9\n")
    assert "a.csv, the first is its record 2" in refusal(spark, file, schema="customer_id BIGINT")


# SQL of a value, the type of the table's column, and the text of the key it is; None when it is none.
KEPT_OR_NOT = [
    ("7.9D", "BIGINT", None),
    ("7.0D", "BIGINT", "7"),
    ("9007199254740992D", "BIGINT", None),
    ("9223372036854775808D", "BIGINT", None),
    ("16777216F", "INT", None),
    ("5000000000L", "INT", None),
    ("7L", "INT", "7"),
    ("9007199254740993L", "DOUBLE", None),
    ("0.1D", "FLOAT", None),
    ("0.5D", "FLOAT", "0.5"),
    ("0.105D", "DECIMAL(10,2)", None),
    ("0.1D", "DECIMAL(10,2)", "0.10"),
    ("CAST(7.995 AS DECIMAL(10,3))", "DECIMAL(10,2)", None),
    ("CAST(7.990 AS DECIMAL(10,3))", "DECIMAL(10,2)", "7.99"),
    ("CAST(9.996 AS DECIMAL(4,3))", "DECIMAL(4,2)", None),
    ("CAST(7.5 AS DECIMAL(10,1))", "BIGINT", None),
    ("TIMESTAMP '2026-01-02 10:00:00'", "DATE", None),
    ("TIMESTAMP '2026-01-02 00:00:00'", "DATE", "2026-01-02"),
    ("TIMESTAMP_NTZ '2026-01-02 00:00:00.000001'", "DATE", None),
    ("DATE '2026-01-02'", "TIMESTAMP", "2026-01-02 00:00:00"),
    ("7L", "BOOLEAN", None),
    ("7L", "STRING", "7"),
    ("'7.9'", "BIGINT", None),
    ("' 007 '", "BIGINT", "7"),
    ("'7.995'", "DECIMAL(38,2)", None),
    ("'-7.9900'", "DECIMAL(38,2)", "-7.99"),
    ("'12345678901234567890123456789012345678'", "DECIMAL(38,2)", None),
    ("'12345678901234567.89'", "DECIMAL(20,2)", "12345678901234567.89"),
    ("'9007199254740993'", "DOUBLE", None),
    ("'0.1'", "DOUBLE", "0.1"),
    ("'0.10'", "FLOAT", "0.1"),
    ("'0.1234567890123'", "FLOAT", None),
    ("'1e400'", "DOUBLE", None),
    ("'-1e39'", "FLOAT", None),
    ("'1e300'", "DOUBLE", "1.0E300"),
    ("'1e-400'", "DOUBLE", None),
    ("'-0.1e-50'", "FLOAT", None),
    ("'1e-300'", "DOUBLE", "1.0E-300"),
    ("'0e10'", "DOUBLE", "0.0"),
    ("' -0.00 '", "FLOAT", "-0.0"),
    ("' -Infinity '", "DOUBLE", "-Infinity"),
    ("'NaN'", "FLOAT", "NaN"),
    ("'2026-01-02 10:00:00'", "DATE", None),
    ("'2026'", "DATE", None),
    ("'2026-01-02'", "DATE", "2026-01-02"),
    ("'2026-01-02 10:00:00.1234567'", "TIMESTAMP", None),
    ("'2026-01-02 10:00:00.1234560'", "TIMESTAMP", "2026-01-02 10:00:00.123456"),
    ("'2026-01-02'", "TIMESTAMP", "2026-01-02 00:00:00"),
    ("'2026-01-02 10:00:00+05:00'", "TIMESTAMP", "2026-01-02 05:00:00"),
    ("'2026-07-02 10:00:00 BST'", "TIMESTAMP", None),
    ("'2026-07-02 10:00:00 UTC'", "TIMESTAMP", "2026-07-02 10:00:00"),
    ("'2026'", "TIMESTAMP", None),
    ("'10:00'", "TIMESTAMP", None),
    ("' 2026-01-02T10:00:00 '", "TIMESTAMP_NTZ", "2026-01-02 10:00:00"),
    ("'2026-01-02 10:00:00+05:00'", "TIMESTAMP_NTZ", None),
    ("'2026-01'", "TIMESTAMP_NTZ", None),
    ("1767225600000L", "TIMESTAMP", None),
    ("5.0D", "TIMESTAMP_NTZ", None),
    ("TIMESTAMP '2026-01-02 10:00:00'", "BIGINT", None),
    ("'x'", "BIGINT", None),
]


def test_a_value_is_a_key_only_where_the_type_of_its_column_can_hold_it(spark: SparkSession) -> None:
    given = spark.sql("SELECT " + ", ".join(f"{sql} AS c{place}" for place, (sql, _, _) in enumerate(KEPT_OR_NOT)))
    fitted = [
        lossless_cast(sf.col(field.name), field.dataType, parse_ddl(f"c {wanted}")["c"].dataType).cast("string")
        for field, (_, wanted, _) in zip(given.schema, KEPT_OR_NOT, strict=True)
    ]
    found = given.select(*(column.alias(f"c{place}") for place, column in enumerate(fitted))).collect()[0]
    cases = [(sql, wanted) for sql, wanted, _ in KEPT_OR_NOT]
    assert dict(zip(cases, found, strict=True)) == {(sql, wanted): kept for sql, wanted, kept in KEPT_OR_NOT}


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ([7.0, float(f"{SECRET}.9")], "customer_id BIGINT"),
        ([None, float(f"{SECRET}.5")], "customer_id DECIMAL(12,0)"),
    ],
)
def test_a_key_that_would_become_another_is_refused(
    spark: SparkSession, tmp_path: Path, values: list[float | None], target: str
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"customer_id": pa.array(values, pa.float64())}), file)
    told = refusal(spark, file, target=target, format="parquet", options={})
    assert f"is NULL in {values.count(None)} rows and does not fit" in told
    assert told.endswith("in 1")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("csv", "customer_id\n7.995\n"), ("json", '{"customer_id": 7.995}\n')],
)
def test_keys_in_text_are_not_rounded_by_the_reader_either(
    spark: SparkSession, tmp_path: Path, kind: str, text: str
) -> None:
    file = tmp_path / f"a.{kind}"
    file.write_text(text)
    for schema in (None, "customer_id DECIMAL(10,2)"):
        arguments: dict[str, Any] = {"format": kind, "schema": schema}
        assert keys_in(spark, file, "customer_id DECIMAL(10,3)", **arguments) == [Decimal("7.995")]
        assert "does not fit decimal(10,2) in 1" in refusal(
            spark, file, target="customer_id DECIMAL(10,2)", **arguments
        )


def test_keys_are_matched_as_those_of_upserts_are(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    # Names without case; text with the spaces it has.
    file.write_text("Customer_ID,region\n7,a \n")
    assert keys_in(spark, file, "customer_id BIGINT, REGION STRING") == [(7, "a ")]
    lines = tmp_path / "a.json"
    # Bytes of JSON are base64, for the reader of upserts.
    lines.write_text('{"customer_id": "YWJj"}\n')
    assert keys_in(spark, lines, "customer_id BINARY", format="json", options={}) == [bytearray(b"abc")]
    file.write_text("customer_id\nyes\n")
    assert "the first is its record 1" in refusal(spark, file, target="customer_id BOOLEAN")
    file.write_bytes(f"customer_id\n{SECRET}\xe9\n".encode("latin-1"))
    assert "no UTF-8 text" in refusal(spark, file, target="customer_id STRING")


def test_a_file_of_keys_that_cannot_be_read_is_named_and_what_a_retry_mends_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"customer_id\n{SECRET}\n".encode() * 999)[:-9])
    (tmp_path / "a.parquet").write_text(SECRET * 9)
    assert "a.csv.gz cannot be read as csv" in refusal(spark, tmp_path / "a.csv.gz")
    assert "a.csv.gz cannot be read as csv" in refusal(spark, tmp_path / "a.csv.gz", schema="customer_id BIGINT")
    assert "a.parquet cannot be read" in refusal(spark, tmp_path / "a.parquet", format="parquet", options={})
    lost = spark._jvm.org.apache.spark.SparkException(f"ExecutorLostFailure of {SECRET}")  # type: ignore[union-attr]  # JVM attribute

    def lose(*_: Any) -> None:
        raise Py4JJavaError("An error occurred", lost)

    monkeypatch.setattr("airflow_lake_provider.spark_jobs.sources.delete_keys._read", lose)
    (tmp_path / "b.csv").write_text("customer_id\n1\n")
    with pytest.raises(JobFailedError) as failed:
        keys_in(spark, tmp_path / "b.csv")
    assert SECRET not in str(failed.value)
