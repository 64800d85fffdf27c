"""The commands that an upsert sends to the JVM, some 60 µs each."""

from __future__ import annotations

from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.jvm_commands import commands
from tests.spark.upsert_flow import Flow, NewFlow, row

FEW, MANY = 4, 24
ROWS_OF_A_FILE = 10


def _add_files(flow: Flow, first: int, end: int) -> None:
    rows = flow.spark.range(first * ROWS_OF_A_FILE, end * ROWS_OF_A_FILE, 1, end - first)
    rows.selectExpr("id", "'a' AS name", "0 AS n").writeTo(flow.table).append()


def _commands_of_an_upsert(flow: Flow, files: int) -> int:
    """Count them where each data file has a row of the batch, and a deletion vector already."""
    for number in range(2):
        batch = f"{files}-{number}"
        keys = range(number, files * ROWS_OF_A_FILE, ROWS_OF_A_FILE)
        flow.arrive(f"{batch}.jsonl", *(row(key, batch) for key in keys))
        with commands(flow.spark) as sent:
            report = flow.apply(batch)
        assert report.rows_updated == files
    return len(sent)


def test_an_upsert_costs_few_commands_and_few_more_for_each_data_file(new_flow: NewFlow) -> None:
    flow = new_flow(strategy=UpsertStrategy.POSITIONS)
    flow.arrive("0.jsonl", row(-1, "a"))
    flow.apply("run 0")
    _add_files(flow, 0, FEW)
    few = _commands_of_an_upsert(flow, FEW)
    assert few <= 900
    _add_files(flow, FEW, MANY)
    many = _commands_of_an_upsert(flow, MANY)
    assert (many - few) / (MANY - FEW) <= 10
