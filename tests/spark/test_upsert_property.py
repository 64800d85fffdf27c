"""Random histories of a table, compared after each step with a dict, as Spark and as PyIceberg read it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.compaction_spec import CompactionLevel, CompactionSpec
from airflow_lake_provider.contracts.expiry_spec import ExpirySpec
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.table_layout import MissingColumns, TableLayout
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.compact_table import compact_table
from airflow_lake_provider.spark_jobs.expire_snapshots import expire_snapshots
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, row

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "6"))
Model = dict[int, tuple[str | None, int | None]]

ids = st.integers(0, 12)
changes = st.lists(st.tuples(ids, st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=10)
layouts = st.builds(
    lambda version, partition: TableLayout(partition_by=partition, properties={"format-version": version}),
    st.sampled_from(["2", "3"]),
    st.sampled_from([(), ("name",), ("bucket(3, id)",)]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), changes),
        st.tuples(st.just("merge"), changes),
        st.tuples(st.just("copy"), changes),
        st.tuples(st.just("keep"), changes),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("expire"), st.none()),
        st.tuples(st.just("delete"), ids),
    ),
    min_size=2,
    max_size=6,
)


@dataclass
class History:
    """A table and the dict it has to equal."""

    flow: Flow
    model: Model = field(default_factory=dict)
    runs: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000)))

    def play(self, what: str, argument: Any) -> None:
        match what:
            case "upsert" | "merge" | "copy" | "keep":
                self.upsert(argument, what)
            case "delete":
                self.flow.spark.sql(f"DELETE FROM {self.flow.table} WHERE id = {argument}")
                self.model.pop(argument, None)
            case "compact":
                compact_table(self.flow.spark, CompactionSpec(**self.job(), level=CompactionLevel.MAJOR), Progress())
            case "expire":
                now = datetime.now(UTC) + timedelta(seconds=1)
                spec = ExpirySpec(**self.job(), older_than=now, stage_branches_older_than=now, keep_last=1)
                expire_snapshots(self.flow.spark, spec, Progress())

    def job(self) -> dict[str, Any]:
        run = RunIdentity.of("maintenance", uuid.uuid4().hex, "task")
        return {"catalog": "lake_default", "table": self.flow.table, "run": run}

    def upsert(self, batch: list[tuple[int, str, int, bool]], what: str) -> None:
        number = next(self.runs)
        self.flow.arrive(f"{number:03}.jsonl", *(row(i, name, n, "d" if gone else "u") for i, name, n, gone in batch))
        kept: dict[str, Any] = {"missing_columns": MissingColumns.KEEP, "exclude_columns": ("op", "n")}
        strategies = {"merge": UpsertStrategy.MERGE, "copy": UpsertStrategy.COPY_ON_WRITE}
        strategy = strategies.get(what, UpsertStrategy.POSITIONS)
        self.flow.apply(f"run {number}", strategy=strategy, **(kept if what == "keep" else {}))
        for i, name, n, gone in {change[0]: change for change in batch}.values():
            if gone:
                self.model.pop(i, None)
            elif what == "keep":
                self.model[i] = (name, self.model[i][1] if i in self.model else None)
            else:
                self.model[i] = (name, n)

    def check(self) -> None:
        assert self.flow.rows() == self.model
        as_spark_reads = self.flow.spark.table(self.flow.table).collect()
        assert sorted(tuple(found) for found in as_spark_reads) == sorted((i, *rest) for i, rest in self.model.items())


@settings(max_examples=EXAMPLES, deadline=None)
@given(layout=layouts, first=changes, steps=steps)
def test_any_history_leaves_what_a_dict_would_hold(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    layout: TableLayout,
    first: list[tuple[int, str, int, bool]],
    steps: list[tuple[str, Any]],
) -> None:
    flow = Flow(spark, f"histories.t{uuid.uuid4().hex}", Path(tmp_path_factory.mktemp("inbox")), {"create": layout})
    history = History(flow)
    history.upsert(first, "upsert")
    history.check()
    for what, argument in steps:
        history.play(what, argument)
        history.check()
