"""Spark jobs that look for deletes whose create is not in their batch: none where no such delete would be kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.sources.debezium.event_writer import SourceTable
from tests.spark.sql.spark_traces import SparkTraces
from tests.spark.upsert_flow import Flow

DDL = "id BIGINT, n INT, note STRING"


@dataclass
class JobsOfReading(Progress):
    """Counts the Spark jobs of the phase that reads."""

    traces: SparkTraces | None = None
    found: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        before = self.traces.jobs() if self.traces else 0
        with super().phase(name) as facts:
            yield facts
        if name == "read" and self.traces:
            self.found = self.traces.jobs() - before


@dataclass
class Readings:
    """Applies batches, each to a table of its own."""

    spark: SparkSession
    folder: Path
    ordering: EventOrdering | None = None
    number: int = 0

    def jobs(self, source: SourceTable, branch: str | None = None) -> int:
        """Apply the lines of a source as the second batch of a table and return the jobs of reading it."""
        self.number += 1
        inbox = self.folder / str(self.number)
        inbox.mkdir()
        first, *second = source.take_lines()
        events = Debezium(path=f"{inbox}/*.jsonl", schema=DDL, table="public.items", ordering=self.ordering)
        changes: dict[str, Any] = {"source": events, "delete_when": None, "exclude_columns": ()}
        flow = Flow(self.spark, f"cut_jobs.{self.folder.name}_{self.number}", inbox, changes)
        (inbox / "1.jsonl").write_text(f"{first}\n")
        flow.apply("run 1")
        (inbox / "2.jsonl").write_text("\n".join(second) + "\n")
        counted = JobsOfReading(traces=SparkTraces(self.spark, self.folder / "canary"))
        flow.apply("run 2", counted, branch=branch)
        return counted.found


@pytest.fixture
def readings(spark: SparkSession, tmp_path: Path) -> Readings:
    return Readings(spark, tmp_path)


def some_rows(*, kafka: bool = True, headers: bool = True) -> SourceTable:
    source = SourceTable(kafka=kafka, headers=headers)
    for key in range(1, 5):
        source.insert(key, key, "short")
    return source


@pytest.mark.parametrize("kafka", [True, False], ids=["records", "bare envelopes"])
def test_a_delete_that_something_stands_behind_starts_no_job(readings: Readings, kafka: bool) -> None:
    without, with_delete = some_rows(kafka=kafka), some_rows(kafka=kafka)
    without.update(2, 9)
    with_delete.delete(2)
    for source in (without, with_delete):
        source.update(3, 9)
    assert readings.jobs(with_delete) == readings.jobs(without)


@pytest.mark.parametrize("ordering", [None, EventOrdering.KEY], ids=["by position", "by key"])
def test_a_delete_without_a_header_among_key_changes_with_one_starts_no_job(
    readings: Readings, ordering: EventOrdering | None
) -> None:
    readings.ordering = ordering
    # The other half of both, the delete of key 9, was in a batch before.
    without, with_delete = some_rows(), some_rows()
    for source in (without, with_delete):
        source.insert(9, 9, "short")
        *lines, _ = source.take_lines()
        source.move(9, 8, 9)
        source.lines = [*lines, source.take_lines()[-1]]
    without.update(2, 9)
    with_delete.delete(2)
    assert readings.jobs(with_delete) == readings.jobs(without)


@pytest.mark.parametrize("ordering", [None, EventOrdering.STREAM], ids=["unknown order", "ordered stream"])
def test_a_batch_that_goes_to_a_branch_starts_no_job(readings: Readings, ordering: EventOrdering | None) -> None:
    readings.ordering = ordering
    without, with_delete = some_rows(), some_rows()
    without.move(2, 7, 9)
    without.update(3, 9)
    with_delete.move(2, 7, 9)
    with_delete.delete(3)
    on_branch = readings.jobs(with_delete, branch="tried")
    assert on_branch == readings.jobs(without, branch="tried")
    assert on_branch < readings.jobs(_again(), branch=None)


def _again() -> SourceTable:
    source = some_rows()
    source.move(2, 7, 9)
    source.delete(3)
    return source


def test_a_key_change_that_is_whole_costs_one_look_for_its_halves(readings: Readings) -> None:
    cut, whole = some_rows(), some_rows()
    whole.move(2, 7, 9)
    whole.update(3, 9)
    cut.move(2, 7, 9)
    cut.lines.pop()
    cut.update(3, 9)
    assert readings.jobs(whole) < readings.jobs(cut)
