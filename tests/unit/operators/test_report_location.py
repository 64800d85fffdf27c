"""A report location that a driver in the cluster cannot use is refused before anything is submitted."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import _registry

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators import report_file
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.report_file import forget_report, read_reports, shared_report
from tests.unit.operators.run_of_tests import RUN
from tests.unit.operators.submitted import job_of, opened, run_in_spark

if TYPE_CHECKING:
    from airflow.sdk import Context

CLUSTER = SparkTarget(master="yarn", cluster_mode=True)

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")


def compaction(location: str | None) -> LakeCompactionOperator:
    return LakeCompactionOperator(task_id="c", table="shop.orders", deploy_mode="cluster", report_location=location)


@pytest.fixture
def submissions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts what reaches the official operator."""
    started: list[str] = []

    def execute(job: Any, _: Context) -> None:
        job._before_submit()
        started.append("submitted")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    return started


REFUSED = [
    ("s3://lake/reports", ["s3://", "Install s3fs"]),
    ("s3a://lake/reports", ["s3a://", "Install s3fs"]),
    ("gs://lake/reports", ["gs://", "gcsfs"]),
    ("abfs://lake@account.dfs.core.windows.net/r", ["abfs://", "adlfs"]),
    ("abfss://lake@account.dfs.core.windows.net/r", ["abfss://", "adlfs"]),
    ("hdfs://namenode:8020/reports", ["hdfs://", "libhdfs", "webhdfs://"]),
    ("foo://lake/reports", ["foo://", "no such protocol"]),
    ("memory://reports", ["Hadoop", "memory://"]),
    ("https://host/reports", ["Hadoop", "https://"]),
    ("simplecache::s3://lake/reports", ["Hadoop"]),
    ("reports", ["relative", "'/mnt/reports'"]),
    ("./reports", ["relative"]),
    ("file://reports", ["relative"]),
    ("~/reports", ["relative"]),
]


@pytest.mark.parametrize(("location", "said"), REFUSED)
def test_a_location_that_one_side_cannot_use_is_refused_and_nothing_is_submitted(
    context: Context, submissions: list[str], monkeypatch: pytest.MonkeyPatch, location: str, said: list[str]
) -> None:
    _without(monkeypatch, "s3fs", "gcsfs", "adlfs")
    job = compaction(location)
    with pytest.raises(InvalidSpecError) as refused:
        run_in_spark(job, context)
    assert all(words in str(refused.value) for words in ("report_location", location, *said)), str(refused.value)
    assert submissions == []


@pytest.mark.parametrize(
    "place", ["s3://KEY:hunter2@lake/r", "s3a://KEY:hunter2/x@lake/r", "webhdfs://me:hunter2@nn/r"]
)
def test_a_location_with_keys_is_refused_and_not_shown(
    context: Context, submissions: list[str], job_directory: Path, place: str
) -> None:
    with pytest.raises(InvalidSpecError, match="report_location holds keys before its host") as refused:
        run_in_spark(compaction(place), context)
    assert "hunter2" not in str(refused.value)
    assert submissions == []
    assert not job_directory.exists()


def _without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Take packages away; fsspec keeps classes that it found once."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name, cls in _registry.items() if cls.__module__.partition(".")[0] in packages]:
        monkeypatch.delitem(_registry, name)


