"""Retries and the application that Airflow keeps for them, with the official operator's own flow of a cluster.

A stand-in takes the place of ``spark-submit`` and of the cluster that says how its drivers are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as official_hook
from airflow.providers.apache.spark.operators import spark_submit as official_operator
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import CommitConflictError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import CompactionReport, JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import reports_to_json
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.task_run import UNTOLD
from tests.unit.operators.run_of_tests import StateStore
from tests.unit.operators.submitted import COMPACT, application, as_driver

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("job_directory", "lake_connection", "pushed")

CONFLICT = CompactionReport(table="shop.orders", outcome=Outcome.CONFLICT, reason="others won")
DONE = CompactionReport(table="shop.orders", outcome=Outcome.DONE, reason="as asked")


class WorkerLost(BaseException):
    """The worker's process ends; nothing of it catches that."""


class Kubernetes:
    """The pods of drivers, in place of the API's client, and ``spark-submit``, which makes another one."""

    ApiException = type("ApiException", (Exception,), {"status": 404})

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self.reports: list[Path] = []
        self.loses_worker = False
        # Of drivers that end as soon as they are submitted.
        self.report: JobReport | None = None

    def get_kube_client(self) -> Kubernetes:
        return self

    def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        assert namespace == "spark"
        if self.loses_worker:
            raise WorkerLost
        assert self.phases[name] != "Running", f"{name} is waited for, which nobody ends"
        return SimpleNamespace(status=SimpleNamespace(phase=self.phases[name], container_statuses=None))

    def submit(self, hook: Any) -> None:
        name = f"driver-{len(self.phases) + 1}"
        hook._kubernetes_driver_pod, self.phases[name] = name, "Running"
        self.reports.append(Path(hook._application_args[-1]))
        if self.report is not None:
            self.end(name, self.report)

    def end(self, name: str, report: JobReport) -> None:
        self.phases[name] = "Succeeded"
        self.reports[-1].write_text(as_driver(report), encoding="utf-8")


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    pods = Kubernetes()
    for module in (official_hook, official_operator):
        monkeypatch.setattr(module, "kube_client", pods, raising=False)
    monkeypatch.setattr(official_hook.SparkSubmitHook, "submit", lambda hook, _: pods.submit(hook))
    extra = {"deploy-mode": "cluster", "namespace": "spark"}
    spark = {"conn_type": "spark", "host": "k8s://https://kubernetes.example.com:443", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    return pods


@pytest.fixture
def attempt(orders: Table, append: Callable[..., int], context: Context, tmp_path: Path) -> Callable[..., Any]:
    """Carry out one try of a task that has two retries, in a process of its own."""
    append(orders, 1)
    StateStore.of(context)
    context["ti"].max_tries, context["ti"].stats_tags = 2, {}  # type: ignore[misc]  # of a stand-in

    def run(number: int, level: str = "full", retries: int = 2, **arguments: Any) -> Any:
        context["ti"].try_number = number
        return LakeCompactionOperator(
            task_id="compact",
            table="shop.orders",
            level=level,
            fail_on_conflict=True,
            retries=retries,
            report_location=str(tmp_path / "reports"),
            track_driver_via_k8s_api=True,
            **arguments,
        ).execute(context)

    return run


def lose_worker(kubernetes: Kubernetes, attempt: Callable[..., Any], **given: Any) -> None:
    """Lose the worker of the first try, whose driver goes on; later tries have one that lasts."""
    kubernetes.loses_worker = True
    with pytest.raises(WorkerLost):
        attempt(1, **given)
    kubernetes.loses_worker = False


def test_a_retry_follows_the_driver_of_a_lost_worker_though_an_earlier_one_ended_well(
    kubernetes: Kubernetes, attempt: Callable[..., Any]
) -> None:
    kubernetes.report = CONFLICT
    with pytest.raises(CommitConflictError, match="others won"):
        attempt(1)
    kubernetes.report, kubernetes.loses_worker = None, True
    with pytest.raises(WorkerLost):
        attempt(2)
    assert list(kubernetes.phases) == ["driver-1", "driver-2"]
    kubernetes.loses_worker = False
    kubernetes.end("driver-2", DONE)
    assert attempt(3)["outcome"] == "done"
    assert list(kubernetes.phases) == ["driver-1", "driver-2"]


def test_a_task_that_is_cleared_after_its_author_has_lowered_the_retries_takes_no_report_of_before(
    kubernetes: Kubernetes, attempt: Callable[..., Any], context: Context
) -> None:
    kubernetes.report = DONE
    assert attempt(1)["outcome"] == "done"
    # Its max_tries is the tries so far and the retries of now: what it was before.
    context["dag_run"].clear_number = 1
    assert attempt(2, retries=1)["outcome"] == "done"
    assert list(kubernetes.phases) == ["driver-1", "driver-2"]


@pytest.mark.parametrize("retries", [1, 0])
def test_a_retry_follows_its_driver_though_its_author_has_lowered_the_retries(
    kubernetes: Kubernetes, attempt: Callable[..., Any], context: Context, retries: int
) -> None:
    lose_worker(kubernetes, attempt)
    kubernetes.end("driver-1", DONE)
    # Of the run another task was cleared. By the metadata alone nothing is due.
    context["dag_run"].clear_number = int(retries == 0)
    assert attempt(2, level="auto", retries=retries)["outcome"] == "done"
    assert list(kubernetes.phases) == ["driver-1"]


@pytest.mark.parametrize("name", ["jars", "py_files", "files", "archives", "keytab"])
def test_a_retry_follows_the_driver_of_a_worker_that_had_a_file_which_this_one_has_not(
    kubernetes: Kubernetes, attempt: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    given = {name: str(tmp_path / "of_one_worker.bin")}
    (tmp_path / "of_one_worker.bin").touch()
    lose_worker(kubernetes, attempt, **given)
    (tmp_path / "of_one_worker.bin").unlink()
    kubernetes.end("driver-1", DONE)
    assert attempt(2, **given)["outcome"] == "done"
    # What is to be submitted needs the file.
    kubernetes.phases["driver-1"] = "Failed"
    with pytest.raises(InvalidSpecError, match=f"{name} has .*of_one_worker.bin', which this worker cannot read"):
        attempt(3, **given)
    assert list(kubernetes.phases) == ["driver-1"]


@pytest.mark.parametrize("what", ["properties_file", "spark_jars"])
def test_a_retry_follows_the_driver_of_a_worker_that_had_settings_or_jars_which_this_one_has_not(
    kubernetes: Kubernetes,
    attempt: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    job_directory: Path,
    tmp_path: Path,
    what: str,
) -> None:
    of_one_worker = tmp_path / "of_one_worker"
    of_one_worker.write_text("spark.app.name=x\n", encoding="utf-8")
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", str(of_one_worker))
    given = {"properties_file": str(of_one_worker)} if what == "properties_file" else {}
    lose_worker(kubernetes, attempt, **given)
    of_one_worker.unlink()
    if what == "properties_file":
        monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    kubernetes.end("driver-1", DONE)
    assert attempt(2, **given)["outcome"] == "done"
    kubernetes.phases["driver-1"] = "Failed"
    with pytest.raises(InvalidSpecError, match=f"{what}.*of_one_worker"):
        attempt(3, **given)
    assert list(kubernetes.phases) == ["driver-1"]
    assert list(job_directory.glob("attempt-*")) == []


def test_a_state_is_never_left_without_the_application_that_it_is_of(
    kubernetes: Kubernetes, attempt: Callable[..., Any], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = cast("StateStore", context["task_state_store"])
    deleted: list[str] = []

    def delete(key: str) -> None:
        deleted.append(key)
        raise RuntimeError("the API server does not answer")

    kubernetes.report = CONFLICT
    monkeypatch.setattr(store, "delete", delete)
    with pytest.raises(CommitConflictError, match="others won"):
        attempt(1)
    assert [key for key in deleted if key != UNTOLD] == ["k8s_driver_status up to try 2"]
    assert store["spark_job_id up to try 2"] == "spark:driver-1"


@pytest.mark.parametrize("ends", [True, False])
def test_a_retry_follows_a_driver_that_may_run_though_metadata_says_that_nothing_is_due(
    kubernetes: Kubernetes, attempt: Callable[..., Any], ends: bool
) -> None:
    kubernetes.loses_worker = True
    with pytest.raises(WorkerLost):
        attempt(1)
    if ends:
        kubernetes.loses_worker = False
        kubernetes.end("driver-1", DONE)
        assert attempt(2, level="auto")["outcome"] == "done"
    else:
        with pytest.raises(WorkerLost):
            attempt(2, level="auto")
    assert list(kubernetes.phases) == ["driver-1"]


def test_a_retry_answers_from_metadata_where_the_driver_of_the_earlier_try_has_failed(
    kubernetes: Kubernetes, attempt: Callable[..., Any]
) -> None:
    lose_worker(kubernetes, attempt)
    kubernetes.phases["driver-1"] = "Failed"
    assert attempt(2, level="auto")["outcome"] == "nothing-due"
    assert list(kubernetes.phases) == ["driver-1"]


@pytest.mark.usefixtures("five")
def test_a_task_that_the_followed_driver_was_not_sent_is_answered_from_metadata(
    kubernetes: Kubernetes, context: Context, tmp_path: Path
) -> None:
    StateStore.of(context)
    context["ti"].max_tries, context["ti"].stats_tags = 2, {}  # type: ignore[misc]  # of a stand-in
    well = {"action": "compaction", "table": "shop.well", "level": "auto"}
    arguments: dict[str, Any] = {"retries": 2, "report_location": str(tmp_path), "track_driver_via_k8s_api": True}
    kubernetes.loses_worker, context["ti"].try_number = True, 1
    with pytest.raises(WorkerLost):
        application(COMPACT, well, **arguments).execute(context)
    kubernetes.loses_worker, context["ti"].try_number = False, 2
    kubernetes.end("driver-1", DONE)
    kubernetes.reports[0].write_text(reports_to_json({"compaction shop.orders": DONE}), encoding="utf-8")
    reports = application(COMPACT, well, **arguments).execute(context)
    assert [report["outcome"] for report in reports] == ["done", "nothing-due"]
