"""Values of UUID and FIXED columns: what their types hold is stored, anything else is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    FixedType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.append_flow import append
from tests.spark.upsert_flow import Flow

FIRST = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
OTHER = UUID("123e4567-e89b-12d3-a456-426614174000")
OTHERS = ["nope", "1-2-3-4-5", FIRST.hex, f"{{{FIRST}}}", f"{FIRST}\n"]

BY_NUMBER: dict[str, Any] = {"keys": ("n",), "order_by": (), "delete_when": None, "exclude_columns": ()}


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    arguments: dict[str, Any] = {
        "source": Files(path=f"{tmp_path}/*.jsonl", format="json", schema="n INT, u STRING, f BINARY"),
    }
    made = Flow(spark, f"values.v{abs(hash(request.node.name)) % 10**9}", tmp_path, arguments)
    schema = Schema(
        NestedField(1, "n", IntegerType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(2))
    )
    made.catalog().create_table(made.table, schema)
    return made


def stored(flow: Flow) -> list[tuple[int, str | None]]:
    rows = flow.loaded().scan().to_arrow().to_pylist()
    return sorted((row["n"], None if row["u"] is None else str(UUID(bytes=UUID(str(row["u"])).bytes))) for row in rows)


@pytest.mark.parametrize("value", OTHERS)
def test_what_is_no_uuid_is_refused_and_leaves_nothing(flow: Flow, value: str) -> None:
    flow.arrive("1.jsonl", {"n": 1, "u": str(FIRST).upper()}, {"n": 2})
    append(flow, "run 1")
    head = flow.head()
    flow.arrive("2.jsonl", {"n": 3, "u": value})
    with pytest.raises(BadInputError, match="a value that uuid column u does not hold; write UUIDs with hyphens"):
        append(flow, "run 2")
    for strategy in (UpsertStrategy.POSITIONS, UpsertStrategy.MERGE):
        with pytest.raises(BadInputError, match="uuid column u does not hold"):
            flow.apply("run 2", strategy=strategy, **BY_NUMBER)
    assert flow.head() == head
    assert stored(flow) == [(1, str(FIRST)), (2, None)]


def test_bytes_of_another_length_are_refused(flow: Flow) -> None:
    flow.arrive("1.jsonl", {"n": 1, "f": "YWI="}, {"n": 2})
    append(flow, "run 1")
    flow.arrive("2.jsonl", {"n": 3, "f": "YWJj"})
    with pytest.raises(BadInputError, match=r"a value that fixed\[2\] column f does not hold; give as many bytes"):
        append(flow, "run 2")
    assert [row["f"] for row in flow.loaded().scan().to_arrow().to_pylist()] == [b"ab", None]


def test_values_inside_of_others_are_as_strict(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    name = f"{flow.table}_inside"
    uuids = ListType(11, UUIDType(), element_required=False)
    by_name = MapType(12, StringType(), 13, StructType(NestedField(14, "F", FixedType(2))), value_required=False)
    inner = StructType(NestedField(4, "u", UUIDType()), NestedField(5, "us", uuids), NestedField(6, "m", by_name))
    flow.catalog().create_table(name, Schema(NestedField(1, "n", IntegerType()), NestedField(2, "s", inner)))
    declared = "n INT, s STRUCT<m: MAP<STRING, STRUCT<f: BINARY>>, u: STRING, us: ARRAY<STRING>>"
    inside = replace(flow, table=name, changes={"source": Files(f"{tmp_path}/*.jsonl", format="json", schema=declared)})
    good: dict[str, Any] = {"u": str(FIRST).upper(), "us": [None, str(OTHER)], "m": {"a": {"f": "YWI="}, "b": None}}
    inside.arrive("1.jsonl", {"n": 1, "s": good}, {"n": 2}, {"n": 3, "s": {"u": None}})
    append(inside, "run 1")
    faults: list[dict[str, Any]] = [{"u": "1-2-3-4-5"}, {"us": [str(FIRST), "x"]}, {"m": {"a": {"f": "YWJj"}}}]
    for number, bad in enumerate(faults, 2):
        inside.arrive(f"{number}.jsonl", {"n": 4, "s": {**good, **bad}})
        with pytest.raises(BadInputError, match="column s does not hold; inside of it write UUIDs with hyphens"):
            append(inside, f"run {number}")
        with pytest.raises(BadInputError, match="column s does not hold; inside of it"):
            inside.apply(f"run {number}", **BY_NUMBER)
        (tmp_path / f"{number}.jsonl").unlink()
    (row,) = spark.sql(f"SELECT s.u, s.us, s.m FROM {name} WHERE n = 1").collect()
    assert (row["u"], row["us"], bytes(row["m"]["a"]["F"])) == (str(FIRST), [None, str(OTHER)], b"ab")


def test_what_no_load_takes_is_no_new_value_of_an_update(flow: Flow) -> None:
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN t STRING")
    # Another engine wrote what is no text. It is none of an update of other columns.
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, '{FIRST}', X'6162', CAST(X'FF' AS STRING))")

    def update(**assignments: str) -> None:
        arguments: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "where": "n = 1"}
        run = RunIdentity.of("dag", str(assignments), "task", "-1")
        update_rows(flow.spark, UpdateRowsSpec(run=run, assignments=assignments, **arguments), Progress())

    for name, value in (("u", "'1-2-3-4-5'"), ("f", "X'01'"), ("t", "CAST(X'FE' AS STRING)")):
        with pytest.raises(BadInputError, match=f"column {name} does not hold"):
            update(**{name: value})
    update(U=f"'{str(OTHER).upper()}'", f="X'6364'")
    (row,) = flow.spark.sql(f"SELECT u, f, CAST(t AS BINARY) AS t FROM {flow.table}").collect()
    assert (row["u"], bytes(row["f"]), bytes(row["t"])) == (str(OTHER), b"cd", b"\xff")


def test_a_uuid_is_the_same_one_in_capitals_or_the_batch_is_refused(flow: Flow) -> None:
    flow.arrive("1.jsonl", {"n": 1, "u": str(FIRST)}, {"n": 2, "u": str(FIRST)})
    once: dict[str, Any] = {"deduplicate_by": ("u",), "deduplicate_against": "P3D"}
    assert append(flow, "run 1", **once).rows_appended == 1
    flow.arrive("2.jsonl", {"n": 3, "u": str(FIRST).upper()})
    for compared in (once, {"deduplicate_by": ("u",)}):
        with pytest.raises(BadInputError, match="in lower case where rows are compared by them"):
            append(flow, "run 2", **compared)
    assert stored(flow) == [(1, str(FIRST))]
