"""Questions of the hook to YARN's resource manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from tests.unit.resource_manager import resource_manager

APPLICATION = "application_1764000000000_0001"


def test_an_application_that_yarn_has_forgotten_is_one_that_a_retry_submits_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with resource_manager(404) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        status = LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", {}).query_yarn_application_status(
            APPLICATION
        )
        job = LakeCompactionOperator(task_id="compact", table="shop.orders")
        assert not job.is_job_active(status)
        assert not job.is_job_succeeded(status)


@pytest.mark.parametrize("http_status", [401, 500, 503])
def test_a_manager_that_does_not_answer_tells_nothing_about_an_application(
    monkeypatch: pytest.MonkeyPatch, http_status: int
) -> None:
    with resource_manager(http_status) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        hook = LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", {})
        with pytest.raises(RuntimeError, match=f"HTTP {http_status}"):
            hook.query_yarn_application_status(APPLICATION)


@pytest.mark.parametrize(
    ("answer", "is_removed"),
    [(("KILLED", "KILLED"), True), (404, True), (("RUNNING", "UNDEFINED"), False), (503, False)],
)
def test_staged_files_are_removed_of_an_application_that_has_ended_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: tuple[str, str] | int, is_removed: bool
) -> None:
    shell = tmp_path / "spark-class"
    shell.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    shell.chmod(0o755)
    with resource_manager(answer) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        arguments = {"spark_binary": str(tmp_path / "spark-submit")}
        LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", arguments).remove_files_of_lost_driver()
    called = (tmp_path / "called").read_text() if (tmp_path / "called").exists() else ""
    assert (f"-rm -r -skipTrash .sparkStaging/{APPLICATION}" in called) == is_removed


STAGE = {"conf": {"spark.yarn.stagingDir": "hdfs:///stage"}}
NAMED = f"hdfs://nn:8020/stage/etl/.sparkStaging/{APPLICATION}"


@pytest.mark.parametrize(
    ("arguments", "staged_in", "asked"),
    [
        ({}, NAMED, f"-rm -r -f -skipTrash {NAMED} as"),
        ({}, f"{NAMED}9", f"-rm -r -skipTrash .sparkStaging/{APPLICATION} as"),
        (STAGE, "", f"-rm -r -skipTrash hdfs:///stage/worker/.sparkStaging/{APPLICATION} as"),
        ({**STAGE, "principal": "etl/h@R"}, "", f"-rm -r -skipTrash hdfs:///stage/etl/.sparkStaging/{APPLICATION} as"),
        ({"proxy_user": "alice"}, "", f"-rm -r -skipTrash .sparkStaging/{APPLICATION} as alice"),
    ],
)
def test_staged_files_are_removed_where_spark_put_them_and_as_whom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: dict[str, Any], staged_in: str, asked: str
) -> None:
    shell = tmp_path / "spark-class"
    shell.write_text(f'#!/bin/sh\necho "$@" as "$HADOOP_PROXY_USER" > {tmp_path}/called\n')
    shell.chmod(0o755)
    monkeypatch.setenv("HADOOP_USER_NAME", "worker")
    monkeypatch.delenv("HADOOP_PROXY_USER", raising=False)
    with resource_manager(404) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        given = {"spark_binary": str(tmp_path / "spark-submit"), **arguments}
        LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", given, staged_in).remove_staged_files()
    assert (tmp_path / "called").read_text().strip().endswith(asked)


def test_files_that_are_not_where_they_are_likely_to_be_may_be_left_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell = tmp_path / "spark-class"
    # As Hadoop's shell does it where there is nothing.
    shell.write_text(
        '#!/bin/sh\ncase "$*" in *" -f "*) ;; *) echo "rm: No such file or directory" >&2; exit 1 ;; esac\n'
    )
    shell.chmod(0o755)
    with resource_manager(404) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        arguments = {"spark_binary": str(tmp_path / "spark-submit")}
        with structlog.testing.capture_logs() as logged:
            LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", arguments).remove_staged_files()
        (warning,) = [entry for entry in logged if entry["log_level"] == "warning"]
        assert "may be left" in warning["event"]
        with structlog.testing.capture_logs() as logged:
            LakeSparkSubmitHook.of_application(APPLICATION, "spark_default", arguments, NAMED).remove_staged_files()
        assert [entry for entry in logged if entry["log_level"] == "warning"] == []
