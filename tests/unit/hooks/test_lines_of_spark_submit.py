"""Lines of ``spark-submit`` in the task's log, and in Spark's own; a shell script stands in for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.log import mask_secret

from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkApplication
from airflow_lake_provider.submission.spark_log import SparkLog

WARNING = "26/11/26 00:05:15 WARN NativeCodeLoader: Unable to load native-hadoop library"
OURS = "[lake] application local-1, Spark UI http://127.0.0.1:4040"
DEATH = 'Exception in thread "main" java.lang.IllegalArgumentException: requirement failed'


class Submission:
    """A ``spark-submit`` that says given lines."""

    def __init__(
        self,
        folder: Path,
        lines: str,
        code: int = 0,
        spark_log: SparkLog | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        (folder / "lines").write_text(lines)
        self.binary = folder / "spark-submit"
        self.binary.write_text(
            f'#!/bin/sh\ncat {folder}/lines\necho "$SPARK_LOCAL_IP" > {folder}/address\nexit {code}\n'
        )
        self.binary.chmod(0o755)
        self.applications: list[SparkApplication] = []
        official = SparkSubmitHook(conn_id="spark_default", spark_binary=str(self.binary))
        self.spark_log = spark_log or SparkLog.open(folder / "spark", "task", str, 14)
        self.hook = LakeSparkSubmitHook.adopt(
            official, lambda: None, self.applications.append, spark_log=self.spark_log, environment=environment
        )

    def run(self) -> list[str]:
        """Submit, and return what the task's log got of it."""
        with structlog.testing.capture_logs() as logged:
            self.hook.submit("job.py")
        return [str(entry["event"]) for entry in logged if not str(entry["event"]).startswith("Spark-Submit cmd")]

    def own(self) -> str:
        assert self.spark_log.path is not None
        return self.spark_log.path.read_text()


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))


def on_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def test_sparks_own_lines_go_to_its_log_and_all_others_to_the_tasks(tmp_path: Path) -> None:
    lines = f"{WARNING}\n{OURS}\nrows 17\n  indented by the author\n{WARNING}\n\tat java.base/x(Y.java)\n"
    submission = Submission(tmp_path, lines)
    assert submission.run() == [OURS, "rows 17", "  indented by the author"]
    assert submission.own() == f"{WARNING}\n{WARNING}\n\tat java.base/x(Y.java)\n"
    assert [found.id for found in submission.applications] == ["local-1"]


def test_a_percent_sign_is_a_percent_sign(tmp_path: Path) -> None:
    assert Submission(tmp_path, "100 %s done\n").run() == ["100 %s done"]


def test_secrets_are_hidden_in_sparks_own_log_as_in_the_tasks(tmp_path: Path) -> None:
    from airflow_lake_provider.operators.spark_log_file import _masked

    mask_secret("only-this-tests-secret")
    log = SparkLog.open(tmp_path / "spark", "task", _masked, 14)
    submission = Submission(tmp_path, f"{WARNING} only-this-tests-secret\n", spark_log=log)
    submission.run()
    # Other tests have hidden words of their own. A word that begins with one of them would be hidden in part.
    assert submission.own().endswith(" ***\n")


def test_what_a_driver_says_that_never_starts_is_in_the_tasks_log_and_in_the_error(tmp_path: Path) -> None:
    submission = Submission(tmp_path, f"{WARNING}\n{DEATH}\n\tat x(Y.java)\n", code=1)
    with structlog.testing.capture_logs() as logged, pytest.raises(AirflowException, match="requirement failed"):
        submission.hook.submit("job.py")
    events = [entry["event"] for entry in logged]
    assert events[-2:] == [DEATH, "\tat x(Y.java)"]


def test_a_disk_that_is_full_brings_the_lines_back_and_says_so_once(tmp_path: Path) -> None:
    log = SparkLog.open(tmp_path / "spark", "task", str, 14)
    log._file = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115  closed by the log
    told = Submission(tmp_path, f"{WARNING}\n{WARNING}\n{OURS}\n", spark_log=log).run()
    assert told[1:] == [WARNING, WARNING, OURS]
    assert "No space left on device" in told[0]


def test_without_a_file_every_line_is_in_the_tasks_log(tmp_path: Path) -> None:
    assert Submission(tmp_path, f"{WARNING}\n{OURS}\n", spark_log=SparkLog()).run() == [WARNING, OURS]


def test_an_application_of_yarn_is_found_and_each_of_its_states_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_yarn(monkeypatch)
    report = "26/11/26 00:05:51 INFO Client: Application report for application_17_0001 (state: {})\n"
    states = ("ACCEPTED", "ACCEPTED", "RUNNING", "RUNNING", "RUNNING", "FINISHED")
    lines = "".join(report.format(state) + "\t client token: N/A\n" for state in states)
    submission = Submission(tmp_path, lines)
    assert submission.run() == [
        "Identified spark application id: application_17_0001",
        *(
            f"Spark: Application report for application_17_0001 (state: {state})"
            for state in ("ACCEPTED", "RUNNING", "FINISHED")
        ),
    ]
    assert submission.hook._yarn_application_id == "application_17_0001"
    assert submission.own() == lines


def test_the_folder_that_spark_stages_an_application_in_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_yarn(monkeypatch)
    folder = "hdfs://nn:8020/stage/etl/.sparkStaging/application_17_0001"
    client = "26/11/26 00:05:50 INFO Client:"
    lines = f"{client} Uploading resource file:/tmp/c.zip -> {folder}/c.zip\n{client} Submitting application\n"
    submission = Submission(tmp_path, lines)
    submission.run()
    assert submission.hook.staged_in == folder


def test_a_log_that_may_go_with_its_worker_ends_up_in_the_tasks_log_too(tmp_path: Path) -> None:
    log = SparkLog.open(tmp_path / "spark", "task", str, 14)
    log.is_replayed = True
    told = Submission(tmp_path, f"{WARNING}\n{OURS}\n" + f"{WARNING}\n" * 1200, spark_log=log).run()
    assert told[0] == OURS
    assert told[1:] == ["::group::Spark's own log", *([WARNING] * 1000), "::endgroup::"]


@pytest.mark.parametrize(("of_worker", "listens_at"), [(None, "127.0.0.1"), ("10.0.0.7", "10.0.0.7")])
def test_a_driver_listens_where_it_is_told_by_us_and_before_us_by_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_worker: str | None, listens_at: str
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    own = {"SPARK_LOCAL_IP": "127.0.0.1"}
    if of_worker is not None:
        monkeypatch.setenv("SPARK_LOCAL_IP", of_worker)
        own = {}
    Submission(tmp_path, OURS, environment=own).run()
    assert (tmp_path / "address").read_text().strip() == listens_at
