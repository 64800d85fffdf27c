"""Fields whose names differ in case alone: refused with the file, the field and what to do, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable

WRITERS = {"parquet": pq.write_table, "orc": orc.write_table}
# Where the names stand, by how a column is made of a name and what is around it.
PLACES: dict[str, Any] = {
    "struct": lambda names: pa.array([dict.fromkeys(names, 1)]),
    "list": lambda names: pa.array([[dict.fromkeys(names, 1)]]),
    "inner": lambda names: pa.array([{"in": dict.fromkeys(names, 1)}]),
}
PATHS = {"struct": r"s\.a", "list": r"s\.element\.a", "inner": r"s\.in\.a"}


def write(kind: str, path: Path, place: str, *names: str) -> None:
    columns = pa.table({"id": [1], "s": PLACES[place](names)})
    WRITERS[kind](columns, str(path))


def read(spark: SparkSession, folder: Path, kind: str, schema: str | None = None) -> list[Any]:
    source = Files(path=f"{folder}/*", format=kind, schema=schema)
    files = list_input_files(spark, str(folder))
    with refusing_unreadable(spark, files, kind):
        return read_files(spark, source, files, None).rows.drop("_lake_arrival").collect()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_spell_a_nested_field_in_two_ways_are_refused_with_it_or_read_by_a_schema(
    spark: SparkSession, tmp_path: Path, kind: str, place: str
) -> None:
    for name, field in (("1", "a"), ("2", "a"), ("3", "A")):
        write(kind, tmp_path / f"{name}.{kind}", place, field)
    says = rf"3\.{kind} and a file before it spell .*{PATHS[place].replace('a', 'A')} and {PATHS[place]}\).*schema"
    with pytest.raises(BadInputError, match=says):
        read(spark, tmp_path, kind)
    assert spark.conf.get("spark.sql.caseSensitive") == "false"
    schemas = {"struct": "STRUCT<a: INT>", "list": "ARRAY<STRUCT<a: INT>>", "inner": "STRUCT<in: STRUCT<a: INT>>"}
    declared = f"id BIGINT, s {schemas[place].replace('INT', 'BIGINT')}"
    assert len({str(row) for row in read(spark, tmp_path, kind, declared)}) == 1


@pytest.mark.parametrize("schema", [None, "id BIGINT, s STRUCT<a: BIGINT>"])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_has_a_nested_field_in_two_cases_is_refused_with_it(
    spark: SparkSession, tmp_path: Path, kind: str, schema: str | None
) -> None:
    write(kind, tmp_path / f"1.{kind}", "struct", "a")
    write(kind, tmp_path / f"2.{kind}", "struct", "a", "A")
    with pytest.raises(BadInputError, match=rf"2\.{kind} has fields whose names differ in case alone.*of its own"):
        read(spark, tmp_path, kind, schema)


@pytest.mark.parametrize("schema", ["a INT, A INT", "s STRUCT<a: INT, A: INT>", "s ARRAY<STRUCT<b: INT, B: INT>>"])
def test_a_schema_that_names_a_field_in_two_cases_is_refused(spark: SparkSession, schema: str) -> None:
    with pytest.raises(BadInputError, match=r"has columns twice, as names are compared without case.*declare the one"):
        parse_ddl(schema)
