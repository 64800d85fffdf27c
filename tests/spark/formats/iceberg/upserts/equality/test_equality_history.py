"""Random histories of equality upserts among other writers, compared with a dict."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, row

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "2"))

changes = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 99), st.booleans()), min_size=1, max_size=8)
steps = st.lists(
    st.tuples(st.sampled_from(["equality", "equality", "positions", "insert", "minor", "major"]), changes),
    min_size=2,
    max_size=4,
)
layouts = st.builds(
    lambda version, partition: TableLayout(partition_by=partition, properties={"format-version": version}),
    st.sampled_from(["2", "3"]),
    st.sampled_from([(), ("bucket(3, id)",)]),
)


def play(flow: Flow, model: dict[int, int], number: int, what: str, batch: list[tuple[int, int, bool]]) -> None:
    """Change the table and the dict alike."""
    if what in ("minor", "major"):
        run = RunIdentity.of("maintenance", uuid.uuid4().hex, "task")
        spec = CompactionSpec(catalog="lake_default", table=flow.table, run=run, level=CompactionLevel(what))
        compact_table(flow.spark, spec, Progress())
    elif what == "insert":
        new = 100 + number
        flow.spark.sql(f"INSERT INTO {flow.table} VALUES ({new}, 'x', {number})")
        model[new] = number
    else:
        flow.arrive(f"{number:03}.jsonl", *(row(i, "x", n, "d" if gone else "u") for i, n, gone in batch))
        flow.apply(f"run {number}", strategy=UpsertStrategy(what))
        for i, n, gone in batch:
            if gone:
                model.pop(i, None)
            else:
                model[i] = n


@settings(max_examples=EXAMPLES, deadline=None)
@given(layout=layouts, first=changes, history=steps)
def test_any_history_leaves_what_a_dict_would_hold(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    layout: TableLayout,
    first: list[tuple[int, int, bool]],
    history: list[tuple[str, Any]],
) -> None:
    flow = Flow(spark, f"histories.e{uuid.uuid4().hex}", Path(tmp_path_factory.mktemp("inbox")), {"create": layout})
    model: dict[int, int] = {}
    for number, (what, batch) in enumerate([("equality", first), *history, ("major", [])], start=1):
        play(flow, model, number, what, batch)
        found = flow.spark.table(flow.table).collect()
        assert sorted((r["id"], r["n"]) for r in found) == sorted(model.items()), f"after {number}, {what}"
    assert {i: n for i, (_, n) in flow.rows().items()} == model
