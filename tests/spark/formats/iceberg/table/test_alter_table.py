"""A batch survives, or is refused, when another driver alters its table at the same time."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from tests.spark.upsert_flow import SCHEMA, Flow, row


@pytest.mark.parametrize("statement", ["ADD COLUMNS", "TYPE bigint"])
def test_a_change_of_the_table_that_another_driver_makes_first_is_looked_at_again(
    flow: Flow, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = type(flow.spark).sql
    theirs: list[str] = []

    def late(session: SparkSession, text: str, *arguments: Any, **named: Any) -> Any:
        if statement in text and not theirs:
            theirs.append(text)
            # A session of its own sees what is committed, and is not seen: as another driver.
            execute(flow.spark.newSession(), text)
        return execute(session, text, *arguments, **named)

    flow.arrive("1.jsonl", row(1, "a"))
    wider = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA.replace("n INT", "n BIGINT, extra DOUBLE"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", {**row(1, "b", 2**40), "extra": 1.5})
    monkeypatch.setattr(type(flow.spark), "sql", late)
    report = flow.apply("run 2", source=wider)
    # A column that is as wide already is no change.
    assert (bool(theirs), report.attempts) == (True, 1 if statement == "TYPE bigint" else 2)
    assert flow.rows() == {1: ("b", 2**40, 1.5)}
