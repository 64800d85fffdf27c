"""Files that are corrected while a driver lives: each load has the rows of now, whatever Spark has cached of before."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files, Source
from tests.spark.upsert_flow import Flow

SELECT = "SELECT id, name FROM f"
CACHED = "def cached(spark, inputs, params):\n    return inputs['f'].cache()\n"
PLAIN: dict[str, Any] = {"keys": ("id",), "order_by": (), "delete_when": None, "exclude_columns": ()}


def source(way: str, files: Files) -> Source:
    match way:
        case "query":
            return Query(SELECT.replace(" f", " source"), over=files)
        case "named":
            return Query(SELECT, over={"f": files}, name="loads")
    return PySparkFunction("loads:cached", function_code=CACHED, name="loads", over={"f": files})


def write(flow: Flow, kind: str, value: str, at: int) -> None:
    flow.inbox.mkdir(parents=True, exist_ok=True)
    file = flow.inbox / f"1.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": [1], "name": [value]}), file)
    else:
        file.write_text(f'{{"id": 1, "name": "{value}"}}\n' if kind == "json" else f"1,{value}\n")
    os.utime(file, (at, at))


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
@pytest.mark.parametrize("way", ["query", "named", "function"])
def test_a_corrected_file_has_its_new_rows_in_the_next_load_of_a_driver(flow: Flow, way: str, kind: str) -> None:
    flow.catalog()
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, name STRING) USING iceberg")
    schema = None if kind == "parquet" else "id BIGINT, name STRING"
    read = source(way, Files(f"{flow.inbox}/*.{kind}", format=kind, schema=schema))
    for at, value in enumerate("abc"):
        write(flow, kind, value, 2_000_000_000 + at)
        flow.apply(f"run {at}", source=read, **PLAIN)
        assert flow.rows() == {1: (value,)}
