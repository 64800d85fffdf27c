"""A real triggerer with two catalogs: one falls silent, and the other one's watchers keep their pace.

    scripts/soak two-catalogs --seed 1

200 tables lie in a catalog on PostgreSQL, five in a REST catalog that answers nothing until it is healed. Commits
come at random moments; events are read from Airflow's database.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.watched_lake import WatchedLake, watched_lake
from tests.benchmarks.watching_triggerer import WatchingTriggerer, watching_triggerer
from tests.unit.hostile_server import HostileServer, serving

SILENT_TABLES = 5
SETTINGS = {"watch_look_timeout": "4"}


def main() -> int:
    """Print the slowest event of each catalog; 1 where one is later than an interval and a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=90, help="time in which the one catalog is silent")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lake_watch_") as folder,
        watched_lake(Path(folder), options.watchers) as lake,
    ):
        metadata = json.loads(lake.catalog.load_table(lake.tables[0]).metadata.model_dump_json())
        with serving(metadata, config="silent") as silent:
            connection = {"conn_type": "iceberg", "host": silent.uri, "extra": {"type": "rest"}}
            beside = {"AIRFLOW_CONN_SILENT": json.dumps(connection), "LAKE_BENCH_SILENT": str(SILENT_TABLES)}
            home = Path(folder) / "airflow"
            with watching_triggerer(lake, home, "ours", options.interval, SETTINGS, beside) as triggerer:
                triggerer.wait_for_events(options.watchers)
                healthy = _slowest(lake, triggerer, random.Random(options.seed), options.seconds)
                recovered = _recovery(triggerer, silent)
    latest = options.interval + 1
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    print(
        f"{version}, {options.watchers} watchers, interval {options.interval:g} s: slowest event {healthy:.2f} s after "
        f"its commit beside a silent catalog, which has all its events {recovered:.2f} s after it answers",
        flush=True,
    )
    return int(healthy > latest or recovered > latest)


def _slowest(lake: WatchedLake, triggerer: WatchingTriggerer, draw: random.Random, seconds: float) -> float:
    """Commit once a second to a table that was not committed to, and return the longest time until an event."""
    # Where many watchers begin at once, the first looks of all are late.
    time.sleep(20)
    tables = draw.sample(lake.tables, min(len(lake.tables), int(seconds)))
    for table in tables:
        begin = time.monotonic()
        lake.commit(table)
        time.sleep(max(0.0, draw.uniform(0.5, 1.5) - (time.monotonic() - begin)))
    time.sleep(15)
    at = {event.snapshot: event.at for event in triggerer.events()}
    commits = {snapshot: moment for table in tables for snapshot, moment in lake.commits[table].items()}
    assert commits.keys() <= at.keys(), f"{len(commits.keys() - at.keys())} commits have no event"
    return max(at[snapshot] - moment for snapshot, moment in commits.items())


def _recovery(triggerer: WatchingTriggerer, silent: HostileServer) -> float:
    """Let new requests be answered, those that hang stay so, and return the time until each table has an event."""
    assert not [event for event in triggerer.events() if event.table.startswith("silent.")]
    silent.modes.clear()
    begin = time.time()
    while len(found := [event for event in triggerer.events() if event.table.startswith("silent.")]) < SILENT_TABLES:
        assert time.time() - begin < 60, f"{len(found)} of {SILENT_TABLES} tables"
        time.sleep(0.2)
    return max(event.at for event in found) - begin


if __name__ == "__main__":
    raise SystemExit(main())
