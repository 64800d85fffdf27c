"""A driver takes a spec apart where an action begins: few files receive it, and few calls carry it on."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_from_plain, job_to_json
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import run_tasks
from tests.spark.upsert_flow import Flow, row
from tests.spec_carriage import MOST_ON_DRIVER, OF_BOTH, watched


def test_few_files_of_a_driver_receive_an_upserts_spec(spark: SparkSession, flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2), row(2, "c", 3))
    sent = job_to_json(Job({"task": flow.spec("run 2")}))
    with watched(UpsertSpec) as seen:
        (report,) = run_tasks(spark, job_from_plain(json.loads(sent)), Progress(), lambda _: None).values()
    assert isinstance(report, JobReport)
    assert report.outcome is Outcome.APPLIED
    assert len(seen.files) <= MOST_ON_DRIVER, str(seen)
    # Those that the worker's count leaves out are counted here.
    assert seen.files >= OF_BOTH, str(seen)
    assert sum(seen.calls.values()) <= 2 * len(seen.folders), str(seen)
