"""Seconds from a commit to the downstream run that it starts, in a whole Airflow.

``airflow standalone`` watches a table at a poll interval while PyIceberg commits to it at random moments. A run counts
from when Airflow queued it, by Airflow's own clock; a commit from its snapshot's time.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from tests.end_to_end.lake_environment import environment_of
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for

_DAG = "on_bench_snapshot"
_SCHEMA = pa.schema([("id", pa.int64())])


def seconds_to_downstream_runs(folder: Path, commits: int, poll_seconds: float, seed: int = 0) -> list[float]:
    """Return, for each commit, the seconds until its run was queued.

    :param folder: empty folder for the lake and Airflow's home.
    :param seed: of the moments of the commits.
    """
    moments = random.Random(seed)
    (folder / "warehouse").mkdir()
    with _catalog(folder) as catalog, _airflow(folder, poll_seconds) as airflow:
        catalog.create_namespace("bench")
        table = catalog.create_table("bench.lag", schema=_SCHEMA, location=f"file://{folder}/warehouse/lag")
        lags = []
        for number in range(commits + 1):
            time.sleep(moments.uniform(0, poll_seconds))
            committed = _commit(table, number)
            run = wait_for(f"run {number + 1}", lambda n=number: _run(airflow, n), airflow.output)  # type: ignore[misc]
            lags.append((datetime.fromisoformat(run) - committed).total_seconds())
            print(f"commit {number}: {lags[-1]:.2f} s to its run")
        # The first commit waits for the watcher's first look at the table, which no later one does.
        return lags[1:]


def _commit(table: Table, number: int) -> datetime:
    table.append(pa.table({"id": [number]}, schema=_SCHEMA))
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _run(airflow: StandaloneAirflow, number: int) -> str | None:
    runs = airflow.runs(_DAG)
    return str(runs[number]["queued_at"]) if len(runs) > number and runs[number]["queued_at"] else None


@contextmanager
def _catalog(folder: Path) -> Iterator[Catalog]:
    with closing(load_catalog("lake_default", type="sql", uri=f"sqlite:///{folder}/catalog.db")) as catalog:
        yield catalog


@contextmanager
def _airflow(folder: Path, poll_seconds: float) -> Iterator[StandaloneAirflow]:
    environment = {
        **environment_of(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "dags"),
        "AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL": str(poll_seconds),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = StandaloneAirflow(environment, folder / "standalone", port)
    try:
        running.wait_until_healthy()
        wait_for("the DAG", lambda: running.get("/dags")["dags"] or None, running.output)
        yield running
    finally:
        running.stop()
