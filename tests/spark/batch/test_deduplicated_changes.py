from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, DELETED, UNPARSABLE
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import (
    ChangeCounts,
    count_changes,
    latest_change_per_key,
    refuse_unordered,
    resolve_columns,
)
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRange, KeyRanges
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_keys

Row = tuple[int | None, str | None, int | None, int | None, str]
DDL = "id INT, region STRING, first INT, second INT, note STRING"
KEYS, ORDER = ("id", "region"), ("first", "second")


def frame(spark: SparkSession, rows: list[Row], arrival: bool) -> DataFrame:
    numbered = spark.createDataFrame([(*row, place) for place, row in enumerate(rows)], f"{DDL}, place BIGINT")
    place = sf.struct(sf.lit(0).alias("file"), sf.lit(0).alias("block"), sf.col("place").alias("row"))
    return (numbered.withColumn(ARRIVAL, place) if arrival else numbered).drop("place")


def newest_first(row: Row) -> tuple[tuple[bool, int], ...]:
    """NULL is the oldest."""
    return tuple((value is not None, value or 0) for value in row[2:4])


def reduced(spark: SparkSession, rows: list[Row], arrival: bool, order: tuple[str, ...] = ORDER) -> Any:
    latest = latest_change_per_key(frame(spark, rows, arrival), KEYS, order, arrival).withColumn(DELETED, sf.lit(False))
    return latest.persist(), count_changes(latest, KEYS)


number = st.none() | st.integers(0, 2)
batches = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), number, number, st.sampled_from(["", "x", "\ud7ff"])),
    max_size=14,
)
examples = int(os.environ.get("LAKE_EXAMPLES", "12"))


@settings(max_examples=examples, deadline=None)
@given(rows=batches)
def test_the_last_row_is_greatest_in_order_and_then_latest_in_arrival(spark: SparkSession, rows: list[Row]) -> None:
    latest, counts = reduced(spark, rows, arrival=True)
    expected: dict[Any, Row] = {}
    for row in sorted(rows, key=newest_first):  # stable, so arrival decides between equals
        expected[row[:2]] = row
    assert {row[:2]: row for row in map(tuple, latest.select("id", "region", *ORDER, "note").collect())} == expected
    assert (counts.rows, counts.keys, counts.ambiguous, counts.null_keys) == (len(rows), len(expected), 0, 0)
    latest.unpersist()


@settings(max_examples=examples, deadline=None)
@given(rows=batches)
def test_without_arrival_keys_with_different_newest_rows_are_counted(spark: SparkSession, rows: list[Row]) -> None:
    latest, counts = reduced(spark, rows, arrival=False)
    newest: dict[Any, set[Row]] = {}
    for key in {row[:2] for row in rows}:
        of_key = [row for row in rows if row[:2] == key]
        top = max(map(newest_first, of_key))
        newest[key] = {row for row in of_key if newest_first(row) == top}
    assert counts.ambiguous == sum(len(ambiguous) > 1 for ambiguous in newest.values())
    assert counts.keys == len(newest)
    for row in map(tuple, latest.select("id", "region", *ORDER, "note").collect()):
        assert row in newest[row[:2]]
    latest.unpersist()


def test_equal_rows_without_any_order_are_one(spark: SparkSession) -> None:
    latest, counts = reduced(spark, [(1, "a", 1, 1, "x"), (1, "a", 1, 1, "x")], arrival=False, order=())
    assert (counts.rows, counts.keys, counts.ambiguous) == (2, 1, 0)
    refuse_unordered(counts, KEYS, ())
    assert latest.count() == 1


