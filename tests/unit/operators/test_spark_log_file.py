"""Spark's own log of a try: its place, by the settings, and its name in errors."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, JobFailedError
from airflow_lake_provider.operators.retry_delays import as_task_failure
from airflow_lake_provider.operators.spark_log_file import open_spark_log, pointed_to, pointer
from airflow_lake_provider.submission.spark_log import SparkLog

if TYPE_CHECKING:
    from airflow.sdk import Context


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Airflow's folder of logs."""
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    return tmp_path / "logs"


def test_it_is_below_airflows_logs_by_day_and_named_by_the_try(context: Context, folder: Path) -> None:
    path = open_spark_log(context).path
    assert path is not None
    day, name = path.relative_to(folder / "lake_spark").parts
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert re.fullmatch(r"dag\.run\.task\.try2-[0-9a-f]{6}\.log", name)


def test_a_mapped_task_has_its_index_in_the_name(context: Context) -> None:
    context["ti"].map_index = 3
    path = open_spark_log(context).path
    assert path is not None
    assert path.name.startswith("dag.run.task.3.try2-")


def test_the_setting_names_another_folder_or_none(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_FOLDER", str(tmp_path / "elsewhere"))
    path = open_spark_log(context).path
    assert path is not None
    assert path.parents[1] == tmp_path / "elsewhere"
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_FOLDER", "off")
    assert open_spark_log(context).path is None


@pytest.mark.parametrize(
    ("remote", "named", "is_replayed"), [(0, 0, False), (1, 0, True), (1, 1, False), (0, 1, False)]
)
def test_it_is_replayed_where_only_the_tasks_log_outlives_the_worker(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: int, named: int, is_replayed: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__REMOTE_LOGGING", str(bool(remote)))
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_FOLDER", str(tmp_path) if named else "")
    assert open_spark_log(context).is_replayed is is_replayed


@pytest.mark.parametrize("broken", ["a file", "others write", "no right", "full"])
def test_a_folder_that_cannot_be_used_leaves_the_lines_in_the_tasks_log(
    context: Context, folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "a file":
        folder.write_text("")
    elif broken == "others write":
        (folder / "lake_spark").mkdir(parents=True)
        (folder / "lake_spark").chmod(0o777)
    elif broken == "no right":
        monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_FOLDER", "/proc/lake_spark")
    else:
        monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_FOLDER", "/dev/full/lake_spark")
    assert open_spark_log(context).path is None


def test_days_that_are_no_number_of_days_are_refused(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_LOG_DAYS", "-1")
    with pytest.raises(InvalidSpecError, match="spark_log_days must be a number of days"):
        open_spark_log(context)


@pytest.mark.parametrize("error", [JobFailedError("the disk is full"), BadInputError("no number")])
def test_an_error_of_a_job_names_the_file_at_its_end(context: Context, error: JobFailedError | BadInputError) -> None:
    log = open_spark_log(context)
    first, last = str(as_task_failure(pointed_to(type(error)(str(error)), log))).split("\n")
    assert first == str(error)
    assert last == pointer(log) == f"Spark's own log: {log.path} on {socket.gethostname()}"
    assert isinstance(as_task_failure(pointed_to(error, log)), AirflowFailException) is not error.retry_may_help


def test_an_error_before_there_was_a_driver_names_none() -> None:
    assert str(pointed_to(JobFailedError("no table"), SparkLog())) == "no table"
    assert pointer(SparkLog()) == ""
