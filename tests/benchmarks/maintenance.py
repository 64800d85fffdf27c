"""Seconds in which the health of 1,000 tables is known, by catalog, and whether ill tables are found.

Tables are metadata alone (``tests/made_tables.py``): 20 files, 5 snapshots and 3 manifests each, of six kinds. 100 are
ill in ten ways. Each measurement is a new process that has imported Airflow and this package. It calls
``table_health`` twice: the first call imports PyIceberg and PyArrow and opens the catalog, the second does so no more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.table import Table

from tests.made_tables import ILL, copied, register, well_table

REPOSITORY = Path(__file__).parents[2]
CATALOG = "lake_bench"
OF_EACH_ILLNESS, KINDS = 10, 6
ANSWER_SECONDS = 0.02


def make_lake(folder: Path, tables: int) -> dict[str, dict[str, str]]:
    """Write tables, and put them into a catalog on SQLite; return locations by namespace and name.

    ``well`` has only well tables, ``mixed`` as many with the ill ones among them.
    """
    now = datetime.now(UTC)
    well = {f"t{number:04d}": well_table(number).write(folder / f"t{number:04d}", now) for number in range(KINDS)}
    for number in range(KINDS, tables):
        well[f"t{number:04d}"] = copied(well[f"t{number % KINDS:04d}"], f"t{number:04d}")
    ill = {f"{illness}-0": table.write(folder / f"{illness}-0", now) for illness, table in ILL.items()}
    for illness in ILL:
        for number in range(1, OF_EACH_ILLNESS * tables // 1000):
            ill[f"{illness}-{number}"] = copied(ill[f"{illness}-0"], f"{illness}-{number}")
    lake = {"well": well, "mixed": {**dict(list(well.items())[: tables - len(ill)]), **ill}}
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    for namespace, locations in lake.items():
        catalog.create_namespace(namespace)
        register(folder / "catalog.db", CATALOG, namespace, locations)
    catalog.close()
    return lake


@contextmanager
def rest_server(lake: Path) -> Iterator[str]:
    """Serve the namespace ``mixed`` from a process of its own; give its address."""
    command = [sys.executable, "-m", "tests.benchmarks.maintenance", "--serve", str(lake)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def serve(lake: Path) -> None:
    """Answer as a REST catalog does, each time after 20 ms."""
    locations = json.loads(lake.read_text())["mixed"]
    listed = {"identifiers": [{"namespace": ["mixed"], "name": name} for name in locations]}
    fixed = {"/v1/config": {"defaults": {}, "overrides": {}}, "/v1/namespaces/mixed/tables": listed}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else the second part of each answer waits for the client's acknowledgement.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            time.sleep(ANSWER_SECONDS)
            path, _, query = self.path.partition("?")
            location = locations.get(path.rpartition("/")[2])
            status = 200
            if path == "/v1/namespaces":
                text = json.dumps({"namespaces": [] if "parent" in query else [["mixed"]]}).encode()
            elif path in fixed:
                text = json.dumps(fixed[path]).encode()
            elif location is None:
                # A lake without a history of its maintenance.
                text, status = json.dumps({"error": {"message": path, "type": "NoSuchTableException"}}).encode(), 404
            else:
                metadata = Path(location.removeprefix("file://")).read_text()
                text = f'{{"metadata-location": "{location}", "metadata": {metadata}, "config": {{}}}}'.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


def measure(pattern: str) -> None:
    """Print the seconds of two calls, CPU seconds of the second, and what it has found."""
    from airflow_lake_provider.hooks.table_health import table_health

    seconds = []
    for _ in range(2):
        started, cpu = time.perf_counter(), time.process_time()
        found = table_health(pattern, lake_conn_id=CATALOG)
        seconds.append(time.perf_counter() - started)
        cpu = time.process_time() - cpu
    by_name = {each.table.partition(".")[2]: [part.name for part in each.findings] for each in found if each.is_suspect}
    errors = [each.error for each in found if each.error]
    print(json.dumps({"seconds": [*seconds, cpu], "tables": len(found), "suspects": by_name, "errors": errors[:3]}))


def run(pattern: str, extra: dict[str, Any], home: Path) -> dict[str, Any]:
    """Measure in a new process."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        f"AIRFLOW_CONN_{CATALOG.upper()}": json.dumps({"conn_type": "iceberg", "extra": extra}),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-m", "tests.benchmarks.maintenance", "--measure", pattern]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"no health of {pattern}:\n{ended.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    if found["errors"]:
        sys.exit(f"tables of {pattern} could not be read: {found['errors']}")
    return found


def judge(found: dict[str, Any]) -> tuple[int, int]:
    """Return how many ill tables are found by what they have, and how many well ones are suspected."""
    suspects: dict[str, list[str]] = found["suspects"]
    ill = {name: parts for name, parts in suspects.items() if name.rpartition("-")[0] in ILL}
    return sum(name.rpartition("-")[0] in parts for name, parts in ill.items()), len(suspects) - len(ill)


def main() -> None:
    """Measure, print a table, and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    if given.measure:
        measure(given.measure)
        return
    with tempfile.TemporaryDirectory() as temporary:
        results = compare(Path(temporary), given.tables, given.rounds)
    print(json.dumps(results))


def compare(folder: Path, tables: int, rounds: int) -> dict[str, Any]:
    """Make the lake, and measure each way to read it."""
    lake = make_lake(folder, tables)
    (folder / "lake.json").write_text(json.dumps(lake))
    sql = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    with rest_server(folder / "lake.json") as uri:
        ways = {
            "health_1000_seconds": ("well.*", sql),
            "health_1000_with_100_suspects_seconds": ("mixed.*", sql),
            "health_1000_rest_seconds": ("mixed.*", {"type": "rest", "uri": uri}),
        }
        runs = {name: [run(pattern, extra, folder) for _ in range(rounds)] for name, (pattern, extra) in ways.items()}
    sheet = Table(title=f"seconds for {tables:,} tables, median of {rounds} processes")
    for heading in ("what", "first call", "second call", "its CPU seconds"):
        sheet.add_column(heading, justify="left" if heading == "what" else "right")
    first, second, cpu = (
        {name: statistics.median(each["seconds"][place] for each in of_way) for name, of_way in runs.items()}
        for place in range(3)
    )
    for name in ways:
        sheet.add_row(name, *(f"{of_way[name]:.2f}" for of_way in (first, second, cpu)))
    Console().print(sheet)
    found, false = judge(runs["health_1000_with_100_suspects_seconds"][0])
    ill = len(lake["mixed"]) - sum(name in lake["well"] for name in lake["mixed"])
    return {
        "benchmark": "maintenance",
        "command": f"scripts/bench maintenance --rounds {rounds}",
        "tables": tables,
        "ill_tables": ill,
        "first_call_seconds": {name: round(value, 2) for name, value in first.items()},
        "cpu_seconds": {name: round(value, 2) for name, value in cpu.items()},
        "ratios": {
            **{name: round(value, 2) for name, value in second.items()},
            "ill_tables_found": round(found / max(1, ill), 3),
            "well_tables_suspected": round(false / max(1, tables - ill), 3),
        },
    }


if __name__ == "__main__":
    main()
