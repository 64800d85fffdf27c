"""What becomes of a batch whose table another driver makes or alters at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.job_report import Outcome
from airflow_lake_provider.contracts.table_layout import TableLayout
from tests.spark.upsert_flow import SCHEMA, Flow, Killed, row


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    return Flow(spark, f"altered.t{abs(hash(request.node.name)) % 10**9}", tmp_path / "inbox")


@pytest.mark.parametrize("statement", ["SET IDENTIFIER", "WRITE ORDERED", "UNSET"])
def test_a_driver_killed_while_it_creates_the_table_is_finished_by_the_next(
    flow: Flow, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = type(flow.spark).sql

    def killed(session: SparkSession, text: str, *arguments: Any, **named: Any) -> Any:
        if statement in text:
            raise Killed
        return execute(session, text, *arguments, **named)

    layout = TableLayout(sort_by=("n",))
    flow.arrive("1.jsonl", row(1, "a"))
    with monkeypatch.context() as patch:
        patch.setattr(type(flow.spark), "sql", killed)
        with pytest.raises(Killed):
            flow.apply("run 1", create=layout)
    assert flow.apply("run 1", create=layout).outcome is Outcome.APPLIED
    table = flow.loaded()
    assert [table.schema().find_column_name(i) for i in table.schema().identifier_field_ids] == ["id"]
    assert [table.schema().find_column_name(f.source_id) for f in table.sort_order().fields] == ["n"]
    assert "lake.creation-unfinished" not in table.properties


OTHERS_FIRST = {"SET IDENTIFIER": "ALTER TABLE {} SET TBLPROPERTIES ('some' = 'thing')"}


@pytest.mark.parametrize("statement", ["SET IDENTIFIER", "ADD COLUMNS", "TYPE bigint"])
def test_a_change_of_the_table_that_another_driver_makes_first_is_looked_at_again(
    flow: Flow, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = type(flow.spark).sql
    theirs: list[str] = []

    def late(session: SparkSession, text: str, *arguments: Any, **named: Any) -> Any:
        if statement in text and not theirs:
            theirs.append(text)
            # A session of its own sees what is committed, and is not seen: as another driver.
            execute(flow.spark.newSession(), OTHERS_FIRST.get(statement, text).format(flow.table))
        return execute(session, text, *arguments, **named)

    flow.arrive("1.jsonl", row(1, "a"))
    wider = Source(
        path=f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA.replace("n INT", "n BIGINT, extra DOUBLE")
    )
    if statement != "SET IDENTIFIER":
        flow.apply("run 1")
        flow.arrive("2.jsonl", {**row(1, "b", 2**40), "extra": 1.5})
    monkeypatch.setattr(type(flow.spark), "sql", late)
    report = flow.apply("run 2", source=wider)
    # A column that is as wide already is no change.
    assert (bool(theirs), report.attempts) == (True, 1 if statement == "TYPE bigint" else 2)
    assert flow.rows() == {1: ("a", 0, None) if statement == "SET IDENTIFIER" else ("b", 2**40, 1.5)}
