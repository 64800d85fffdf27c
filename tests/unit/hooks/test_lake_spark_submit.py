"""Questions of the hook to YARN's resource manager."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert (f"-rm -r -f -skipTrash .sparkStaging/{APPLICATION}" in called) == is_removed
