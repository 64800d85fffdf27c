"""Tasks that wait in the triggerer: which may, the facts they hand over, and how they resume."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred

from airflow_lake_provider.contracts.errors import (
    CommitConflictError,
    InvalidSpecError,
    JobFailedError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome, UpdateRowsReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_to_json
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.deferral import DeferredJob
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.lost_report import LostReport
from airflow_lake_provider.triggers.yarn_application import YarnApplicationTrigger
from tests.unit.operators.run_of_tests import StateStore
from tests.unit.operators.submitted import application, as_driver, run_in_spark
from tests.unit.resource_manager import resource_manager

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("job_directory", "lake_connection")

APPLICATION = "application_1764000000000_0001"
FOLDER = f"hdfs://nn:8020/stage/alice/.sparkStaging/{APPLICATION}"
YARN = SparkTarget(master="yarn", cluster_mode=True)
REPORT = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="as asked")


@pytest.fixture(autouse=True)
def yarn_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": "http://127.0.0.1:9"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def operator(reports: Path | str = "/reports", **arguments: Any) -> LakeCompactionOperator:
    given = {"yarn_track_via_rm_api": True, "report_location": str(reports)}
    return LakeCompactionOperator(task_id="compact", table="shop.orders", **{**given, **arguments})


@pytest.mark.parametrize(("setting", "asked"), [("True", None), ("False", True), ("True", True)])
def test_a_tracked_driver_of_yarn_is_waited_for_in_the_triggerer(
    monkeypatch: pytest.MonkeyPatch, setting: str, asked: bool | None
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", setting)
    assert operator(deferrable=asked).may_defer(YARN)


@pytest.mark.parametrize(("setting", "asked"), [("False", None), ("True", False)])
def test_no_task_is_deferred_that_is_not_to_be(
    monkeypatch: pytest.MonkeyPatch, setting: str, asked: bool | None
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", setting)
    assert not operator(deferrable=asked).may_defer(YARN)


IMPOSSIBLE = [
    (SparkTarget(master="local[2]", cluster_mode=False), {}, r"YARN's cluster mode.*'local\[2\]' in client mode"),
    (SparkTarget(master="yarn", cluster_mode=False), {}, "'yarn' in client mode"),
    (SparkTarget(master="k8s://https://h:443", cluster_mode=True), {}, "'k8s://https://h:443' in cluster mode"),
    (YARN, {"yarn_track_via_rm_api": False}, "yarn_track_via_rm_api=True"),
    (YARN, {"yarn_rm_auth": object()}, "keytab and principal"),
]


@pytest.mark.parametrize(("target", "arguments", "words"), IMPOSSIBLE)
def test_a_deferral_that_cannot_be_is_refused_where_the_author_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, target: SparkTarget, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        operator(deferrable=True, **arguments).may_defer(target)
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert not operator(**arguments).may_defer(target)


def deferred(job: Any, context: Context, monkeypatch: pytest.MonkeyPatch, *, reconnects: bool = False) -> TaskDeferred:
    """Run an operator up to its deferral; spark-submit itself is left out."""

    def execute(task: LakeCompactionOperator, context: Context) -> None:
        task._hook = task._get_hook()
        if not reconnects:
            task._before_submit()
        task.poll_until_complete(APPLICATION, context)

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    with pytest.raises(TaskDeferred) as raised:
        run_in_spark(job, context)
    return raised.value


@pytest.mark.parametrize(("reconnects", "known"), [(False, ["00c0ffee00c0ffee"]), (True, [])])
def test_a_retry_that_reconnects_defers_too_and_counts_what_the_earlier_try_committed(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path, reconnects: bool, known: list[str]
) -> None:
    before = partial(LostReport, run_keys=frozenset({"00c0ffee00c0ffee"}))
    monkeypatch.setattr(LostReport, "before", before)
    found = deferred(operator(tmp_path, deferrable=True), context, monkeypatch, reconnects=reconnects)
    stored = found.trigger.serialize()[1]["job"]
    assert (stored["known_run_keys"], stored["is_followed"]) == (known, reconnects)
    assert DeferredJob.of_event({"job": stored}).is_followed is reconnects


def test_a_deferral_hands_over_all_that_its_task_needs_and_keeps_no_file(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path, job_directory: Path
) -> None:
    monkeypatch.setattr(LakeSparkSubmitHook, "staged_in", FOLDER)
    conf = {"spark.yarn.stagingDir": "hdfs:///stage", "spark.hadoop.fs.s3a.secret.key": "hush"}
    job = operator(tmp_path, deferrable=True, conf=conf, proxy_user="alice", execution_timeout=timedelta(hours=1))
    found = deferred(job, context, monkeypatch)
    assert isinstance(found.trigger, YarnApplicationTrigger)
    stored = found.trigger.serialize()[1]
    assert found.method_name == "execute_complete"
    assert stored["application_id"] == APPLICATION
    assert stored["hook_arguments"] == {
        "conf": {"spark.yarn.stagingDir": "hdfs:///stage"},
        "proxy_user": "alice",
    }
    assert stored["deadline"] == stored["job"]["started"] + 3600
    assert stored["job"]["staged_in"] == FOLDER
    assert Path(stored["job"]["report_path"]).parent == tmp_path
    assert "hush" not in json.dumps(stored)
    assert list(job_directory.glob("attempt-*")) == []


def test_the_triggerer_removes_what_is_staged_by_the_hadoop_of_the_task_and_knows_none_of_its_secrets(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    shell = tmp_path / "spark-class"
    shell.write_text(f'#!/bin/sh\necho "$HADOOP_CONF_DIR $HADOOP_USER_NAME $@" > {tmp_path}/called\n')
    shell.chmod(0o755)
    monkeypatch.setattr(LakeSparkSubmitHook, "staged_in", FOLDER)
    env_vars = {"HADOOP_CONF_DIR": "/etc/lake", "HADOOP_USER_NAME": "alice", "AWS_SECRET_ACCESS_KEY": "hush"}
    binary = str(tmp_path / "spark-submit")
    with resource_manager(("KILLED", "KILLED")) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        job = operator(tmp_path, deferrable=True, env_vars=env_vars, spark_binary=binary)
        stored = json.dumps(deferred(job, context, monkeypatch).trigger.serialize()[1])
        asyncio.run(YarnApplicationTrigger(**json.loads(stored)).on_kill())
    assert (tmp_path / "called").read_text().startswith("/etc/lake alice org.apache.hadoop.fs.FsShell -rm -r")
    assert "hush" not in stored


def resumed(job: Any, context: Context, reports: Path, *, overdue: bool = False) -> dict[str, Any]:
    carried = DeferredJob(
        report_path=f"{reports}/r.json",
        known_run_keys=(),
        started=0.0,
        application_id=APPLICATION,
        staged_in=FOLDER,
    ).to_plain()
    return job.execute_complete(context, {"job": json.loads(json.dumps(carried)), "overdue": overdue})


def test_a_resumed_task_returns_the_report_of_its_driver(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda _, name, __: asked.append(name))
    (tmp_path / "r.json").write_text(as_driver(REPORT), encoding="utf-8")
    assert resumed(operator(deferrable=True), context, tmp_path)["outcome"] == "done"
    assert asked == [APPLICATION]


def test_a_task_whose_table_changed_while_it_waited_does_not_end_well_by_what_was_done_to_another(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    (tmp_path / "r.json").write_text(as_driver(REPORT), encoding="utf-8")
    job = operator(deferrable=True)
    job.table = "shop.renamed"
    with pytest.raises(InvalidSpecError, match=r"shop\.renamed: .* submitted for shop\.orders.*'done'.*clear the task"):
        resumed(job, context, tmp_path)


def test_a_resumed_task_fails_as_its_application_did(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    def killed(*_: Any) -> None:
        raise RuntimeError(f"YARN application {APPLICATION} ended with state: KILLED")

    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", killed)
    with pytest.raises(JobFailedError, match="ended with state: KILLED"):
        resumed(operator(deferrable=True), context, tmp_path)


def test_a_task_that_is_resumed_too_late_times_out_with_its_application_in_hand(
    context: Context, tmp_path: Path
) -> None:
    job = operator(deferrable=True, execution_timeout=timedelta(hours=1))
    with pytest.raises(AirflowTaskTimeout, match=f"{APPLICATION} runs for longer than 1:00:00"):
        resumed(job, context, tmp_path, overdue=True)
    assert isinstance(job._hook, LakeSparkSubmitHook)
    assert (job._hook._yarn_application_id, job._hook.staged_in) == (APPLICATION, FOLDER)


@pytest.mark.parametrize(("text", "defers"), [("False", False), ("true", True), ("", None)])
def test_a_text_may_say_whether_to_defer(text: Any, defers: bool | None) -> None:
    assert LakeCompactionOperator(task_id="t", table="a.b", deferrable=text).deferrable is defers


@pytest.mark.parametrize("value", ["perhaps", 1, []])
def test_what_is_no_switch_is_refused_while_the_dag_is_parsed(value: Any) -> None:
    with pytest.raises(InvalidSpecError, match="deferrable must be true or false"):
        LakeCompactionOperator(task_id="t", table="a.b", deferrable=value)


def test_a_resumed_task_that_fails_by_its_report_lets_the_retry_submit_anew(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    context["ti"].try_number, context["ti"].max_tries = 1, 2
    store = StateStore.of(context, **{"spark_job_id up to try 2": APPLICATION})
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    conflict = CompactionReport(table="shop.orders", outcome=Outcome.CONFLICT, reason="others won")
    (tmp_path / "r.json").write_text(as_driver(conflict), encoding="utf-8")
    with pytest.raises(CommitConflictError, match="others won"):
        resumed(operator(deferrable=True, fail_on_conflict=True, retries=2), context, tmp_path)
    assert "spark_job_id up to try 2" not in store


def test_a_resumed_application_that_fails_by_its_report_lets_the_retry_submit_anew(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    context["ti"].try_number, context["ti"].max_tries = 1, 2
    store = StateStore.of(context, **{"spark_job_id up to try 2": APPLICATION})
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    failure = JobFailure.of(CommitConflictError("others won"))
    (tmp_path / "r.json").write_text(reports_to_json({"compaction shop.orders": failure}), encoding="utf-8")
    arguments: dict[str, Any] = {"yarn_track_via_rm_api": True, "deferrable": True, "retries": 2}
    with pytest.raises(CommitConflictError, match="others won"):
        resumed(application({"action": "compaction", "table": "shop.orders"}, **arguments), context, tmp_path)
    assert "spark_job_id up to try 2" not in store


def test_a_driver_is_heard_though_its_spec_could_not_be_made_again(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError("nothing was removed")

    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    job = operator(deferrable=True)
    monkeypatch.setattr(job.action, "completed", refuse)
    (tmp_path / "r.json").write_text(as_driver(REPORT), encoding="utf-8")
    assert resumed(job, context, tmp_path)["outcome"] == "done"


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("changed", ["catalog", "argument"])
def test_a_conflict_fails_the_task_that_was_to_fail_by_it_though_its_spec_could_not_be_made_again(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path, asked: bool, changed: str
) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError("the lists of files differ")

    arguments: dict[str, Any] = {"deferrable": True, "fail_on_conflict": asked, "level": "{{ params.level }}"}
    submitted, job = operator(tmp_path, **arguments), operator(tmp_path, **arguments)
    submitted.level, job.level = "full", "complete" if changed == "argument" else "full"
    event = {"job": deferred(submitted, context, monkeypatch).trigger.serialize()[1]["job"], "overdue": False}
    conflict = CompactionReport(table="shop.orders", outcome=Outcome.CONFLICT, reason="others won")
    Path(event["job"]["report_path"]).write_text(as_driver(conflict), encoding="utf-8")
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    if changed == "catalog":
        monkeypatch.setattr(job.action, "completed", refuse)
    if asked:
        with pytest.raises(CommitConflictError, match="others won"):
            job.execute_complete(context, json.loads(json.dumps(event)))
    else:
        assert job.execute_complete(context, json.loads(json.dumps(event)))["outcome"] == "conflict"


def test_a_task_whose_driver_left_no_report_says_why_its_spec_could_not_be_made_again(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError("the lists of files differ")

    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    job = operator(deferrable=True)
    monkeypatch.setattr(job.action, "completed", refuse)
    with pytest.raises(JobFailedError, match=r"no report at .*A retry would fail, too: the lists of files differ"):
        resumed(job, context, tmp_path)


UPDATE: dict[str, Any] = {"action": "update-rows", "table": "shop.orders", "assignments": {"n": "n + 1"}}


@pytest.mark.parametrize(
    ("where", "before", "after"),
    [
        pytest.param("seen < '{{ params.now }}'", "12:00", "12:05", id="a template of the time"),
        pytest.param("{{ params.now }}", "id = 1", " ", id="one that gives nothing any more"),
    ],
)
def test_a_driver_is_heard_though_a_template_gives_its_update_something_else_by_then(
    monkeypatch: pytest.MonkeyPatch, context: Context, tmp_path: Path, where: str, before: str, after: str
) -> None:
    def rendered(now: str) -> LakeApplicationOperator:
        arguments = {"deferrable": True, "yarn_track_via_rm_api": True, "report_location": str(tmp_path)}
        job = application({**UPDATE, "where": where}, **arguments)
        context["params"] = {"now": now}
        job.render_template_fields(context)
        return job

    submitted = rendered(before)
    event = {"job": deferred(submitted, context, monkeypatch).trigger.serialize()[1]["job"], "overdue": False}
    (task,) = submitted._tasks
    applied = UpdateRowsReport(table="shop.orders", outcome=Outcome.APPLIED, reason="")
    Path(event["job"]["report_path"]).write_text(reports_to_json({task.key: applied}), encoding="utf-8")
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    (report,) = rendered(after).execute_complete(context, json.loads(json.dumps(event)))
    assert report["outcome"] == "applied"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (CompactionReport(table="shop.gone", outcome=Outcome.DONE, reason="as asked"), "'done'"),
        (JobFailure.of(CommitConflictError("others won")), "CommitConflictError"),
    ],
)
def test_what_a_driver_did_for_a_task_that_has_left_the_list_meanwhile_is_told(
    monkeypatch: pytest.MonkeyPatch,
    context: Context,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
    words: str,
) -> None:
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    reports = {"compaction shop.orders": REPORT, "compaction shop.gone": answer}
    (tmp_path / "r.json").write_text(reports_to_json(reports), encoding="utf-8")
    arguments: dict[str, Any] = {"yarn_track_via_rm_api": True, "deferrable": True}
    job = application({"action": "compaction", "table": "shop.orders"}, **arguments)
    returned: Any = resumed(job, context, tmp_path)
    (report,) = returned
    assert (report["table"], report["outcome"]) == ("shop.orders", "done")
    warned = [text for text in caplog.messages if "has left the list" in text]
    assert len(warned) == 1
    assert "compaction shop.gone" in warned[0]
    assert words in warned[0]
