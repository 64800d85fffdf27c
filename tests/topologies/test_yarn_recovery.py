"""YARN: workers, drivers and tracking that are lost, and tasks that wait in the triggerer. One Airflow, small jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.topologies.conformance import prepared
from tests.topologies.hadoop_cluster import HadoopCluster
from tests.topologies.yarn_topology import in_the_cluster, staged

pytestmark = [pytest.mark.live, pytest.mark.slow]

_DAGS = Path(__file__).parent / "upsert_dags"
_ROWS = {1: ("new", Decimal("1.00")), 2: ("new", Decimal("2.00")), 3: ("new", Decimal("3.00"))}
_CASES = (
    "shared_folder",
    "killed_worker",
    "lost_before_the_commit",
    "lost_after_the_commit",
    "restarted_driver",
    "broken_tracking",
    "deferred",
    "failed_by_a_user",
    "cleared_by_a_user",
    "overdue",
)
# A task that is to be deferred by then, on a busy machine as well.
_OVERDUE_SECONDS = 150


@dataclass(frozen=True)
class Deployment:
    """An Airflow whose drivers run on YARN.

    :param reports: folder of this machine that drivers report to, where their case says so.
    """

    airflow: StandaloneAirflow
    cluster: HadoopCluster
    catalog: Catalog
    reports: Path

    def start(self, case: str) -> Run:
        """Start the upsert of a case."""
        self.airflow.unpause(case)
        answer = self.airflow.trigger(case, {})
        assert answer.status_code == 200, answer.text
        return Run(self, case, answer.json()["dag_run_id"])


@dataclass(frozen=True)
class Run:
    """A run of one upsert.

    :param case: name of its DAG and its table.
    """

    deployment: Deployment
    case: str
    run_id: str

    @property
    def applications(self) -> dict[str, str]:
        """States of its YARN applications by their ids."""
        return self.deployment.cluster.applications(f"LakeUpsertOperator shop.{self.case}")

    def log(self, attempt: int = 1) -> str:
        """Return the log of an attempt; empty where it has not begun."""
        home = self.deployment.airflow.home / "logs"
        file = home / f"dag_id={self.case}" / f"run_id={self.run_id}" / "task_id=upsert" / f"attempt={attempt}.log"
        return file.read_text() if file.exists() else ""

    def wait_for_log(self, text: str, attempt: int = 1) -> None:
        """Wait until an attempt has said a text."""
        wait_for(f"{text!r} in attempt {attempt}", lambda: text in self.log(attempt) or None, self.explain)

    def wait_for_driver(self) -> tuple[str, list[psutil.Process]]:
        """Wait until the newest application runs, and return its id and its driver's processes."""

        def running() -> str | None:
            *_, newest = self.applications.items() or [("", "")]
            return newest[0] if newest[1] == "RUNNING" else None

        application = wait_for("a running application", running, self.explain)
        return application, self.deployment.cluster.driver(application)

    def wait_for_success(self) -> dict[str, Any]:
        """Wait for the end, which has to be a success, and return the report."""
        self.deployment.airflow.wait_for_success(self.case, self.run_id)
        report: dict[str, Any] = self.deployment.airflow.returned(self.case, self.run_id, "upsert")
        return report

    def tries(self) -> int:
        """Return the number of the newest try."""
        return int(self.deployment.airflow.get(self._task)["try_number"])

    def wait_until_deferred(self) -> None:
        """Wait until the triggerer waits for the application, and no worker."""
        airflow = self.deployment.airflow
        wait_for("a deferral", lambda: airflow.get(self._task)["state"] == "deferred" or None, self.explain)
        wait_for("the end of the worker", lambda: not _busy_workers(airflow) or None, self.explain)

    def fail(self) -> None:
        """Mark the task as failed, as a user does."""
        answer = self.deployment.airflow.send("PATCH", self._task, {"new_state": "failed"})
        assert answer.status_code == 200, answer.text

    def clear(self) -> None:
        """Clear the task, as a user does."""
        body = {"dry_run": False, "dag_run_id": self.run_id, "task_ids": ["upsert"], "only_failed": False}
        answer = self.deployment.airflow.send("POST", f"/dags/{self.case}/clearTaskInstances", body)
        assert answer.status_code == 200, answer.text

    def wait_for_kill(self, application: str) -> None:
        """Wait until an application is killed, and nothing of it is staged any more."""
        wait_for("the kill", lambda: self.applications[application] == "KILLED" or None, self.explain)
        cluster = self.deployment.cluster
        wait_for("no staged files", lambda: application not in staged(cluster) or None, self.explain)

    @property
    def _task(self) -> str:
        return f"/dags/{self.case}/dagRuns/{self.run_id}/taskInstances/upsert"

    def commits(self) -> list[str]:
        """Return the run key of each commit of main."""
        try:
            table = self.deployment.catalog.load_table(f"shop.{self.case}")
        except NoSuchTableError:
            return []
        summaries = [snapshot.summary for snapshot in table.snapshots() if snapshot.summary]
        return [summary["lake.run-key"] for summary in summaries if summary["lake.run-key"]]

    def assert_applied_once(self) -> None:
        """Compare the rows with those of the input, and count the commits."""
        found = self.deployment.catalog.load_table(f"shop.{self.case}").scan().to_arrow().to_pylist()
        assert {row["id"]: (row["status"], row["total"]) for row in found} == _ROWS
        assert len(found) == len(_ROWS)
        assert len(self.commits()) == 1
        self.assert_nothing_is_staged()

    def assert_nothing_is_staged(self) -> None:
        """Look for files of its applications in HDFS: the settings with the connection's secrets are among them."""
        assert set(self.applications) & set(staged(self.deployment.cluster)) == set()

    def explain(self) -> str:
        """Return what is to be shown where something did not come."""
        return f"{self.applications}\n{self.deployment.airflow.task_logs(self.case, self.run_id)}"


