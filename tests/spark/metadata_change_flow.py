"""Rollback, publication, tags and upgrade of one table of the tests, planned by the worker and committed by either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    MetadataChangeSpec,
    PublishBranchSpec,
    RollbackSpec,
    TableUpgradeSpec,
)
from airflow_lake_provider.planning.metadata_changes import (
    PlannedChange,
    plan_publication,
    plan_tag,
    plan_tag_removal,
    plan_upgrade,
)
from airflow_lake_provider.planning.rollback_plan import plan_rollback
from airflow_lake_provider.spark_jobs.actions.maintain_table import change_metadata
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, row

PLANS: dict[type[JobSpec], Any] = {
    RollbackSpec: plan_rollback,
    PublishBranchSpec: plan_publication,
    CreateTagSpec: plan_tag,
    DropTagSpec: plan_tag_removal,
    TableUpgradeSpec: plan_upgrade,
}


def spec(flow: Flow, kind: type[JobSpec], run: str, **arguments: Any) -> Any:
    who = RunIdentity.of("dag", run, kind.action, "-1")
    return kind(catalog="lake_default", table=flow.table, run=who, **arguments)


def plan(flow: Flow, kind: type[JobSpec], run: str = "run", **arguments: Any) -> PlannedChange:
    planned: PlannedChange = PLANS[kind](flow.on_worker(), spec(flow, kind, run, **arguments))
    return planned


def commit(flow: Flow, planned: PlannedChange) -> MetadataChangeReport:
    """Commit as the operators do: from the worker where that is possible, and else in the driver."""
    if planned.change is None:
        return planned.report
    if flow.on_worker().commit(planned.change):
        return replace(planned.report, without_spark=True)
    sent = MetadataChangeSpec(
        catalog="lake_default",
        table=flow.table,
        run=RunIdentity.of("driver"),
        change=planned.change,
        planned=planned.report,
    )
    return change_metadata(flow.spark, sent, Progress())


def carry_out(flow: Flow, kind: type[JobSpec], run: str = "run", **arguments: Any) -> MetadataChangeReport:
    return commit(flow, plan(flow, kind, run, **arguments))


def upgrade_between_two_batches(flow: Flow, newest: int) -> MetadataChangeReport:
    """Upgrade a table that two runs have filled, and apply one more: rows, run keys and positions have to stay."""
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "b", 2))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "z", 3))
    flow.apply("run 2")
    applied = {name: value for name, value in flow.on_worker().facts.properties.items() if name.startswith("lake.")}

    report = carry_out(flow, TableUpgradeSpec)
    assert flow.on_worker().facts.format_version == newest
    assert flow.rows() == {1: ("z", 3), 2: ("b", 2)}
    assert applied.items() <= flow.on_worker().facts.properties.items()
    assert carry_out(flow, TableUpgradeSpec, "other run").outcome is Outcome.NOTHING_DUE

    assert flow.apply("run 2").outcome is Outcome.ALREADY_APPLIED
    assert flow.apply("run 3").outcome is Outcome.NOTHING_NEW
    flow.arrive("3.jsonl", row(1, "y", 4), row(2, "", 0, op="d"), row(3, "c", 5))
    assert flow.apply("run 4").outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("y", 4), 3: ("c", 5)}
    assert sorted(flow.row_ids()) == [1, 3]
    assert None not in flow.row_ids().values()
    return report
