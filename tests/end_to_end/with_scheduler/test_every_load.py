"""Every load through a scheduler: two days by backfill, a killed driver and its retry, and a cleared day."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.airflow_command import processes
from tests.end_to_end.mariadb_server import MariaDbServer, is_installed, mariadb_server
from tests.end_to_end.postgresql_server import PostgresqlServer, postgresql_server
from tests.end_to_end.standalone_airflow import StandaloneAirflow
from tests.spark.history_model import Event, after
from tests.spark.sources.debezium.event_writer import envelope

pytestmark = [pytest.mark.live, pytest.mark.slow]

DAG, ONE, TWO = "every_load", "2026-03-01", "2026-03-02"
Rows = dict[int, str]


class Days:
    """The files of both days, and the rows that each table should have of them.

    :param inbox: folder that has one for each day.
    """

    def __init__(self, inbox: Path) -> None:
        self.inbox = inbox
        self.upserted: Rows = {}
        self.joined: dict[int, tuple[str, str | None]] = {}
        self.whole: Rows = {}
        self.days: dict[str, Rows] = {}
        self.events: list[Event] = []
        self.stream: dict[int, int] = {}
        self.appended: list[tuple[int, str]] = []
        self.functions: list[tuple[int, str]] = []

    def arrive(self, day: str, kind: str, rows: Rows, *bad: str) -> None:
        """Write a file of rows."""
        lines = [*(json.dumps({"id": id_, "name": name, "day": day}) for id_, name in rows.items()), *bad]
        self._write(day, kind, lines)

    def _write(self, day: str, kind: str, lines: list[str]) -> None:
        folder = self.inbox / day
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{kind}.jsonl").write_text("\n".join(lines))

    def arrive_all(
        self, day: str, changes: Rows, whole: Rows, of_day: Rows, stream: list[tuple[str, int, int]]
    ) -> None:
        """Let everything of a day arrive: two events and one that cannot be read, too."""
        number = len(self.appended)
        events = {number + 1: f"{day} a", number + 2: f"{day} b"}
        self.arrive(day, "events", events, f"no record of {day}")
        self.appended += [*events.items(), (-int(day[-2:]), f"no record of {day}")]
        self.arrive(day, "whole", whole)
        self.whole = whole
        self.functions += [(1, day), (2, day)]
        at = 100 * len(self.functions)
        self._write(day, "stream", [json.dumps(_event(at + place, *each)) for place, each in enumerate(stream)])
        for op, id_, n in stream:
            self.stream.update({id_: n})
            if op == "d":
                del self.stream[id_]
        self.arrive_again(day, changes, of_day)

    def arrive_again(self, day: str, changes: Rows, of_day: Rows) -> None:
        """Let what may be corrected arrive."""
        self.arrive(day, "changes", changes)
        self.arrive(day, "days", of_day)
        self.upserted |= changes
        self.joined |= {id_: (name, self.whole.get(id_)) for id_, name in changes.items()}
        self.days[day] = of_day
        self.events += [Event(id_, int(day[-2:]), len(self.events), name) for id_, name in changes.items()]

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table."""
        versions: list[Any] = []
        for event in self.events:
            versions = after(versions, [event])
        return {
            "append": sorted(self.appended),
            "upsert": sorted(self.upserted.items()),
            "overwrite": sorted((day, *row) for day, rows in self.days.items() for row in rows.items()),
            "complete": sorted(self.whole.items()),
            "history": [(each.key, _day(each.since), _day(each.until), each.city) for each in versions],
            "function": sorted(self.functions),
            "debezium": sorted(self.stream.items()),
            "followed": sorted(self.upserted.items()),
            "copied": sorted(self.upserted.items()),
            "joined": sorted((id_, *values) for id_, values in self.joined.items()),
        }


def _day(number: int | None) -> str | None:
    return None if number is None else f"{ONE[:-2]}{number:02}"


def _event(at: int, op: str, id_: int, n: int) -> Any:
    return envelope(op, {"id": id_, "n": n, "note": None}, [str(at - 1), str(at)])


COLUMNS: dict[str, tuple[str, ...]] = {
    "overwrite": ("day", "id", "name"),
    "history": ("id", "valid_from", "valid_to", "name"),
    "function": ("id", "day"),
    "debezium": ("id", "n"),
    "joined": ("id", "name", "whole"),
    "jdbc": ("id", "name"),
    "mariadb": ("id", "name", "total"),
    **dict.fromkeys(("append", "upsert", "complete", "followed", "copied"), ("id", "name")),
}


