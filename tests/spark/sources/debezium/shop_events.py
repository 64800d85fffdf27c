"""The captured events of the shop as a source, with the types its server had."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.shop_oracle import SHOP, columns_and_keys

_TYPES = {
    "text": "STRING",
    "uuid": "STRING",
    "jsonb": "STRING",
    "integer": "INT",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "double precision": "DOUBLE",
    "integer[]": "ARRAY<INT>",
    "timestamp with time zone": "TIMESTAMP",
}


def parts(spark: SparkSession, *numbers: int) -> tuple[InputFile, ...]:
    return tuple(file for n in numbers for file in list_input_files(spark, str(SHOP / f"part-{n}.jsonl.gz")))


def events_of(table: str, schema: str | None = None) -> Debezium:
    return Debezium(path=str(SHOP), table=table, schema=schema)


def ddl_of(table: str, folder: Path = SHOP) -> str:
    """The table's columns in Spark's types, from the server's."""
    columns = columns_and_keys(folder)[table]["columns"]
    return ", ".join(f"{c['name']} {_TYPES.get(c['type']) or c['type'].replace('numeric', 'DECIMAL')}" for c in columns)
