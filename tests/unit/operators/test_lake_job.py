"""The way from an operator to spark-submit's command line, on Airflow's own hook; nothing is started."""

from __future__ import annotations

import copy
import json
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    JobFailedError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.reports.job import CompactionReport, JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.spec_codec import job_from_plain
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.driver_start import DriverStart
from airflow_lake_provider.operators.spark_submission import spark_submit_arguments
from airflow_lake_provider.operators.task_run import UNTOLD
from airflow_lake_provider.submission.job_files import APPLICATION
from tests.unit.operators.run_of_tests import StateStore
from tests.unit.operators.submitted import TASK, as_driver, job_of, opened, run_in_spark
from tests.unit.resource_manager import resource_manager
from tests.unit.submission import java_properties

if TYPE_CHECKING:
    from airflow.sdk import Context

SECRETS = ("hunter2", "AKIDSECRET", "s3cr3tkey")
LOCAL = SparkTarget(master="local[2]", cluster_mode=False)
CLUSTER = SparkTarget(master="yarn", cluster_mode=True)

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory")


@pytest.fixture(autouse=True)
def secret_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection ``lake_default`` on PostgreSQL and S3, with a secret of each."""
    extra = {
        "type": "sql",
        "warehouse": "s3://lake/wh",
        "s3.access-key-id": SECRETS[1],
        "s3.secret-access-key": SECRETS[2],
    }
    fields = {"host": "postgresql+psycopg2://db:5432/lake", "login": "airflow", "password": SECRETS[0]}
    connection = {"conn_type": "iceberg", **fields, "extra": {**extra, "s3.region": "eu-west-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))


def set_spark(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **fields}))


def operator(**arguments: Any) -> LakeCompactionOperator:
    return LakeCompactionOperator(task_id="compact", table="shop.orders", **arguments)


def submission(job: LakeCompactionOperator, context: Context) -> dict[str, Any]:
    attempt = opened(job, context, LOCAL)
    return spark_submit_arguments(attempt, job, attempt.driver_start(job))


def value_of(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


@pytest.mark.parametrize("name", ["application", "application_args", "conn_id"])
def test_what_we_set_ourselves_cannot_be_given(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"LakeCompactionOperator sets {name} itself"):
        operator(**{name: "x"})


def test_the_authors_arguments_are_merged_with_ours(context: Context) -> None:
    theirs = {"py_files": "a.zip,b.py", "packages": "org:thing:1", "jars": "x.jar", "files": "notes.txt"}
    job = operator(conf={"spark.executor.cores": "2"}, **theirs)
    attempt = opened(job, context, LOCAL)
    found = spark_submit_arguments(attempt, job, attempt.driver_start(job))
    assert found["py_files"] == f"{attempt.archive},a.zip,b.py"
    assert found["packages"].split(",") == [*job.lake.connection.spark_packages(), "org:thing:1"]
    assert (found["jars"], found["files"]) == ("x.jar", "notes.txt")
    assert found["conf"] == {"spark.executor.cores": "2"}
    assert found["application"] == str(APPLICATION)
    assert found["application_args"] == ["--spec", str(attempt.files.spec), "--report", str(attempt.files.report)]


def test_nothing_of_the_authors_is_needed(context: Context) -> None:
    job = operator()
    found = submission(job, context)
    assert (found["jars"], found["files"], found["conf"]) == (None, None, {})


def test_the_spec_in_the_file_is_the_one_that_was_built(context: Context) -> None:
    job = operator(level="major", where="id > 3")
    written = opened(job, context, LOCAL).files.spec.read_text(encoding="utf-8")
    assert job_from_plain(json.loads(written)) == job_of(job, context)


def test_a_driver_in_the_cluster_gets_the_spec_shipped_and_reports_to_a_shared_place(
    context: Context, tmp_path: Path
) -> None:
    job = operator(files="notes.txt", report_location=f"{tmp_path}/reports/")
    attempt = opened(job, context, CLUSTER)
    found = spark_submit_arguments(attempt, job, attempt.driver_start(job))
    assert found["files"] == f"{attempt.files.spec},notes.txt"
    assert found["application_args"] == ["--spec", "spec.json", "--report", attempt.report_path]
    assert Path(attempt.report_path).parent == tmp_path / "reports"
    assert opened(job, context, CLUSTER).report_path == attempt.report_path


def test_the_setting_names_the_shared_place_where_the_operator_does_not(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__REPORT_LOCATION", f"{tmp_path}/reports")
    assert opened(operator(), context, CLUSTER).report_path.startswith(f"{tmp_path}/reports/")


REPORT = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="as asked")


@pytest.mark.parametrize("answer", [REPORT, JobFailure(error="BadInputError", message="m", traceback="t")])
def test_the_drivers_answer_is_read(context: Context, answer: JobReport | JobFailure) -> None:
    attempt = opened(operator(), context, LOCAL)
    assert attempt.read_reports() == {}
    attempt.files.report.write_text(as_driver(answer), encoding="utf-8")
    assert attempt.read_reports() == {TASK: answer}


@pytest.mark.parametrize("is_report", [True, False], ids=["report", "error"])
def test_no_secret_of_a_masked_connection_that_a_driver_names_goes_on_to_xcom_or_a_message(
    is_report: bool, context: Context
) -> None:
    (task,) = operator().table_tasks(context)
    said = f"jdbc:postgresql://db/lake?password={SECRETS[0]} and s3a://{SECRETS[1]}:{SECRETS[2]}@lake/wh"
    failure = JobFailure(error="CatalogUnavailableError", message=said, traceback="")
    task.take(replace(REPORT, reason=said, warnings=(said,)) if is_report else failure.to_error())
    shown = to_json(task.report) if task.report is not None else f"{task.error} {task.error!r}"
    assert "jdbc:postgresql://db/lake?password=***" in shown
    assert not [secret for secret in SECRETS if secret in shown]


def test_an_earlier_attempts_report_is_not_taken_for_this_ones(context: Context, tmp_path: Path) -> None:
    job = operator(report_location=str(tmp_path))
    first = opened(job, context, CLUSTER)
    Path(first.report_path).write_text(as_driver(REPORT), encoding="utf-8")
    first.close()
    second = opened(job, context, CLUSTER)
    assert second.read_reports() == {TASK: REPORT}
    second.prepare(DriverStart())
    assert second.read_reports() == {}
    second.prepare(DriverStart())


def test_configured_jars_take_the_place_of_packages(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    jars = [tmp_path / name for name in ("lake/b.jar", "lake/a.jar", "lake/notes.txt", "driver.jar")]
    for jar in jars:
        jar.touch()
    job = operator(jars="x.jar", packages="org:thing:1")
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", f"{tmp_path}/lake, {tmp_path}/driver.jar")
    found = submission(job, context)
    assert found["jars"] == f"{jars[1]},{jars[0]},{jars[3]},x.jar"
    assert found["packages"] == "org:thing:1"


def test_a_cluster_that_has_the_jars_gets_none(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    job = operator()
    found = submission(job, context)
    assert (found["jars"], found["packages"]) == (None, None)


def test_the_settings_hold_the_connection_and_only_this_user_may_read_them(context: Context, tmp_path: Path) -> None:
    author = tmp_path / "author.properties"
    author.write_text("spark.log.level=INFO\n")
    job = operator(properties_file=str(author))
    settings = opened(job, context, LOCAL).files.settings
    found = java_properties.load(settings.read_text(encoding="utf-8"))
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    ours = {"spark.yarn.maxAppAttempts": "1", "spark.api.mode": "classic"}
    assert found == {**job.lake.connection.spark_settings(), **ours, "spark.log.level": "INFO"}
    assert set(SECRETS) <= set(found.values())


def command_of(job: LakeCompactionOperator, context: Context, target: SparkTarget = LOCAL) -> list[str]:
    job._attempt = opened(job, context, target)
    hook = job._get_hook()
    command: list[str] = hook._build_spark_submit_command(job.application)
    return command


def test_the_command_line_names_the_settings_and_holds_no_secret(context: Context) -> None:
    job = operator(conf={"spark.executor.cores": "2"})
    command = command_of(job, context)
    assert job._attempt is not None
    assert "--load-spark-defaults" in command
    assert value_of(command, "--properties-file") == str(job._attempt.files.settings)
    assert value_of(command, "--master") == "local[2]"
    assert value_of(command, "--py-files") == str(job._attempt.archive)
    assert value_of(command, "--conf") == "spark.executor.cores=2"
    assert command[command.index(str(APPLICATION)) :][1] == "--spec"
    assert not [word for word in command for secret in SECRETS if secret in word]


def test_a_submission_leaves_no_trace_in_the_authors_arguments(context: Context) -> None:
    job = operator(py_files="a.zip", properties_file=None)
    before = {name: copy.copy(getattr(job, name)) for name in ("py_files", "packages", "properties_file", "conf")}
    command_of(job, context)
    assert {name: getattr(job, name) for name in before} == before
    assert not [secret for secret in SECRETS if secret in repr(vars(job))]


@pytest.mark.parametrize(("submitted", "error"), [(False, InvalidSpecError), (True, JobFailedError)])
@pytest.mark.usefixtures("lake_connection")
def test_a_value_error_while_waiting_is_not_taken_for_a_wrong_argument(
    context: Context, monkeypatch: pytest.MonkeyPatch, submitted: bool, error: type[Exception]
) -> None:
    def execute(job: LakeCompactionOperator, _: Context) -> None:
        if submitted:
            job._before_submit()
        raise ValueError("Expecting value: line 1 column 1 (char 0)")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    job = operator()
    with pytest.raises(error, match="Expecting value"):
        run_in_spark(job, context)


@pytest.mark.usefixtures("lake_connection")
def test_a_cleared_task_is_not_reconnected_to_the_application_it_had(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []

    def execute(job: LakeCompactionOperator, _: Context) -> None:
        keys.append((job.external_id_key, job._K8S_DRIVER_STATUS_KEY))
        raise ValueError("enough")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    for try_number, max_tries in ((1, 1), (2, 1), (3, 3)):
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        job = operator()
        with pytest.raises(InvalidSpecError):
            run_in_spark(job, context)
    first, retried, cleared = keys
    assert first == retried
    assert not set(first) & set(cleared)


def test_a_try_that_submits_is_untold_until_a_try_has_told(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(job: LakeCompactionOperator, _: Context) -> None:
        raise ValueError("enough")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    store = StateStore.of(context)
    context["ti"].try_number, context["ti"].max_tries = 1, 0
    job = operator()
    with pytest.raises(InvalidSpecError):
        run_in_spark(job, context)
    assert store == {UNTOLD: "try 1"}
    job.tell([], context)
    assert store == {}


@pytest.mark.usefixtures("lake_connection")
def test_a_report_of_an_earlier_run_is_not_taken_where_nothing_was_submitted(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def execute(job: LakeCompactionOperator, _: Context) -> None:
        assert job._attempt is not None
        Path(job._attempt.report_path).write_text(as_driver(REPORT), encoding="utf-8")
        raise RuntimeError("the state store does not answer")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    job = operator(report_location=str(tmp_path))
    with pytest.raises(JobFailedError, match="nothing was submitted: the state store does not answer"):
        run_in_spark(job, context)


def test_killing_a_task_that_reconnected_ends_the_application_of_the_earlier_try(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_spark(monkeypatch, host="yarn", extra={"deploy-mode": "cluster"})
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    job = operator(yarn_track_via_rm_api=True)
    job._hook = job._get_hook()
    job.poll_until_complete("application_1764000000000_0001", context)
    # By it the official operator knows which one to end.
    assert job._hook._yarn_application_id == "application_1764000000000_0001"


def test_killing_a_tracked_task_removes_what_its_application_staged_in_yarn(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell = tmp_path / "spark-class"
    shell.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    shell.chmod(0o755)
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    with resource_manager(("KILLED", "KILLED")) as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        job = operator(yarn_track_via_rm_api=True, spark_binary=str(tmp_path / "spark-submit"))
        job._hook = job._get_hook()
        job.poll_until_complete("application_1764000000000_0001", context)
        job.on_kill()
    assert "-rm -r -skipTrash .sparkStaging/application_1764000000000_0001" in (tmp_path / "called").read_text()


def test_ending_a_task_removes_its_secrets(context: Context) -> None:
    job = operator()
    job._attempt = opened(job, context, LOCAL)
    job.on_kill()
    assert not job._attempt.files.folder.exists()


def test_secrets_are_gone_before_a_cluster_is_asked_to_end_an_application(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_spark(monkeypatch, host="yarn", extra={"deploy-mode": "cluster"})
    job = operator(report_location=str(tmp_path))
    job._attempt = opened(job, context, CLUSTER)
    client = tmp_path / "yarn"
    # It may wait for minutes, and Airflow kills the task meanwhile.
    client.write_text(f"#!/bin/sh\nls {job._attempt.files.folder} > {tmp_path}/left 2>&1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    job._hook = job._get_hook()
    job._hook.follow("application_1764000000000_0001")
    with subprocess.Popen(["sleep", "60"]) as spark_submit:
        job._hook._submit_sp = spark_submit
        job.on_kill()
    assert spark_submit.returncode is not None
    assert "No such file" in (tmp_path / "left").read_text()


def test_secrets_and_the_connection_are_not_templated() -> None:
    fields = LakeCompactionOperator.template_fields
    assert {"table", "conf", "packages", "level", "only_plan"} <= set(fields)
    assert not {"application", "application_args", "conn_id"} & set(fields)
    assert all(hasattr(operator(), field) for field in fields)


def spark_home(folder: Path, core_jar: str) -> Path:
    """Make a SPARK_HOME of some version, and return it."""
    for name in ("bin/spark-submit", f"jars/{core_jar}"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch(0o755)
    return folder


def runtime_of(job: LakeCompactionOperator, context: Context) -> str:
    attempt = opened(job, context, LOCAL)
    return str(spark_submit_arguments(attempt, job, attempt.driver_start(job))["packages"]).split(",")[0]


@pytest.mark.parametrize(
    ("core_jar", "artifact"),
    [
        ("spark-core_2.12-3.5.9.jar", "iceberg-spark-runtime-3.5_2.12"),
        ("spark-core_2.13-4.1.3.jar", "iceberg-spark-runtime-4.1_2.13"),
    ],
)
def test_the_runtime_is_that_of_the_spark_which_submits(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, core_jar: str, artifact: str
) -> None:
    home = spark_home(tmp_path / "spark", core_jar)
    by_binary = operator(spark_binary=str(home / "bin/spark-submit"))
    assert runtime_of(by_binary, context).split(":")[1] == artifact
    assert runtime_of(operator(env_vars={"SPARK_HOME": str(home)}), context).split(":")[1] == artifact
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert runtime_of(operator(), context).split(":")[1] == artifact


def test_the_spark_binary_of_the_connection_decides_the_runtime(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = spark_home(tmp_path / "spark", "spark-core_2.12-3.5.9.jar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spark3-submit").symlink_to(home / "bin/spark-submit")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    set_spark(monkeypatch, host="yarn", extra={"spark-binary": "spark3-submit"})
    assert runtime_of(operator(), context).split(":")[1] == "iceberg-spark-runtime-3.5_2.12"


def test_a_spark_that_jobs_do_not_run_on_is_refused_by_its_version(context: Context, tmp_path: Path) -> None:
    home = spark_home(tmp_path / "spark", "spark-core_2.12-3.4.1.jar")
    job = operator(spark_binary=str(home / "bin/spark-submit"))
    with pytest.raises(UnsupportedError, match=r"the worker submits with Spark 3\.4 and Scala 2\.12; set SPARK_HOME"):
        opened(job, context, LOCAL).driver_start(job)
