"""A worker carries a spec through few files, and few calls take it into another folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from pyiceberg.table import Table

from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.spec_carriage import MOST_ON_WORKER, OF_BOTH, watched
from tests.unit.operators.submitted import as_driver

if TYPE_CHECKING:
    from airflow.sdk import Context


@pytest.mark.usefixtures("spark_connection", "job_directory")
def test_few_files_of_a_worker_receive_an_upserts_spec(
    orders: Table, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = UpsertReport(table="shop.orders", outcome=Outcome.APPLIED, reason="")

    def leave_report(job: LakeUpsertOperator, _: Any) -> None:
        assert job._attempt is not None
        job._attempt.files.report.write_text(as_driver(report))

    monkeypatch.setattr(SparkSubmitOperator, "execute", leave_report)
    with watched(UpsertSpec) as seen:
        job = LakeUpsertOperator(task_id="t", table="shop.orders", source="in/{{ ds }}.parquet", keys=["id"])
        job.execute(context)
    assert len(seen.files - OF_BOTH) <= MOST_ON_WORKER, str(seen)
    assert sum(seen.calls.values()) <= 2 * len(seen.folders), str(seen)