def test_rows_with_maps_can_be_told_apart(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS id, map('a', v) AS m, array(map('b', v)) AS n FROM VALUES (1), (1), (2) AS t(v)")
    latest = latest_change_per_key(rows, ["id"], (), arrival=False).withColumn(DELETED, sf.lit(False))
    assert count_changes(latest, ["id"]).ambiguous == 1


def test_null_keys_unreadable_rows_and_deletes_are_counted_in_one_pass(spark: SparkSession) -> None:
    rows = frame(spark, [(1, "a", 1, 1, "x"), (1, None, 1, 1, ""), (None, None, 1, 1, ""), (1, None, 2, 2, "")], True)
    flagged = rows.withColumn(UNPARSABLE, sf.when(sf.col("first") == 2, sf.lit("text")))
    latest = latest_change_per_key(flagged, KEYS, (), arrival=True).withColumn(DELETED, sf.col("note") == "x")
    counts = count_changes(latest, KEYS)
    columns = (KeyRange(column="id", least="1", greatest="1"), KeyRange(column="region", least="a", greatest="a"))
    ranges = KeyRanges(keys=3, columns=columns)
    expected = ChangeCounts(rows=4, keys=3, deletes=1, null_keys=3, ambiguous=0, unparsable=1, key_ranges=ranges)
    assert counts == replace(expected, null_by_key={"id": 1, "region": 3})


@pytest.mark.parametrize(
    ("found", "order_by", "message"),
    [
        ({"ambiguous": 3}, (), r"3 keys of \['id', 'region'\] occur more than once .* give order_by"),
        ({"ambiguous": 3}, ("first",), r"3 keys of .* the same \['first'\], .* add a column"),
    ],
)
def test_what_has_no_last_change_is_refused(found: dict[str, int], order_by: tuple[str, ...], message: str) -> None:
    counts = ChangeCounts(
        rows=9,
        keys=5,
        deletes=0,
        unparsable=0,
        null_keys=0,
        ambiguous=found["ambiguous"],
    )
    with pytest.raises(BadInputError, match=message):
        refuse_unordered(counts, KEYS, order_by)


def test_rows_with_null_in_a_key_are_refused_by_column() -> None:
    refuse_null_keys(0, 9, {})
    with pytest.raises(BadInputError, match=r"2 of 9 rows have NULL in a key column: region in 2\. "):
        refuse_null_keys(2, 9, {"region": 2})


def test_missing_columns_are_named_with_what_there_is(spark: SparkSession) -> None:
    rows = frame(spark, [], arrival=True)
    with pytest.raises(BadInputError, match=r"keys \['id', 'nope'\].*lacks: \['nope'\]; it has \['id', 'region'"):
        resolve_columns(rows, ["id", "nope"], "keys")
    assert resolve_columns(rows, ["ID", "Region"], "keys") == ["id", "region"]


def test_a_value_in_another_column_or_another_place_of_a_list_is_another_row(spark: SparkSession) -> None:
    rows = [(1, None, "a", ["x"]), (1, "a", None, ["x"]), (2, "a", "a", [None, "x"]), (2, "a", "a", ["x", None])]
    frame = spark.createDataFrame(rows, "id INT, one STRING, two STRING, list ARRAY<STRING>")
    latest = latest_change_per_key(frame, ["id"], (), arrival=False).withColumn(DELETED, sf.lit(False))
    assert count_changes(latest, ["id"]).ambiguous == 2


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("map('a', TIMESTAMP '2026-01-01 00:00:00.000001')", "map('a', TIMESTAMP '2026-01-01 00:00:00.000002')", False),
        ("array(map(1, TIMESTAMP_NTZ '2026-01-01 00:00:00.1'))", "array(map(1, TIMESTAMP_NTZ '2026-01-01'))", False),
        ("map('a', array(1, NULL))", "map('a', array(NULL, 1))", False),
        ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", True),
        ("named_struct('m', map('a', double('NaN')))", "named_struct('m', map('a', double('NaN')))", True),
        ("NULL", "NULL", True),
    ],
)
def test_values_inside_others_are_compared_to_the_last_digit(
    spark: SparkSession, one: str, other: str, are_equal: bool
) -> None:
    rows = spark.sql(f"SELECT 1 AS id, {one} AS v UNION ALL SELECT 1, {other}")
    latest = latest_change_per_key(rows, ["id"], (), arrival=False).withColumn(DELETED, sf.lit(False))
    counts = count_changes(latest, ["id"])
    assert (counts.rows, counts.keys, counts.ambiguous) == (2, 1, 0 if are_equal else 1)