@pytest.fixture(scope="module")
def deployment(
    cluster: HadoopCluster,
    tmp_path_factory: pytest.TempPathFactory,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("recovery")
    (home / "lake").mkdir()
    topology = in_the_cluster(cluster, home / "lake")
    environment, _ = prepared(topology, home / "home", unused_tcp_port_factory())
    reports = home / "reports"
    environment |= {
        "AIRFLOW__CORE__DAGS_FOLDER": str(_DAGS),
        # A worker that was killed is missed after so many seconds.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        # The file never changes.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "UPSERT_CASES": json.dumps({case: {**topology.arguments, **_arguments(case, reports)} for case in _CASES}),
    }
    airflow = StandaloneAirflow(environment, home / "airflow", unused_tcp_port_factory())
    try:
        airflow.wait_until_healthy()
        wait_for("all DAGs", lambda: len(airflow.get("/dags")["dags"]) == len(_CASES) or None, airflow.output)
        yield Deployment(airflow, cluster, topology.catalog(), reports)
    finally:
        airflow.stop()


def _arguments(case: str, reports: Path) -> dict[str, Any]:
    shared: dict[str, Any] = {"report_location": reports.as_uri()}
    by_case: dict[str, dict[str, Any]] = {
        "shared_folder": shared,
        "lost_after_the_commit": shared,
        "restarted_driver": {**shared, "conf": {"spark.yarn.maxAppAttempts": "2"}},
        "deferred": {"deferrable": True},
        "failed_by_a_user": {"deferrable": True},
        "cleared_by_a_user": {"deferrable": True},
        "overdue": {"deferrable": True, "execution_timeout": _OVERDUE_SECONDS, "retries": 0},
    }
    return by_case.get(case, {})


def test_a_report_comes_through_a_folder_that_both_sides_have(deployment: Deployment) -> None:
    run = deployment.start("shared_folder")
    report = run.wait_for_success()
    assert (report["outcome"], report["rows_inserted"]) == ("applied", len(_ROWS))
    assert len(list(deployment.reports.glob("lake_default-*.json"))) == 1
    assert list(run.applications.values()) == ["FINISHED"]
    run.assert_applied_once()


def test_a_retry_takes_the_result_of_the_application_that_its_killed_worker_left(deployment: Deployment) -> None:
    run = deployment.start("killed_worker")
    run.wait_for_log("Tracking YARN application")
    _, driver = run.wait_for_driver()
    with _stopped(driver):
        killed = _kill_worker(deployment.airflow)
        run.wait_for_log("Reconnecting to existing job", attempt=2)
    report = run.wait_for_success()
    assert len(killed) >= 2, "the supervisor or the task was not killed"
    assert (report["outcome"], report["rows_inserted"]) == ("applied", len(_ROWS))
    assert list(run.applications.values()) == ["FINISHED"]
    run.assert_applied_once()


def test_a_retry_repeats_the_job_of_a_driver_that_was_killed_before_its_commit(deployment: Deployment) -> None:
    run = deployment.start("lost_before_the_commit")
    application, driver = run.wait_for_driver()
    with _stopped(driver):
        assert run.commits() == []
        deployment.cluster.kill(application)
        wait_for("the kill", lambda: run.applications[application] == "KILLED" or None, run.explain)
    run.wait_for_success()
    assert "JobFailedError" in run.log(), run.log()
    assert list(run.applications.values()) == ["KILLED", "FINISHED"]
    run.assert_applied_once()


def test_a_driver_that_was_killed_after_its_commit_has_committed(deployment: Deployment) -> None:
    run = deployment.start("lost_after_the_commit")
    application = _hold_between_commit_and_report(run)
    deployment.cluster.kill(application)
    report = run.wait_for_success()
    assert (report["outcome"], report["run_key"]) == ("applied", run.commits()[0])
    assert any("report was lost" in warning for warning in report["warnings"]), report
    assert run.tries() == 1
    assert list(run.applications.values()) == ["KILLED"]
    run.assert_applied_once()


def test_a_driver_that_yarn_starts_again_finds_the_commit_of_the_first(deployment: Deployment) -> None:
    run = deployment.start("restarted_driver")
    application = _hold_between_commit_and_report(run)
    for process in deployment.cluster.driver(application):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    report = run.wait_for_success()
    assert report["outcome"] == "already-applied"
    assert run.tries() == 1
    assert run.applications == {application: "FINISHED"}
    run.assert_applied_once()


def test_a_resource_manager_that_answers_nothing_for_a_while_costs_a_task_nothing(deployment: Deployment) -> None:
    run = deployment.start("broken_tracking")
    run.wait_for_log("Tracking YARN application")
    run.wait_for_driver()
    with deployment.cluster.paused("resourcemanager"):
        run.wait_for_log("Transient YARN RM REST API failure")
    report = run.wait_for_success()
    assert (report["outcome"], report["rows_inserted"]) == ("applied", len(_ROWS))
    assert run.tries() == 1
    assert list(run.applications.values()) == ["FINISHED"]
    run.assert_applied_once()


def test_a_deferred_task_holds_no_worker_and_takes_the_result(deployment: Deployment) -> None:
    run = deployment.start("deferred")
    _, driver = run.wait_for_driver()
    with _stopped(driver):
        run.wait_until_deferred()
    report = run.wait_for_success()
    assert (report["outcome"], report["rows_inserted"]) == ("applied", len(_ROWS))
    assert run.tries() == 1
    assert list(run.applications.values()) == ["FINISHED"]
    run.assert_applied_once()


def test_a_user_who_fails_a_deferred_task_ends_its_application_and_leaves_no_secret(deployment: Deployment) -> None:
    run = deployment.start("failed_by_a_user")
    with _held_while_deferred(run) as application:
        run.fail()
        run.wait_for_kill(application)
    assert run.commits() == []


def test_a_user_who_clears_a_deferred_task_ends_its_application_and_starts_another(deployment: Deployment) -> None:
    run = deployment.start("cleared_by_a_user")
    with _held_while_deferred(run) as application:
        run.clear()
        run.wait_for_kill(application)
    report = run.wait_for_success()
    assert (report["outcome"], report["rows_inserted"]) == ("applied", len(_ROWS))
    assert list(run.applications.values()) == ["KILLED", "FINISHED"]
    run.assert_applied_once()


def test_a_deferred_task_whose_time_is_over_ends_its_application_and_leaves_no_secret(deployment: Deployment) -> None:
    run = deployment.start("overdue")
    with _held_while_deferred(run) as application:
        run.wait_for_kill(application)
    assert deployment.airflow.wait_for_end(run.case, run.run_id) == "failed"
    assert f"{application} runs for longer than" in run.log(), run.log()
    assert list(run.applications.values()) == ["KILLED"]
    assert run.commits() == []


@contextmanager
def _held_while_deferred(run: Run) -> Iterator[str]:
    """Give the application of a task that is deferred, whose driver does nothing for a while."""
    application, driver = run.wait_for_driver()
    with _stopped(driver):
        run.wait_until_deferred()
        assert application in staged(run.deployment.cluster), "nothing is staged, so this test would prove nothing"
        yield application


@contextmanager
def _stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Let processes do nothing for a while."""
    assert processes, "there is no driver, so this test would prove nothing"
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _kill_worker(airflow: StandaloneAirflow) -> list[psutil.Process]:
    """Kill the processes of the one running task as a machine that is lost does, and return them."""
    tasks = _busy_workers(airflow)
    for process in tasks:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    return tasks


def _busy_workers(airflow: StandaloneAirflow) -> list[psutil.Process]:
    """Return the processes of running tasks and of their supervisors."""
    return [process for process in airflow.processes() if _is_busy_worker(process)]


def _is_busy_worker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        title = " ".join(process.cmdline())
        return title.startswith("airflow worker -- ") and "<idle>" not in title
    return False


def _hold_between_commit_and_report(run: Run) -> str:
    """Return the application of a driver that has committed and cannot go on."""
    application, driver = run.wait_for_driver()
    with _stopped(driver):
        assert run.commits() == []
        # To open a pipe that nobody reads takes for ever.
        report = _report_path(driver)
        os.mkfifo(report)
    wait_for("the commit", lambda: run.commits() or None, run.explain)
    report.unlink()
    return application


def _report_path(driver: Sequence[psutil.Process]) -> Path:
    arguments = [argument for process in driver for argument in process.cmdline() if argument.startswith("file://")]
    (path,) = {Path(argument.removeprefix("file://")) for argument in arguments if argument.endswith(".json")}
    return path
