"""Random histories of a table, compared after each step with a dict, as Spark and as PyIceberg read it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes, MergeEngine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.soak.tiny_batches import planned_by_default
from tests.spark.merge_model import CASES, FIRST_ROW, Row, apply_batch, held, new_flow
from tests.spark.table_steps import (
    ASSIGNMENTS,
    PREDICATES,
    Alter,
    Compact,
    Delete,
    DeleteKeys,
    Expire,
    ForeignAppend,
    Repeat,
    Step,
    Update,
    Upsert,
    lives,
)
from tests.spark.upsert_flow import Flow, InterruptedProgress

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "3"))
MERGE_RULES = {"replace": Deduplicate(), **CASES}
layouts = st.builds(
    lambda version, partition: TableLayout(partition_by=partition, properties={"format-version": version}),
    st.sampled_from(["2", "3"]),
    st.sampled_from([(), ("bucket(2, id)",), ("a",)]),
)
Action = Callable[[SparkSession, Any, Progress], JobReport]


@dataclass
class History:
    """A table and the dict it has to equal.

    :param last: what has made the newest commit of ours, when that is known.
    """

    flow: Flow
    merge_engine: MergeEngine
    model: dict[int, Row] = field(default_factory=dict)
    runs: Iterator[int] = field(default_factory=count)
    last: tuple[Action, JobSpec] | None = None
    altered: set[Alter] = field(default_factory=set)

    def play(self, step: Step) -> None:
        match step:
            case Upsert():
                self.upsert(step)
            case Delete():
                self.delete(step)
            case DeleteKeys():
                self.delete_keys(step)
            case Update():
                self.update(step)
            case ForeignAppend():
                self.append(step)
            case Compact():
                spec = CompactionSpec(**self.job(), level=step.level, min_input_files=2)
                assert compact_table(self.flow.spark, spec, Progress()).outcome in (Outcome.DONE, Outcome.NOTHING_DUE)
            case Expire():
                self.expire(step)
            case Repeat():
                self.repeat()
            case Alter() if step not in self.altered:
                self.flow.spark.sql(f"ALTER TABLE {self.flow.table} {step.change}")
                self.altered.add(step)

    def play_all(self, steps: list[Step]) -> None:
        for step in steps:
            self.play(step)

    def expire(self, step: Expire) -> None:
        now = datetime.now(UTC) + timedelta(seconds=1)
        spec = SnapshotExpirySpec(
            **self.job(), expire_before=now, expire_stage_branches_before=now, retain_last=step.retain_last
        )
        expire_snapshots(self.flow.spark, spec, Progress())

    def job(self) -> dict[str, Any]:
        run = RunIdentity.of("dag", f"run {next(self.runs)}", "task", "-1")
        return {"catalog": "lake_default", "table": self.flow.table, "run": run}

    def run(self, action: Action, spec: JobSpec, progress: Progress | None = None) -> JobReport:
        report = action(self.flow.spark, spec, progress or Progress())
        self.last = (action, spec) if report.outcome is Outcome.APPLIED else None
        return report

    def upsert(self, step: Upsert) -> None:
        number = next(self.runs)
        self.flow.arrive(f"{number:03}.jsonl", *step.batch)
        kept: dict[str, Any] = {"missing_columns": MissingColumns.KEEP, "exclude_columns": ("op", "n")}
        spec = self.flow.spec(f"run {number}", strategy=step.strategy, **(kept if step.keeps else {}))
        self.run(upsert_batch, spec, InterruptedProgress(at="commit", then=lambda: self.play_all(step.meanwhile)))
        apply_batch(self.model, step.batch, self.merge_engine, lacks=("n",) if step.keeps else ())

    def delete(self, step: Delete) -> None:
        if step.foreign:
            self.flow.spark.sql(f"DELETE FROM {self.flow.table} WHERE {step.where}")
        else:
            self.run(delete_rows, DeleteRowsSpec(**self.job(), where=step.where, proof=False))
        for key in self.matching(step.where):
            del self.model[key]

    def delete_keys(self, step: DeleteKeys) -> None:
        file = self.flow.inbox / f"keys-{next(self.runs)}.json"
        file.write_text("".join(json.dumps({"id": key}) + "\n" for key in step.keys))
        source = Files(path=str(file), format="json", schema="id BIGINT")
        self.run(delete_rows, DeleteRowsSpec(**self.job(), keys_from=source, keys=("id",), proof=False))
        for key in step.keys:
            self.model.pop(key, None)

    def update(self, step: Update) -> None:
        column, expression = step.assignment
        if step.foreign:
            self.flow.spark.sql(f"UPDATE {self.flow.table} SET {column} = {expression} WHERE {step.where}")
        else:
            self.run(update_rows, UpdateRowsSpec(**self.job(), assignments={column: expression}, where=step.where))
        for key in self.matching(step.where):
            row = self.model[key]
            self.model[key] = {**row, column: ASSIGNMENTS[step.assignment](row)}

    def append(self, step: ForeignAppend) -> None:
        new = {key: {"at": 2, "g": None, "a": "y", "n": key, "f": None} for key in step.keys if key not in self.model}
        if not new:
            return
        values = ", ".join(f"({key}, 2, NULL, 'y', {key}, NULL)" for key in new)
        self.flow.spark.sql(f"INSERT INTO {self.flow.table} (id, at, g, a, n, f) VALUES {values}")
        flag = {"is_deleted": None} if self.merge_engine.deletes is Deletes.SOFT else {}
        self.model.update({key: {**row, **flag} for key, row in new.items()})

    def repeat(self) -> None:
        if self.last is None:
            return
        before = self.flow.loaded().current_snapshot()
        action, spec = self.last
        report = action(self.flow.spark, spec, Progress())
        assert report.outcome is Outcome.ALREADY_APPLIED, report
        assert self.flow.loaded().current_snapshot() == before

    def matching(self, where: str) -> list[int]:
        return [key for key, row in self.model.items() if PREDICATES[where]({"id": key, **row})]

    def check(self) -> None:
        assert held(self.flow) == self.model
        found = [row.asDict() for row in self.flow.spark.table(self.flow.table).collect()]
        expected = [{"id": key, **row} for key, row in self.model.items()]
        assert sorted(found, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


def play(history: History, life: list[Step]) -> None:
    """Play all steps and compare after each."""
    for step in [Upsert([FIRST_ROW]), *life]:
        history.play(step)
        history.check()


# Without shrinking: a failing example takes seconds, and its shrinking minutes.
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(case=st.sampled_from(sorted(MERGE_RULES)), layout=layouts, life=lives())
def test_any_history_leaves_what_a_dict_would_hold(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: str, layout: TableLayout, life: list[Step]
) -> None:
    flow = new_flow(spark, tmp_path_factory.mktemp("inbox"), MERGE_RULES[case], layout)
    with planned_by_default(spark):
        play(History(flow, MERGE_RULES[case]), life)
