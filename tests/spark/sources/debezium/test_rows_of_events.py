"""Last events become typed rows, however many columns they have and whatever these are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType

from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows
from airflow_lake_provider.spark_jobs.sources.cdc.rows import RowBuilder
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.source import DebeziumColumns
from tests.spark.sources.debezium.debezium_batches import applied, read_items
from tests.spark.sources.debezium.event_writer import envelope, write_files

LAST = """
    named_struct('k0', '1') AS key, 'c' AS op, map('c0', '1', 'c1', repeat('x', 21000000)) AS after,
    CAST(array() AS ARRAY<STRING>) AS holes, CAST(NULL AS BIGINT) AS types
"""


def row_builder(columns: int) -> RowBuilder:
    types: dict[str, DataType] = {f"c{number}": StringType() for number in range(columns)}
    kinds = DebeziumColumns(types=types, connect_types={}, schemaless=True)
    return RowBuilder(columns=kinds, keys=["c0"], hole_columns=())


def checked_rows(spark: SparkSession, columns: int) -> DataFrame:
    return row_builder(columns).checked_rows(spark.sql(f"SELECT {LAST}").localCheckpoint())


def test_the_map_of_a_row_is_read_as_often_for_many_columns_as_for_few(spark: SparkSession) -> None:
    # To look for each name in the map of its row takes columns squared.
    plans = (java_rows(checked_rows(spark, columns)).queryExecution().optimizedPlan() for columns in (3, 12))
    uses = [str(plan).count("after#") for plan in plans]
    assert uses[0] == uses[1] < 12


def test_rows_are_counted_by_as_many_aggregates_for_many_columns_as_for_few(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To plan some for each of a thousand columns took longer than all the rest of a batch.
    aggregates: list[int] = []
    for columns in (3, 6):
        checked = checked_rows(spark, columns).localCheckpoint()
        agg = type(checked).agg

        def noted(frame: DataFrame, *columns: Any, agg: Any = agg) -> DataFrame:
            result: DataFrame = agg(frame, *columns)
            aggregates.append(str(java_rows(result).queryExecution().optimizedPlan()).count("count("))
            return result

        with monkeypatch.context() as patch:
            patch.setattr(type(checked), "agg", noted)
            batch = row_builder(columns).batch_of(checked, 1)
        assert batch.absent == {f"c{number}": 1 for number in range(2, columns)}
    assert aggregates[0] == aggregates[1] > 0


def test_a_text_beyond_what_parsers_of_json_take_by_themselves_is_kept(spark: SparkSession) -> None:
    rows = checked_rows(spark, 3).select(sf.length("row.c1").alias("length"), "row.c2", "absent").collect()
    assert [(row["length"], row["c2"], row["absent"]) for row in rows] == [(21_000_000, None, ["c2"])]


def test_columns_of_any_name_keep_their_texts_and_absent_ones_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    names = [
        "_corrupt_record",
        "a.b",
        "back`tick",
        'qu"ote',
        "back\\slash",
        "é\t",
        "row",
        "after",
        "op",
        "text0",
        "Id2",
    ]
    whole = {name: f'"{number}"\\\n\u2028 é' for number, name in enumerate(names)}
    events = [
        envelope("c", {"id": 1, **whole}, ["1", "2"]),
        envelope("c", {"id": 2, "a.b": None, "row": ""}, ["1", "3"]),
        envelope("d", {"id": 3}, ["1", "4"]),
    ]
    ddl = ", ".join(["id INT", *(f"`{name.replace('`', '``')}` STRING" for name in names)])
    path = write_files(tmp_path / "in", [json.dumps(event) for event in events])
    batch = read_items(spark, path, ddl=ddl)
    none = dict.fromkeys(names)
    rows = applied({}, batch, ["id"])
    known = {key: {name: row[name] for name in ("id", *names)} for key, row in rows.items()}
    assert known == {(1,): {"id": 1, **whole}, (2,): {"id": 2, **none, "row": ""}}
    assert {name: batch.absent.get(name) for name in names} == {**dict.fromkeys(names, 1), "a.b": None, "row": None}
    batch.release()
