"""A standalone Spark cluster, with tables in a PostgreSQL catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.postgresql_server import postgresql_server
from tests.end_to_end.secret_watch import new_mark
from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.spark_standalone import spark_standalone

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_a_standalone_cluster_runs_the_whole_flow_on_a_postgresql_catalog(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    mark = new_mark()
    with (
        postgresql_server(f"{mark}p@ss/91:%") as database,
        spark_standalone(tmp_path / "cluster", unused_tcp_port_factory) as master,
    ):
        lake = {
            "conn_type": "iceberg",
            "host": f"postgresql+psycopg2://127.0.0.1:{database.port}/postgres",
            "login": database.user,
            "password": database.password,
            "extra": {"type": "sql", "warehouse": f"file://{tmp_path}/warehouse"},
        }
        spark = {"conn_type": "spark", "host": master}
        topology = Topology(lake=lake, spark=spark, logs=(tmp_path / "cluster",), mark=mark)
        assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())
    executors = list((tmp_path / "cluster" / "work").glob("app-*/*/stderr"))
    assert len(executors) >= len(("upsert_1", "upsert_2", "copy_1", "delete", "copy_2", "compaction", "expiry"))
