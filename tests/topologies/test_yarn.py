"""YARN and HDFS: drivers in the cluster and on the worker, reports by WebHDFS and by a shared folder."""

from __future__ import annotations

import getpass
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.end_to_end.airflow_command import AirflowCommand
from tests.end_to_end.lake_environment import REPOSITORY
from tests.topologies.conformance import Topology, assert_conforms, prepared
from tests.topologies.hadoop_cluster import HadoopCluster, hadoop_cluster, hadoop_jars

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Nobody asks for them, and nobody may see them.
_SECRETS = {"s3.access-key-id": "hush-4d07-key-id", "s3.secret-access-key": "hush-9f31-secret-key"}


@pytest.fixture
def cluster(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> Iterator[HadoopCluster]:
    jars = hadoop_jars(Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "hadoop-jars")
    with hadoop_cluster(tmp_path / "cluster", jars, unused_tcp_port_factory) as running:
        yield running


def topology(cluster: HadoopCluster, home: Path, mode: str, **arguments: Any) -> Topology:
    lake = {
        "conn_type": "iceberg",
        "extra": {
            "type": "sql",
            "uri": f"sqlite:///{home}/catalog.db",
            "warehouse": f"file://{home}/warehouse",
            **_SECRETS,
        },
    }
    address = f"http://{cluster.resource_manager}"
    spark = {
        "conn_type": "spark",
        "host": "yarn",
        "extra": {"deploy-mode": mode, "yarn_resourcemanager_webapp_address": address},
    }
    return Topology(
        lake=lake,
        spark=spark,
        logs=(cluster.logs,),
        environment={"HADOOP_CONF_DIR": str(cluster.configuration)},
        defaults=_defaults(),
        arguments=arguments,
        applications=cluster.spark_pages,
    )


def _defaults() -> Mapping[str, str]:
    return {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.pyspark.python": sys.executable,
        "spark.executor.instances": "1",
        "spark.executor.memory": "600m",
        "spark.driver.memory": "1g",
        "spark.driver.memoryOverhead": "256m",
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    }


def remote(cluster: HadoopCluster, home: Path) -> Topology:
    reports = f"webhdfs://{cluster.webhdfs}/reports"
    return topology(cluster, home, "cluster", report_location=reports, yarn_track_via_rm_api=True)


def staged(cluster: HadoopCluster) -> list[str]:
    user = os.environ.get("HADOOP_USER_NAME", getpass.getuser())
    return cluster.names_in(f"/user/{user}/.sparkStaging")


def test_drivers_in_the_cluster_report_by_webhdfs_and_leave_no_file(
    tmp_path: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    (tmp_path / "lake").mkdir()
    assert_conforms(remote(cluster, tmp_path / "lake"), tmp_path / "home", unused_tcp_port_factory())
    assert cluster.names_in("/reports")
    assert staged(cluster) == []


def test_a_killed_task_ends_its_application_and_leaves_no_secret_in_hdfs(
    tmp_path: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    (tmp_path / "lake").mkdir()
    environment, _ = prepared(remote(cluster, tmp_path / "lake"), tmp_path / "home", unused_tcp_port_factory())
    AirflowCommand(environment, ("db", "migrate")).wait()
    run = AirflowCommand(environment, ("dags", "test", "conformance"))
    run.wait_for("Tracking YARN application")
    assert len(staged(cluster)) == 1, "nothing is staged, so this test would prove nothing"
    os.kill(run.process.pid, signal.SIGTERM)
    run.process.wait(300)
    assert len(cluster.applications("KILLED")) == 1, run.output[-8000:]
    assert staged(cluster) == [], run.output[-8000:]
    assert list((tmp_path / "home" / "jobs").glob("attempt-*")) == []


def test_drivers_on_the_worker_run_the_whole_flow_on_executors_of_the_cluster(
    tmp_path: Path, cluster: HadoopCluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    (tmp_path / "lake").mkdir()
    assert_conforms(topology(cluster, tmp_path / "lake", "client"), tmp_path / "home", unused_tcp_port_factory())
