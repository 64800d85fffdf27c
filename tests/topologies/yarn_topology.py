"""Topologies on YARN and HDFS: what an Airflow on this machine is told of the cluster."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

from tests.end_to_end.secret_watch import new_mark
from tests.topologies.conformance import Topology
from tests.topologies.hadoop_cluster import HadoopCluster

# Jobs of seconds on few cores, as scripts/environment says.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


def on_yarn(cluster: HadoopCluster, home: Path, mode: str, **arguments: Any) -> Topology:
    """Return the topology of a lake in a folder of this machine.

    :param home: existing folder.
    :param mode: deploy mode, ``client`` or ``cluster``.
    :param arguments: of every operator.
    """
    mark = new_mark()
    # Nobody asks for them, and nobody may see them.
    secrets = {"s3.access-key-id": f"{mark}key-id", "s3.secret-access-key": f"{mark}secret-key"}
    lake = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse", **secrets}
    address = f"http://{cluster.resource_manager}"
    spark = {"deploy-mode": mode, "yarn_resourcemanager_webapp_address": address}
    return Topology(
        lake={"conn_type": "iceberg", "extra": lake},
        spark={"conn_type": "spark", "host": "yarn", "extra": spark},
        logs=(cluster.logs,),
        environment={"HADOOP_CONF_DIR": str(cluster.configuration)},
        defaults=_defaults(),
        arguments=arguments,
        mark=mark,
        applications=cluster.spark_pages,
    )


def in_the_cluster(cluster: HadoopCluster, home: Path, **arguments: Any) -> Topology:
    """Return the topology with drivers in the cluster, which report by WebHDFS unless ``arguments`` say otherwise."""
    reports = {"report_location": f"webhdfs://{cluster.webhdfs}/reports", "yarn_track_via_rm_api": True}
    return on_yarn(cluster, home, "cluster", **{**reports, **arguments})


def staged(cluster: HadoopCluster) -> list[str]:
    """Return the ids of applications whose files are in the staging folder of HDFS."""
    user = os.environ.get("HADOOP_USER_NAME", getpass.getuser())
    return cluster.names_in(f"/user/{user}/.sparkStaging")


def _defaults() -> Mapping[str, str]:
    return {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.pyspark.python": sys.executable,
        "spark.executor.instances": "1",
        "spark.executor.memory": "600m",
        "spark.driver.memory": "1g",
        "spark.driver.memoryOverhead": "256m",
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
        "spark.yarn.am.extraJavaOptions": _JAVA_OPTIONS,
        # The driver need not wait for its executor before it plans; Spark waits half a minute where that one is slow.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    }
