"""A driver whose session does not start leaves its report where the worker looks, also on a shared file system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.report_codec import EVERY_TASK, JobFailure, reports_from_plain
from airflow_lake_provider.spark_jobs import run_job


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_session_that_does_not_start_is_reported_with_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    def refuse() -> tuple[SparkSession, list[str]]:
        raise InvalidSpecError("spark.sql.shuffle.partitions: many")

    monkeypatch.setattr(run_job, "open_session", refuse)
    with pytest.raises(InvalidSpecError):
        run_job.main(["--spec", "spec.json", "--report", f"{scheme}{tmp_path}/report.json"])
    answer = reports_from_plain(json.loads((tmp_path / "report.json").read_text()))[EVERY_TASK]
    assert isinstance(answer, JobFailure)
    assert (answer.error, answer.message) == ("InvalidSpecError", "spark.sql.shuffle.partitions: many")


@pytest.mark.usefixtures("spark")
def test_the_cause_is_raised_where_the_report_cannot_be_left_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tuple[SparkSession, list[str]]:
        raise InvalidSpecError("spark.sql.shuffle.partitions: many")

    monkeypatch.setattr(run_job, "open_session", refuse)
    with pytest.raises(InvalidSpecError, match="many"):
        run_job.main(["--spec", "spec.json", "--report", "nowhere://bucket/report.json"])
