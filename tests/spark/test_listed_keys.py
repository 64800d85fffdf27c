"""Keys of rows to delete: those that the files mean, or none and a refusal that names no value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.spark_jobs.listed_keys import list_keys
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

SECRET = "47114711"


def keys_in(spark: SparkSession, path: Path, target: str = "customer_id BIGINT", **source: Any) -> list[Any]:
    """Keys of the files, in the types of a table with the columns ``target``."""
    keys_from = Source(path=str(path), **{"format": "csv", "options": {"header": "true"}, **source})
    columns = parse_ddl(target)
    run = RunIdentity.of("dag", "run", "task", "-1")
    spec = DeleteRowsSpec(catalog="c", table="shop.orders", run=run, keys_from=keys_from, keys=tuple(columns.names))
    keys = list_keys(spark, spec, keys_from, columns).keys
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
    assert "keys_schema" in refusal(spark, file, schema="customer_id BIGINT")
    (tmp_path / "b.csv").write_text(f"customer_id,request_id\n{SECRET},8\n")
    for schema in (None, "customer_id BIGINT, request_id BIGINT"):
        assert "the same in all files" in refusal(spark, tmp_path, schema=schema)


def test_a_first_key_that_was_taken_for_a_header_is_not_told(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"{SECRET}\n{SECRET}1\n")
    refusal(spark, file)
    refusal(spark, file, schema="customer_id BIGINT")


def test_records_of_keys_that_cannot_be_read_are_refused_with_their_place(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"customer_id\n1\n{SECRET}.9\n")
    assert "a.csv, the first is its record 2" in refusal(spark, file, schema="customer_id BIGINT")
