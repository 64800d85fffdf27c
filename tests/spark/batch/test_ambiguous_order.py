"""Rows of one key and one order from a source without arrival: refused where another order gives another result."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.merge_engines import Aggregation, MergeEngine, PartialUpdate
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import AMBIGUOUS, with_ambiguous_order
from tests.spark.merge_model import CASES, SCHEMA, Row, apply_batch

ENGINES = {
    "first": CASES["first"],
    "partial": PartialUpdate(),
    "text in order": CASES["aggregate"],
    "the last text": Aggregation(aggregates={"g": "max", "n": "sum", "f": "bool_and"}),
    "any order": Aggregation(aggregates={"g": "max", "a": "max", "n": "sum", "f": "bool_and"}),
}


def random_rows(key: int) -> list[Row]:
    draw = random.Random(key)
    return [
        {
            "id": key,
            "at": draw.choice([None, 1, 2]),
            "g": draw.choice([None, 1]),
            "a": draw.choice([None, "x", "y"]),
            "n": draw.choice([None, 1, 2]),
            "f": draw.choice([None, True]),
            "op": draw.choice("uuuud"),
        }
        for _ in range(draw.randint(1, 4))
    ]


def results(rows: list[Row], merge_engine: MergeEngine) -> set[str]:
    """Return the possible results, one for each order of the rows with the same ``at``."""
    found = set()
    for order in permutations(rows):
        table: dict[int, Row] = {}
        apply_batch(table, list(order), merge_engine)
        found.add(str(table))
    return found


@pytest.mark.parametrize("case", ENGINES)
def test_a_tie_is_refused_where_another_order_of_its_rows_gives_another_result(spark: SparkSession, case: str) -> None:
    merge_engine = ENGINES[case]
    batches = {key: random_rows(key) for key in range(400)}
    columns = [name.split()[0] for name in SCHEMA.split(", ")]
    frame = spark.createDataFrame([tuple(row[c] for c in columns) for rows in batches.values() for row in rows], SCHEMA)
    flagged = frame.withColumn(DELETED, sf.col("op") == "d")
    ambiguous = with_ambiguous_order(flagged, ["id"], ["at"], merge_engine, ["op"])
    flags = ambiguous.groupBy("id").agg(sf.min(AMBIGUOUS), sf.max(AMBIGUOUS)).collect()
    assert all(least == greatest for _, least, greatest in flags)
    refused = {row["id"] for row in flags if row[1]}
    arbitrary = {key for key, rows in batches.items() if len(results(rows, merge_engine)) > 1}
    assert 40 < len(refused) < 360
    assert arbitrary <= refused
    if case == "first":
        assert arbitrary == refused
    if case == "any order":
        assert all(any(row["op"] == "d" for row in batches[key]) for key in refused)


def test_without_an_order_all_rows_of_a_key_are_ambiguous(spark: SparkSession) -> None:
    rows = [(1, 5, "a"), (1, 7, "b"), (2, 5, "a"), (2, 7, "a"), (3, 5, "a"), (3, 5, None)]
    frame = spark.createDataFrame(rows, "id INT, total INT, name STRING").withColumn(DELETED, sf.lit(False))
    merge_engine = Aggregation(aggregates={"TOTAL": "sum"})
    ambiguous = with_ambiguous_order(frame, ["id"], [], merge_engine, [])
    assert {row["id"] for row in ambiguous.filter(AMBIGUOUS).collect()} == {1, 3}
