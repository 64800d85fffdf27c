"""YARN and HDFS: the whole flow with drivers in the cluster and on the worker, and a task that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.airflow_command import AirflowCommand
from tests.topologies.conformance import assert_conforms, prepared
from tests.topologies.hadoop_cluster import HadoopCluster
from tests.topologies.yarn_topology import in_the_cluster, on_yarn, staged

pytestmark = [pytest.mark.live, pytest.mark.slow]

_FIRST_JOB = "LakeUpsertOperator shop.orders"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty folder for catalog and warehouse."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def test_drivers_in_the_cluster_report_by_webhdfs_and_leave_no_file(
    tmp_path: Path, lake: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    topology = in_the_cluster(cluster, lake, report_location=f"webhdfs://{cluster.webhdfs}/flow")
    assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())
    assert cluster.names_in("/flow")
    assert staged(cluster) == []


def test_a_killed_task_ends_its_application_and_leaves_no_secret_in_hdfs(
    tmp_path: Path, lake: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    earlier = cluster.applications(_FIRST_JOB)
    environment, _ = prepared(in_the_cluster(cluster, lake), tmp_path / "home", unused_tcp_port_factory())
    AirflowCommand(environment, ("db", "migrate")).wait()
    run = AirflowCommand(environment, ("dags", "test", "conformance"))
    run.wait_for("Tracking YARN application")
    assert len(staged(cluster)) == 1, "nothing is staged, so this test would prove nothing"
    os.kill(run.process.pid, signal.SIGTERM)
    run.process.wait(300)
    ended = [state for name, state in cluster.applications(_FIRST_JOB).items() if name not in earlier]
    assert ended == ["KILLED"], run.output[-8000:]
    assert staged(cluster) == [], run.output[-8000:]
    assert list((tmp_path / "home" / "jobs").glob("attempt-*")) == []


def test_drivers_on_the_worker_run_the_whole_flow_on_executors_of_the_cluster(
    tmp_path: Path, lake: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    assert_conforms(on_yarn(cluster, lake, "client"), tmp_path / "home", unused_tcp_port_factory())
