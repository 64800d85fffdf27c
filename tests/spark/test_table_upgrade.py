"""A table of format version 2 is upgraded: its rows stay, and so does what it has applied."""

from __future__ import annotations

from airflow_lake_provider.contracts.job_report import Outcome
from airflow_lake_provider.contracts.metadata_change_specs import RollbackSpec, TableUpgradeSpec
from airflow_lake_provider.contracts.table_layout import TableLayout
from tests.spark.metadata_change_flow import carry_out, plan
from tests.spark.upsert_flow import NewFlow, row


def test_rows_run_keys_and_positions_of_version_1_stay(new_flow: NewFlow) -> None:
    flow = new_flow(create=TableLayout(properties={"format-version": "1"}))
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "b", 2))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "z", 3))
    flow.apply("run 2")
    applied = {name: value for name, value in flow.loaded().properties.items() if name.startswith("lake.")}

    report = carry_out(flow, TableUpgradeSpec)
    assert (report.outcome, report.format_version, report.without_spark) == (Outcome.DONE, 3, False)
    assert flow.loaded().format_version == 3
    assert flow.rows() == {1: ("z", 3), 2: ("b", 2)}
    assert applied.items() <= flow.loaded().properties.items()
    assert carry_out(flow, TableUpgradeSpec, "other run").outcome is Outcome.NOTHING_DUE

    assert flow.apply("run 2").outcome is Outcome.ALREADY_APPLIED
    assert flow.apply("run 3").outcome is Outcome.NOTHING_NEW
    flow.arrive("3.jsonl", row(1, "y", 4), row(2, "", 0, op="d"), row(3, "c", 5))
    assert flow.apply("run 4").outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("y", 4), 3: ("c", 5)}
    assert sorted(flow.row_ids()) == [1, 3]
    assert None not in flow.row_ids().values()


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
