"""Letters of batches on a branch, which keeps no position that could move past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.append_flow import append
from tests.spark.upsert_flow import NewFlow

LOADS: dict[str, Callable[..., Any]] = {
    "append": append,
    "upsert": lambda flow, *args, **given: flow.apply(*args, **given),
}


@pytest.mark.parametrize("load", LOADS)
def test_letters_alone_are_kept_once_and_are_no_commit_of_a_branch(new_flow: NewFlow, load: str) -> None:
    letter = DeadLetter(table=f"letters.alone_on_a_branch_of_{load}", max_share=1)
    flow = new_flow(branch="audit", dead_letter=letter, **({} if load == "append" else {"delete_when": None}))
    flow.arrive("1.jsonl", {"id": 1, "name": "a"})
    assert LOADS[load](flow, "run 1").outcome is Outcome.APPLIED
    flow.arrive("1.jsonl", {"id": "x"})
    head = flow.on_worker().facts.head("audit")
    for run in ("run 2", "run 3"):
        report = LOADS[load](flow, run)
        assert (report.outcome, report.dead_letters) == (Outcome.EMPTY_BATCH, 1)
    assert flow.on_worker().facts.head("audit") == head
    assert flow.spark.table(f"lake_default.{letter.table}").count() == 1