def table_of(catalog: Catalog, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, as PyIceberg reads them."""
    rows = catalog.load_table(f"every.{name}").scan().to_arrow().to_pylist()
    return sorted(tuple(map(_plain, (row[column] for column in COLUMNS[name]))) for row in rows)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def snapshots(catalog: Catalog) -> dict[str, int | None]:
    """Return the snapshot that each table is at."""
    names = [name for _, name in catalog.list_tables("every") if name in COLUMNS]
    return {name: catalog.load_table(f"every.{name}").metadata.current_snapshot_id for name in names}


@contextmanager
def killed_once(airflow: StandaloneAirflow, application: str, phase: str) -> Iterator[list[int]]:
    """Kill a driver while some of its tasks are done, and lend the processes that were killed.

    :param application: name of the Spark application.
    :param phase: at whose beginning.
    """
    killed: list[int] = []
    logs = airflow.home / "logs" / f"dag_id={DAG}"
    earlier = set(logs.rglob("*.log"))
    stopped = threading.Event()

    def watch() -> None:
        while not killed and not stopped.wait(0.1):
            if any(f": {phase} ..." in log.read_text() for log in set(logs.rglob("*.log")) - earlier):
                killed.extend(processes(f"--name {application}"))
                for process in killed:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield killed
    finally:
        stopped.set()
        watching.join()


def _connect(airflow: StandaloneAirflow, conn_id: str, kind: str, schema: str, to: Any) -> None:
    body = {"connection_id": conn_id, "conn_type": kind, "host": "127.0.0.1", "port": to.port, "schema": schema}
    answer = airflow.send("POST", "/connections", {**body, "login": to.user, "password": to.password})
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
def server(airflow: StandaloneAirflow) -> Iterator[PostgresqlServer]:
    """A database, and Airflow's connection to it."""
    with postgresql_server() as running:
        _connect(airflow, "pg_every_load", "postgres", "postgres", running)
        yield running


@pytest.fixture
def mariadb(airflow: StandaloneAirflow) -> Iterator[MariaDbServer | None]:
    """A server whose load the DAG has where one can be started."""
    if not is_installed():
        yield None
        return
    with mariadb_server() as running:
        _connect(airflow, "my_every_load", "mysql", "shop", running)
        yield running


def orders_of(server: MariaDbServer | None) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the table is to have, by its name; nothing without a server."""
    orders = () if server is None else server.run("SELECT id, name, total FROM orders ORDER BY id")
    return {"mariadb": [(int(id_), name, Decimal(total)) for id_, name, total in orders]} if server else {}


@pytest.fixture
def database(server: PostgresqlServer) -> Iterator[Any]:
    login = {"user": server.user, "password": server.password}
    with closing(psycopg2.connect(host="127.0.0.1", port=server.port, dbname="postgres", **login)) as connection:
        connection.autocommit = True
        yield connection.cursor()


def test_every_load_equals_plain_python_by_backfill_after_a_killed_driver_and_when_cleared(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path, database: Any, mariadb: MariaDbServer | None
) -> None:
    def equals() -> None:
        database.execute("SELECT id, name FROM orders ORDER BY id")
        expected = {**days.tables(), "jdbc": database.fetchall(), **orders_of(mariadb)}
        assert {name: table_of(catalog, name) for name in expected} == expected

    days = Days(lake_home / "inbox" / DAG)
    catalog.create_namespace_if_not_exists("every")
    database.execute("CREATE TABLE orders (id BIGINT, name TEXT, changed BIGINT)")
    database.execute("INSERT INTO orders VALUES (1, 'a', 1), (2, 'a', 2)")
    if mariadb:
        columns = "id INT UNSIGNED PRIMARY KEY, name VARCHAR(9), total DECIMAL(9,2), changed DATETIME"
        mariadb.run(f"CREATE TABLE orders ({columns})")
        mariadb.run("INSERT INTO orders VALUES (1, 'a', 0.10, NOW()), (4294967295, 'ä', 9999999.99, NOW())")
    whole = {1: "a", 2: "a", 3: "a"}
    days.arrive_all(ONE, whole, whole, {1: "a", 2: "a"}, [("c", 1, 1), ("c", 2, 2)])
    airflow.unpause(DAG)
    airflow.backfill(DAG, ONE, ONE)
    equals()

    database.execute("UPDATE orders SET name = 'b', changed = 3 WHERE id = 2")
    database.execute("INSERT INTO orders VALUES (3, 'b', 4)")
    if mariadb:
        mariadb.run("UPDATE orders SET name = 'b', changed = changed + INTERVAL 1 SECOND WHERE id = 1")
        mariadb.run("INSERT INTO orders VALUES (2, '', -1.5, NOW() + INTERVAL 2 SECOND)")
    stream = [("u", 2, 3), ("d", 1, 1), ("c", 3, 3)]
    days.arrive_all(TWO, {2: "b", 4: "b"}, {1: "b", 2: "a", 4: "b"}, {3: "b"}, stream)
    # Only the load of the whole table compares; what stands before it is committed then.
    with killed_once(airflow, "every first load", "compare") as killed:
        airflow.backfill(DAG, TWO, TWO)
    assert killed
    (run,) = (run["dag_run_id"] for run in airflow.runs(DAG) if run["partition_key"] == TWO)
    tries = airflow.get(f"/dags/{DAG}/dagRuns/{run}/taskInstances/first.run")["try_number"]
    outcomes = [report["outcome"] for report in airflow.returned(DAG, run, "first.run")]
    done = 4 if mariadb else 3
    assert (tries, outcomes[:done], set(outcomes[done:])) == (2, ["already-applied"] * done, {"applied"})
    equals()

    before = snapshots(catalog)
    days.arrive_again(ONE, {1: "c", 2: "c", 3: "a"}, {2: "c"})
    (run,) = (run["dag_run_id"] for run in airflow.runs(DAG) if run["partition_key"] == ONE)
    for task in ("first.run", "first.verdict", "second.run", "second.verdict"):
        airflow.clear(DAG, run, task)
    airflow.wait_for_success(DAG, run)
    equals()
    # Of the others nothing is new; the whole of the first day is older than that of the second.
    unchanged = {name for name, snapshot in snapshots(catalog).items() if snapshot == before[name]}
    assert unchanged == {"append", "complete", "function", "debezium", "jdbc", *orders_of(mariadb)}
