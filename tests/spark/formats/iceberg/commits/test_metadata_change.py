"""A driver that died after its commit is started once more with the same change, as YARN and Kubernetes do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    MetadataChangeSpec,
    RollbackSpec,
)
from airflow_lake_provider.spark_jobs.actions.maintain_table import change_metadata
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.metadata_change_flow import carry_out, plan
from tests.spark.upsert_flow import Flow, row

CHANGES: dict[str, tuple[type[JobSpec], dict[str, Any]]] = {
    "a tag": (CreateTagSpec, {"tag": "daily", "max_age": timedelta(days=1)}),
    "a tag that goes": (DropTagSpec, {"tag": "old"}),
    "a rollback": (RollbackSpec, {"tag": "old"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_was_made_is_not_made_again_and_is_no_conflict(flow: Flow, what: str) -> None:
    kind, arguments = CHANGES[what]
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    carry_out(flow, CreateTagSpec, tag="old")
    flow.arrive("2.jsonl", row(2, "b"))
    flow.apply("run 2")
    planned = plan(flow, kind, **arguments)
    assert planned.change is not None
    frame: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "run": RunIdentity.of("driver")}
    sent = MetadataChangeSpec(**frame, change=planned.change, planned=planned.report)
    first = change_metadata(flow.spark, sent, Progress())
    location = flow.loaded().metadata_location
    again = change_metadata(flow.spark, sent, Progress())
    assert (again.outcome, again.after) == (first.outcome, first.after)
    assert flow.loaded().metadata_location == location
    # What somebody did since then is no state that the change leaves.
    flow.arrive("3.jsonl", row(3, "c"))
    flow.apply("run 3")
    if kind is RollbackSpec:
        with pytest.raises(CommitConflictError):
            change_metadata(flow.spark, sent, Progress())


def test_a_tag_that_stays_gets_another_age_by_a_driver(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    carry_out(flow, CreateTagSpec, tag="daily", max_age=timedelta(days=1))
    longer: dict[str, Any] = {"tag": "daily", "max_age": timedelta(days=9), "replace": True}
    assert [carry_out(flow, CreateTagSpec, **longer).outcome for _ in range(2)] == [Outcome.DONE, Outcome.NOTHING_DUE]
    assert flow.on_worker().facts.references["daily"].max_ref_age == 9 * 86_400_000
