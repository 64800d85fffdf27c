"""The cluster that tests on YARN share: its daemons take a minute to start on a busy machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.lake_environment import REPOSITORY
from tests.topologies.hadoop_cluster import HadoopCluster, hadoop_cluster, hadoop_jars


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]
) -> Iterator[HadoopCluster]:
    """HDFS and YARN, for the whole session."""
    jars = hadoop_jars(Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "hadoop-jars")
    folder = tmp_path_factory.mktemp("hadoop") / "cluster"
    with hadoop_cluster(folder, jars, unused_tcp_port_factory) as running:
        yield running
