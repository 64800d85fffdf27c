"""The lake page over 1,000 tables: two real runs of maintenance in a real Airflow, and how long its pages take.

Seconds are those of a client on loopback, whole answers by HTTP. A browser's are from the click to the end of loading.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.lake_page import PAGE
from airflow_lake_provider.contracts.table_properties import tag_of
from tests.benchmarks.fleet_tables import make_fleet
from tests.end_to_end.browser import browser_page, find_browser
from tests.end_to_end.lake_environment import quick_environment_of
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.made_tables import register

CONN_ID, DAG_ID = "lake_default", "nightly_fleet"
TABLES, ILL, MAINTAINED, NIGHTS, LOOKS = 1_000, 200, 12, 2, 20
# A table with a consumer that has stopped.
CONSUMED = "fleet.t150"


@contextmanager
def airflow_with_fleet(home: Path, tables: int = TABLES, ill: int = ILL, maintained: int = MAINTAINED) -> Iterator[Any]:
    """Make tables, start Airflow, let it maintain some in each of two runs, and yield it.

    :param home: empty folder.
    :param ill: tables that something is due of.
    :param maintained: of these, those that one run does.
    """
    (home / "warehouse").mkdir()
    with closing(SqlCatalog(CONN_ID, uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")) as lake:
        make_fleet(home, lake, "fleet", ["ill"] * ill + ["well"] * (tables - ill))
        consumed = lake.load_table(CONSUMED)
        consumed.manage_snapshots().create_tag(consumed.snapshots()[0].snapshot_id, tag_of("mart")).commit()
    register(home / "catalog.db", CONN_ID, "fleet", {"gone": "file:///lake/warehouse/gone.metadata.json"})
    environment = {
        **quick_environment_of(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "page_dags"),
        "LAKE_PAGE_MAINTAINED": str(maintained),
    }
    airflow = StandaloneAirflow(environment, home / "standalone", _free_port())
    try:
        airflow.wait_until_healthy()
        wait_for("the DAG", lambda: airflow.get("/dags")["dags"] or None, airflow.output)
        airflow.unpause(DAG_ID)
        for _ in range(NIGHTS):
            run_id = airflow.trigger(DAG_ID, {}).json()["dag_run_id"]
            # It is red: the metadata of a table is gone.
            airflow.wait_for_end(DAG_ID, run_id)
        yield airflow
    finally:
        airflow.stop()


def measure(home: Path, tables: int, ill: int, maintained: int) -> dict[str, Any]:
    """Return the seconds of pages, and the bytes that the runs have left."""
    with airflow_with_fleet(home, tables, ill, maintained) as airflow:
        paths = {"all_tables": f"{PAGE}/", "one_table": f"{PAGE}/table?conn={CONN_ID}&table={CONSUMED}"}
        with httpx.Client(base_url=airflow.url, timeout=60) as client:
            seconds = {name: sorted(_seconds(client, path) for _ in range(LOOKS)) for name, path in paths.items()}
            html = client.get(paths["all_tables"]).text
        return {
            "tables": tables,
            "rows_shown": html.count('<th scope="row">'),
            "html_kib": round(len(html.encode()) / 1024),
            "seconds": {name: round(median(each), 4) for name, each in seconds.items()},
            "slowest_seconds": {name: round(each[-1], 4) for name, each in seconds.items()},
            "browser_seconds": _browser_seconds(airflow.url, paths["all_tables"], home),
            "xcom_mib": round(_xcom_bytes(airflow.home) / 1024**2, 2),
        }


def _seconds(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    answer = client.get(path)
    took = time.perf_counter() - started
    assert answer.status_code == 200, answer.text[:2000]
    return took


def _browser_seconds(url: str, path: str, home: Path) -> float | None:
    browser = find_browser()
    if browser is None:
        return None
    with browser_page(browser, home / "profile") as page:
        page.goto(f"{url}{path}")
        loads = []
        for _ in range(5):
            page.reload()
            loads.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    return round(timedelta(milliseconds=median(loads)).total_seconds(), 3)


def _xcom_bytes(home: Path) -> int:
    import sqlite3

    with closing(sqlite3.connect(home / "airflow.db")) as database:
        (size,) = database.execute(
            "select sum(length(value)) from xcom where key like 'lake\\_%' escape '\\'"
        ).fetchone()
    return int(size)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    """Measure, and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--ill", type=int, default=ILL)
    parser.add_argument("--maintained", type=int, default=MAINTAINED)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), given.tables, given.ill, given.maintained)))


if __name__ == "__main__":
    os.environ.setdefault("LAKE_HOME", str(Path(__file__).parents[2] / ".lake"))
    main()