def test_the_setting_is_named_where_it_gave_the_location(
    context: Context, submissions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__REPORT_LOCATION", "reports")
    job = compaction(None)
    with pytest.raises(InvalidSpecError, match=r"\[lake\] report_location 'reports' is relative"):
        run_in_spark(job, context)
    assert submissions == []


def test_cluster_mode_without_a_location_is_refused_before_anything_is_laid_out_or_submitted(
    context: Context, submissions: list[str], job_directory: Path
) -> None:
    job = compaction(None)
    with pytest.raises(InvalidSpecError, match=r"shop\.orders: .*report_location, such as .*\[lake\] report_location"):
        run_in_spark(job, context)
    assert submissions == []
    assert not job_directory.exists()


def test_the_same_run_of_another_catalog_or_environment_has_another_report(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def report(catalog: str, lake: str) -> str:
        spec = replace(compaction(None).build_spec(context), catalog=catalog)
        return shared_report(Job({"task": spec}), RunIdentity.of("run"), str(tmp_path), lake)

    production = "sql postgresql://db.example.com/lake s3://lake/wh"
    test = "sql postgresql://db-test.example.com/lake s3://lake-test/wh"
    here = [report(catalog, lake) for catalog in ("lake_eu", "lake_us") for lake in (production, test)]
    assert [Path(path).name.rpartition("-")[0] for path in here] == ["lake_eu", "lake_eu", "lake_us", "lake_us"]
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow-test.example.com")
    elsewhere = report("lake_eu", production)
    assert len({Path(path).stem[-32:] for path in (*here, elsewhere)}) == 5
    assert report("lake_eu", production) == elsewhere
    assert len(Path(report("c" * 300, production)).name) < 255


def test_an_operator_tells_the_address_of_its_catalog_without_a_secret(
    context: Context, submissions: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []

    def name(job: Job, run: RunIdentity, lake: str) -> str:
        told.append(lake)
        return "name"

    monkeypatch.setattr(report_file, "_name", name)
    for host in ("db", "db-test"):
        fields = {"host": f"postgresql://{host}:5432/lake", "login": "airflow", "password": "hunter2"}
        extra = {"type": "sql", "warehouse": "s3://lake/wh", "s3.region": "eu-west-1"}
        connection = json.dumps({"conn_type": "iceberg", **fields, "extra": extra})
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", connection)
        job = compaction(str(tmp_path))
        opened(job, context, CLUSTER)
    assert told == [f"sql postgresql://{host}:5432/lake s3://lake/wh" for host in ("db", "db-test")]


def test_in_client_mode_nobody_asks_for_the_location(
    context: Context, submissions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__REPORT_LOCATION", "foo://reports")
    job = LakeCompactionOperator(task_id="c", table="shop.orders", report_location="reports")
    with pytest.raises(JobFailedError, match="no report"):
        run_in_spark(job, context)
    assert submissions == ["submitted"]


class Broken(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store that answers as ``error`` says."""

    protocol = "broken"
    error: Callable[[], Exception]

    def exists(self, path: str, **_: Any) -> bool:
        raise type(self).error()

    def rm_file(self, path: str) -> None:
        raise type(self).error()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (lambda: PermissionError("The provided token has expired."), JobFailedError),
        (
            lambda: type("CredentialRetrievalError", (Exception,), {})("Error when retrieving credentials"),
            JobFailedError,
        ),
        (lambda: type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"), InvalidSpecError),
        (lambda: OSError("Connection reset by peer"), JobFailedError),
        (lambda: TimeoutError("timed out"), JobFailedError),
    ],
)
def test_a_store_that_refuses_is_final_and_one_that_is_away_is_tried_again(
    context: Context, monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], expected: type[Exception]
) -> None:
    monkeypatch.setitem(_registry, "broken", Broken)
    monkeypatch.setattr(Broken, "error", staticmethod(error), raising=False)
    job = job_of(compaction(None), context)
    with pytest.raises(expected, match=r"report_location 'broken://reports'.*Nothing was submitted"):
        shared_report(job, RUN, "broken://reports")
    with pytest.raises(expected, match="nothing was submitted: the report of an earlier attempt"):
        forget_report("broken://reports/a.json")


def test_a_missing_report_that_the_worker_may_not_list_is_no_report_yet(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_registry, "broken", Broken)
    monkeypatch.setattr(Broken, "error", staticmethod(lambda: PermissionError("Forbidden")), raising=False)
    report = shared_report(job_of(compaction(None), context), RUN, "broken://reports")
    assert report.startswith("broken://reports/")


def test_a_folder_that_the_worker_may_not_write_to_is_refused(context: Context, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    job = job_of(compaction(None), context)
    with pytest.raises(InvalidSpecError, match=r"taken.*this worker cannot use it"):
        shared_report(job, RUN, f"{tmp_path}/taken/reports")
    report = shared_report(job, RUN, f"file://{tmp_path}/new/")
    assert list((tmp_path / "new").iterdir()) == []
    assert shared_report(job, RUN, f"file://{tmp_path}/new") == report


def test_a_report_that_cannot_be_removed_is_not_told_as_one_that_never_came(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_registry, "broken", Broken)
    monkeypatch.setattr(Broken, "error", staticmethod(lambda: PermissionError("Access Denied")), raising=False)
    monkeypatch.setattr(Broken, "exists", lambda *_, **__: False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda job, _: job._before_submit())
    job = compaction("broken://reports")
    with pytest.raises(InvalidSpecError, match="right to delete"):
        run_in_spark(job, context)


def test_a_probe_of_a_shared_folder_follows_no_link_of_a_guessed_name(context: Context, tmp_path: Path) -> None:
    job = job_of(compaction(None), context)
    report = Path(shared_report(job, RUN, str(tmp_path)))
    report.with_suffix(".probe").symlink_to(tmp_path / "victim")
    shared_report(job, RUN, str(tmp_path))
    assert not (tmp_path / "victim").exists()
    assert [path.name for path in tmp_path.iterdir()] == [report.with_suffix(".probe").name]


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder", "link to a folder"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_no_file_in_a_shared_folder_is_no_report_and_is_not_waited_for(
    tmp_path: Path, kind: str, scheme: str
) -> None:
    planted = tmp_path / "planted"
    if "pipe" in kind:
        os.mkfifo(planted)
    else:
        planted.mkdir()
    if "link" in kind:
        (tmp_path / "link").symlink_to(planted)
        planted = tmp_path / "link"
    found: list[object] = []
    reading = threading.Thread(target=lambda: found.append(read_reports(f"{scheme}{planted}")), daemon=True)
    reading.start()
    reading.join(10)
    assert found == [{}]
