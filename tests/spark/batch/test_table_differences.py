"""Rows of a table and of a batch are told apart as values of Python are, whatever their types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames, released_on_failure
from airflow_lake_provider.spark_jobs.batch.table_differences import WholeRows
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from tests.spark.cached_rdds import cached_rdds

# Values of each type, of which no two are equal but those that stand together in one tuple.
VALUES: dict[str, list[tuple[Any, ...]]] = {
    "INT": [(None,), (0,), (1,)],
    "DOUBLE": [(None,), (math.nan, -math.nan), (0.0, -0.0), (1.5,)],
    "STRING": [(None,), ("",), ("a",), ("NULL",)],
    "BINARY": [(None,), (b"",), (b"a",)],
    "BOOLEAN": [(None,), (True,), (False,)],
    "DECIMAL(38,2)": [(None,), (Decimal("1.00"), Decimal("1.0")), (Decimal("1.01"),)],
    "DATE": [(None,), (date(2026, 1, 1),)],
    "TIMESTAMP": [(None,), *((datetime(2026, 1, 1, 0, 0, 0, micros, tzinfo=UTC),) for micros in (0, 1))],
    "ARRAY<INT>": [(None,), ([],), ([None],), ([1],), ([None, 1],), ([1, None],)],
    "MAP<STRING, DOUBLE>": [(None,), ({},), ({"a": None},), ({"a": 0.0, "b": 1.0}, {"b": 1.0, "a": -0.0})],
    "STRUCT<x: INT, y: INT>": [(None,), ((None, None),), ((1, None),), ((None, 1),)],
    "ARRAY<STRUCT<m: MAP<INT, ARRAY<STRING>>>>": [([({1: ["a"], 2: []},)], [({2: [], 1: ["a"]},)]), ([({1: None},)],)],
}


def test_values_of_every_type_are_told_apart_as_python_does(spark: SparkSession) -> None:
    columns = [f"c{place}{side} {kind}" for place, kind in enumerate(VALUES) for side in "ab"]
    schema = parse_ddl(", ".join(["id INT", *columns]))
    table: list[tuple[Any, ...]] = []
    batch: list[tuple[Any, ...]] = []
    expected = set()

    def pair(place: int, one: tuple[Any, Any], other: tuple[Any, Any], *, differs: bool) -> None:
        if differs:
            expected.add(len(table))
        for rows, given in ((table, one), (batch, other)):
            values = [None] * (len(columns))
            values[2 * place : 2 * place + 2] = given
            rows.append((len(rows), *values))

    for place, equals in enumerate(VALUES.values()):
        for one, other in product(range(len(equals)), repeat=2):
            for before, after in product(equals[one], equals[other]):
                pair(place, (before, None), (after, None), differs=one != other)
        for value in (each for same in equals for each in same):
            # A hash that passes over NULL takes these for the same.
            pair(place, (value, None), (None, value), differs=value is not None)
    whole = WholeRows(
        table=spark.createDataFrame(table, schema),
        batch=spark.createDataFrame(batch, schema),
        schema=schema,
        keys=["id"],
        stored=schema.names,
    )
    cached: list[DataFrame] = []
    found = whole.differences(100, cached)
    assert {row[0] for row in whole.of_upserts(whole.batch, found).select("id").collect()} == expected
    assert (found.counts.upserts, found.counts.deletes) == (len(expected), 0)
    release_frames(*cached)


def differences(spark: SparkSession, table: str, batch: str, **changes: Any) -> tuple[list[Any], list[Any], Any]:
    """Return keys to insert or update, keys to delete, and the counts."""
    rows, schema = spark.sql(table), spark.sql(table).schema
    given: dict[str, Any] = {"table": rows, "batch": spark.sql(batch), "schema": schema, "keys": ["id"], **changes}
    whole = WholeRows(**{"stored": given["batch"].columns, **given})
    cached: list[DataFrame] = []
    found = whole.differences(100, cached)
    upserts = sorted(row[0] for row in whole.of_upserts(whole.batch, found).select("id").collect())
    deletes = sorted(row[0] for row in whole.deleted_keys(found).collect())
    release_frames(*cached)
    return upserts, deletes, found.counts


def rows(*values: str, names: str = "id, n") -> str:
    return f"SELECT * FROM VALUES {', '.join(values)} AS ({names})"


def test_keys_are_new_changed_or_gone_and_repeats_and_null_are_counted(spark: SparkSession) -> None:
    table = rows("(1, 1)", "(2, 2)", "(3, 3)", "(4, 4)", "(4, 4)", "(5, 5)", "(5, 5)")
    # Other types and names of columns than the table's; a key that the table has twice, and one that the batch has.
    batch = rows("(1L, 1S)", "(2L, 9S)", "(4L, 4S)", "(6L, 6S)", "(6L, 7S)", "(null, 1S)", names="ID, N")
    upserts, deletes, counts = differences(spark, table, batch, keys=["ID"])
    assert (upserts, deletes) == ([2, 6, 6], [3, 5])
    assert (counts.rows, counts.live, counts.deletes, counts.deleted, counts.unchanged) == (6, 7, 2, 3, 2)
    assert (counts.null_keys, counts.null_by_key, counts.null_in_table) == (1, {"ID": 1}, 0)


def test_keys_without_any_other_column_are_new_or_gone(spark: SparkSession) -> None:
    table, batch = rows("(1)", "(2)", names="id"), rows("(2)", "(3)", names="id")
    upserts, deletes, counts = differences(spark, table, batch)
    assert (upserts, deletes, counts.unchanged) == ([3], [1], 1)


def test_rows_with_a_flag_are_gone_already_and_come_back(spark: SparkSession) -> None:
    table = rows("(1, 1, false)", "(2, 2, null)", "(3, 3, true)", "(4, 4, true)", "(5, 5, false)", names="id, n, gone")
    upserts, deletes, counts = differences(spark, table, rows("(1, 1)", "(2, 2)", "(3, 3)"), deleted_column="gone")
    assert (upserts, deletes, counts.live, counts.deleted) == ([3], [5], 3, 1)


def test_a_comparison_that_fails_leaves_nothing_cached(spark: SparkSession) -> None:
    before = cached_rdds(spark)
    table, batch = spark.sql(rows("(1, 1)", "(2, 2)")), spark.sql("SELECT id, raise_error('gone') AS n FROM range(3)")
    whole = WholeRows(table=table, batch=batch, schema=table.schema, keys=["id"], stored=["id", "n"])
    with pytest.raises(Exception, match="gone"), released_on_failure() as cached:
        whole.differences(2, cached)
    assert cached_rdds(spark) <= before


@pytest.mark.parametrize(("keeps", "expected"), [(True, []), (False, [1])])
def test_a_column_that_the_batch_lacks_is_null_or_is_not_compared(
    spark: SparkSession, keeps: bool, expected: list[int]
) -> None:
    table = rows("(1, 1, 'x')", "(2, 2, null)", names="id, n, extra")
    batch = rows("(1, 1, 5)", "(2, 2, 5)", names="id, n, op")
    found = differences(spark, table, batch, keeps_missing=keeps, stored=["id", "n"])
    assert found[0] == expected


def test_a_field_that_a_struct_would_keep_is_refused(spark: SparkSession) -> None:
    table = "SELECT 1 AS id, named_struct('a', 1, 'b', 2) AS s"
    with pytest.raises(UnsupportedError, match="column 's' of the batch lacks fields"):
        differences(spark, table, "SELECT 1 AS id, named_struct('a', 1) AS s", keeps_missing=True)
    assert differences(spark, table, "SELECT 1 AS id, named_struct('b', 2L, 'a', 1) AS s")[0] == []


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no VARIANT")
def test_variants_differ_in_type_and_to_the_microsecond(spark: SparkSession) -> None:
    values = ["'2026-01-01'", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00.000001'", "1L", "true", "'true'"]

    def variants(texts: list[str]) -> str:
        selected = (f"SELECT {number} AS id, CAST({text} AS VARIANT) AS v" for number, text in enumerate(texts))
        return f"SELECT id, v, array(v) AS listed FROM ({' UNION ALL '.join(selected)})"

    everything = list(range(len(values)))
    assert differences(spark, variants(values), variants(values))[0] == []
    assert differences(spark, variants(values), variants([*values[1:], values[0]]))[0] == everything
    of_micros = [value.replace("000001", "000002") for value in values]
    assert differences(spark, variants(values), variants(of_micros))[0] == [2]
