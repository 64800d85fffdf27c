"""A table of format version 2 is upgraded: its rows stay, and so does what it has applied."""

from __future__ import annotations

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec, TableUpgradeSpec
from tests.spark.metadata_change_flow import carry_out, plan, upgrade_between_two_batches
from tests.spark.upsert_flow import NewFlow, row


def test_rows_run_keys_and_positions_of_version_1_stay(new_flow: NewFlow) -> None:
    flow = new_flow(create=TableLayout(properties={"format-version": "1"}))
    report = upgrade_between_two_batches(flow, newest=3)
    assert (report.outcome, report.format_version, report.without_spark) == (Outcome.DONE, 3, False)


def test_a_table_can_be_rolled_back_to_before_its_upgrade(new_flow: NewFlow) -> None:
    flow = new_flow(create=TableLayout(properties={"format-version": "2"}))
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    before = flow.loaded().current_snapshot()
    assert before is not None
    assert plan(flow, TableUpgradeSpec).report.warnings
    carry_out(flow, TableUpgradeSpec)
    flow.arrive("2.jsonl", row(1, "b", 2))
    flow.apply("run 2")
    carry_out(flow, RollbackSpec, snapshot_id=str(before.snapshot_id))
    assert (flow.rows(), flow.loaded().format_version) == ({1: ("a", 1)}, 3)
    assert flow.apply("run 2").outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("b", 2)}
