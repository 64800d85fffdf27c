"""A triggerer with watchers on a lake, and all that is measured of it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.freezing_proxy import FreezingProxy
from tests.benchmarks.watched_lake import CATALOG, WatchedLake
from tests.end_to_end.airflow_command import AirflowCommand
from tests.end_to_end.lake_environment import environment_of, make_database

DAGS = Path(__file__).parent / "watch_dags"
ALARM = "were not looked at for more than"
_START_SECONDS = 600


@dataclass(frozen=True)
class StoredEvent:
    """An event that Airflow stored.

    :param at: seconds since the epoch.
    :param previous: snapshot that the event begins after.
    """

    table: str
    at: float
    snapshot: int
    previous: int | None


@dataclass
class WatchingTriggerer:
    """A running ``airflow triggerer``."""

    environment: Mapping[str, str]
    proxy: FreezingProxy
    database: Path

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, also again after :meth:`kill`."""
        self.command = AirflowCommand(self.environment, ("triggerer", "--skip-serve-logs"))

    def kill(self) -> None:
        """Kill its processes, without a chance to do anything more."""
        with suppress(ProcessLookupError):
            os.killpg(self.command.process.pid, signal.SIGKILL)
        self.command.process.wait()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of its processes until now."""
        seconds = 0.0
        process = psutil.Process(self.command.process.pid)
        for part in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = part.cpu_times()
                seconds += times.user + times.system
        return seconds

    def events(self) -> list[StoredEvent]:
        """Return the events that Airflow stored, oldest first."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=60)) as database:
            rows = database.execute("SELECT timestamp, extra FROM asset_event ORDER BY id").fetchall()
        return [_stored_event(at, json.loads(extra)["payload"]) for at, extra in rows]

    def wait_for_events(self, tables: int, seconds: float = _START_SECONDS) -> None:
        """Wait until that many tables have an event."""
        deadline = time.monotonic() + seconds
        while (count := len({event.table for event in self.events()})) < tables:
            assert self.command.process.poll() is None, self.command.output[-5000:]
            assert time.monotonic() < deadline, f"{count} of {tables} tables: {self.command.output[-5000:]}"
            time.sleep(1)


def _stored_event(at: str, payload: Mapping[str, Any]) -> StoredEvent:
    moment = datetime.fromisoformat(at)
    previous = payload["previous_snapshot_id"]
    return StoredEvent(
        table=payload["table"],
        at=(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(),
        snapshot=int(payload["snapshot_id"]),
        previous=None if previous is None else int(previous),
    )


@contextmanager
def watching_triggerer(
    lake: WatchedLake,
    folder: Path,
    trigger: str,
    interval: float,
    settings: Mapping[str, str],
    beside: Mapping[str, str] | None = None,
) -> Iterator[WatchingTriggerer]:
    """Run a triggerer that watches all tables of a lake.

    :param folder: made for Airflow's home.
    :param trigger: ``ours``, or ``official`` for that of Airflow's provider.
    :param settings: of section ``[lake]``.
    :param beside: variables of the environment, such as a connection to another catalog.
    """
    folder.mkdir()
    proxy = FreezingProxy(lake.port)
    watched = _environment(lake, folder, proxy.port, trigger, interval, settings)
    environment = {**environment_of(folder), **watched, **(beside or {})}
    make_database(environment)
    subprocess.run(["airflow", "dags", "reserialize"], env=environment, check=True, capture_output=True, timeout=600)
    running = WatchingTriggerer(environment, proxy, folder / "airflow.db")
    try:
        yield running
    finally:
        running.kill()
        proxy.stop()


def _environment(
    lake: WatchedLake, folder: Path, port: int, trigger: str, interval: float, settings: Mapping[str, str]
) -> dict[str, str]:
    address = f"127.0.0.1:{port}/postgres"
    warehouse = lake.catalog.properties["warehouse"]
    ours = {
        "conn_type": "iceberg",
        "host": f"postgresql+psycopg2://{address}",
        "login": lake.user,
        "password": lake.password,
        "extra": {"type": "sql", "warehouse": warehouse, "catalog_name": CATALOG},
    }
    # The official hook names the catalog after the connection, and takes the password in the URI.
    official = {
        "conn_type": "iceberg",
        "host": f"postgresql+psycopg2://{lake.user}:{lake.password}@{address}",
        "extra": {"type": "sql", "warehouse": warehouse},
    }
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
        # A killed triggerer's watchers are taken over after that time.
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(ours),
        "AIRFLOW_CONN_LAKE": json.dumps(official),
        "LAKE_BENCH_TABLES": str(len(lake.tables)),
        "LAKE_BENCH_INTERVAL": str(interval),
        "LAKE_BENCH_TRIGGER": trigger,
        **{f"AIRFLOW__LAKE__{name.upper()}": value for name, value in settings.items()},
    }
