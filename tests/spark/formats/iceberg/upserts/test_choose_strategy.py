"""The strategy that ``auto`` takes, and the report's reason for it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import choose_strategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategy_costs import COSTS, StrategyCost
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row

MERGE_ON_READ = TableLayout(properties={"write.merge.mode": "merge-on-read"})


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.AUTO)


def test_the_report_tells_what_each_strategy_would_have_cost(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    first = flow.apply("run 1", create=MERGE_ON_READ)
    assert str(first.strategy_reason).startswith("the table has no rows; ")
    flow.arrive("2.jsonl", row(1, "b"), row(99, "b"))
    report = flow.apply("run 2")
    said = (
        r"1 files of 1, 30 candidate rows, about [\d.]+ s; copy-on-write about [\d.]+ s, merge about [\d.]+ s; pruned"
    )
    assert report.strategy == "positions"
    assert re.match(said, str(report.strategy_reason)), report.strategy_reason


@pytest.mark.parametrize(
    ("cheap", "taken"),
    [
        (UpsertStrategy.MERGE, "merge"),
        (UpsertStrategy.COPY_ON_WRITE, "copy-on-write"),
    ],
)
def test_auto_takes_what_costs_much_less_and_leaves_the_same_rows(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, cheap: UpsertStrategy, taken: str
) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    dear = COSTS[UpsertStrategy.POSITIONS]
    costs = {each: replace(dear, fixed=10.0) for each in COSTS} | {cheap: replace(dear, fixed=7.9)}
    monkeypatch.setattr(choose_strategy, "COSTS", costs)
    flow.arrive("2.jsonl", row(1, "b"), row(2, "", op="d"), row(99, "b"))
    report = flow.apply("run 2")
    assert (report.strategy, report.rows_inserted, report.rows_updated, report.rows_deleted) == (taken, 1, 1, 1)
    assert {key: name for key, (name, _) in flow.rows().items() if name == "b"} == {1: "b", 99: "b"}
    assert 2 not in flow.rows()


@pytest.mark.parametrize(("positions", "merge"), [(10.0, 8.1), (1.5, 0.6)])
def test_a_gain_that_may_be_an_error_of_the_estimate_changes_nothing(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, positions: float, merge: float
) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    dear = COSTS[UpsertStrategy.POSITIONS]
    costs = {each: replace(dear, fixed=positions) for each in COSTS}
    costs |= {UpsertStrategy.MERGE: replace(dear, fixed=merge)}
    monkeypatch.setattr(choose_strategy, "COSTS", costs)
    flow.arrive("2.jsonl", row(1, "b"))
    assert flow.apply("run 2").strategy == "positions"


@pytest.mark.parametrize(
    ("dear", "version", "key", "taken"),
    [
        ("older_version", "2", "id", "merge"),
        ("older_version", "3", "id", "positions"),
        ("other_key", "3", "name", "merge"),
        ("other_key", "3", "id", "positions"),
    ],
)
def test_the_key_and_the_format_version_have_their_price(
    new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch, dear: str, version: str, key: str, taken: str
) -> None:
    flow = new_flow(strategy=UpsertStrategy.AUTO, keys=(key,))
    layout = TableLayout(properties={"write.merge.mode": "merge-on-read", "format-version": version})
    flow.arrive("1.jsonl", *(row(number, f"name {number}") for number in range(30)))
    flow.apply("run 1", create=layout)
    plain = StrategyCost(fixed=9.0, key=0.0, candidate_row=0.0)
    costs = dict.fromkeys(COSTS, plain) | {UpsertStrategy.COPY_ON_WRITE: replace(plain, fixed=12.0)}
    costs[UpsertStrategy.POSITIONS] = replace(plain, fixed=2.0, **{dear: 9.0})
    monkeypatch.setattr(choose_strategy, "COSTS", costs)
    flow.arrive("2.jsonl", row(1, "name 1", 7))
    assert flow.apply("run 2").strategy == taken


def test_merge_is_not_compared_where_it_would_write_files_anew(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    flow.spark.sql(f"ALTER TABLE {flow.table} UNSET TBLPROPERTIES ('write.merge.mode')")
    flow.arrive("2.jsonl", row(1, "b"))
    assert "merge about" not in str(flow.apply("run 2").strategy_reason)


def test_files_are_planned_once_for_the_choice_the_read_and_the_deletes(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(30)))
    flow.apply("run 1", create=MERGE_ON_READ)
    planned: list[str] = []

    def again(table: IcebergTable, snapshot: int, paths: Collection[str]) -> dict[str, Any]:
        planned.extend(paths)
        return scan_tasks(table, snapshot, paths)

    monkeypatch.setattr(write_deletes, "scan_tasks", again)
    flow.arrive("2.jsonl", row(1, "b"))
    flow.apply("run 2")
    assert planned == []

    delete = f"DELETE FROM {flow.table} WHERE id = 9"
    flow.arrive("3.jsonl", row(2, "c"))
    report = flow.apply("run 3", progress=InterruptedProgress(at="commit", then=lambda: flow.spark.sql(delete)))
    assert report.attempts == 1
    # On the other writer's head the deletes of before are not those of now.
    assert planned
    assert {key: name for key, (name, _) in flow.rows().items() if name != "a"} == {1: "b", 2: "c"}
    assert 9 not in flow.rows()
