"""Cost of watching many tables in one triggerer, and what a catalog that hangs costs their events.

A real ``airflow triggerer`` watches tables of a catalog on PostgreSQL, behind a proxy that can stop passing bytes on.
PyIceberg commits to the tables directly, also while the triggerer's catalog hangs. Events are read from Airflow's
database.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.watched_lake import WatchedLake, watched_lake
from tests.benchmarks.watching_triggerer import ALARM, DAGS, StoredEvent, WatchingTriggerer, watching_triggerer

_PARSE = """
import sys, time
from airflow.dag_processing.dagbag import DagBag
import airflow.sdk
begin = time.perf_counter()
bag = DagBag(sys.argv[1], safe_mode=False, collect_dags=False)
bag.process_file(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True)
class Plan:
    """Measurement of one side.

    :param interval: seconds between two looks at a table.
    :param seconds: of the measured time, with ``commits`` in it at random moments.
    :param hang: seconds in which the catalog hangs; 0 leaves it out.
    :param rest: seconds before the measured time, in which watermarks are written.
    """

    tables: int
    interval: float
    seconds: float
    commits: int
    hang: float
    hang_commits: int
    look_timeout: float
    rest: float = 40.0
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """Findings of one side.

    :param core_share: CPU seconds of the triggerer's processes per second.
    :param lags: seconds from each commit to its event, beyond the interval.
    :param connections: to the catalog, the most at one time.
    :param start_seconds: until each table had its first event.
    :param unseen: commits of the measured time that have no event, long after the interval.
    """

    core_share: float
    lags: list[float]
    connections: int
    start_seconds: float
    unseen: int = 0
    lost: int = 0
    repeated: int = 0
    alarms: int = 0


def measure(lake: WatchedLake, folder: Path, trigger: str, plan: Plan) -> Measured:
    """Watch a lake, commit to it, and let its catalog hang.

    :param trigger: ``ours`` or ``official``.
    """
    settings = {"watch_look_timeout": str(plan.look_timeout)}
    lake.commits.clear()
    with watching_triggerer(lake, folder, trigger, plan.interval, settings) as triggerer:
        begin = time.monotonic()
        triggerer.wait_for_events(plan.tables)
        started = time.monotonic() - begin
        time.sleep(plan.rest)
        triggerer.proxy.most_open = triggerer.proxy.open
        share = _core_share(lake, triggerer, plan)
        wait_for_heads(lake, triggerer, plan)
        lags = _lags(lake, triggerer.events(), plan.interval)
        unseen, _ = account(lake, triggerer.events())
        measured = Measured(share, lags, triggerer.proxy.most_open, started, unseen)
        return hang(lake, triggerer, plan, measured) if plan.hang else measured


def _core_share(lake: WatchedLake, triggerer: WatchingTriggerer, plan: Plan) -> float:
    moments = random.Random(plan.seed)
    at = sorted(moments.uniform(0, plan.seconds) for _ in range(plan.commits))
    begin, before = time.monotonic(), triggerer.cpu_seconds()
    for moment in at:
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        lake.commit(moments.choice(lake.tables))
    time.sleep(max(0.0, begin + plan.seconds - time.monotonic()))
    return (triggerer.cpu_seconds() - before) / (time.monotonic() - begin)


def hang(lake: WatchedLake, triggerer: WatchingTriggerer, plan: Plan, measured: Measured) -> Measured:
    """Let the catalog hang while tables are committed to, and count what is lost, repeated and said."""
    moments = random.Random(plan.seed + 1)
    triggerer.proxy.freeze()
    end = time.monotonic() + plan.hang
    for _ in range(plan.hang_commits):
        lake.commit(moments.choice(lake.tables))
        time.sleep(max(0.0, min(plan.hang / plan.hang_commits, end - time.monotonic())))
    time.sleep(max(0.0, end - time.monotonic()))
    alarms = triggerer.command.output.count(ALARM)
    triggerer.proxy.thaw()
    wait_for_heads(lake, triggerer, plan)
    lost, repeated = account(lake, triggerer.events())
    return replace(measured, lost=lost, repeated=repeated, alarms=alarms, connections=triggerer.proxy.most_open)


def wait_for_heads(lake: WatchedLake, triggerer: WatchingTriggerer, plan: Plan) -> None:
    """Wait until the newest commit of each table has an event, or for so long that it never will."""
    deadline = time.monotonic() + 3 * plan.interval + 30
    wanted = {table: list(snapshots)[-1] for table, snapshots in lake.commits.items()}
    while time.monotonic() < deadline:
        newest = {event.table: event.snapshot for event in triggerer.events()}
        if all(newest[table] == snapshot for table, snapshot in wanted.items()):
            return
        time.sleep(1)


def _lags(lake: WatchedLake, events: list[StoredEvent], interval: float) -> list[float]:
    """Return the lag of every commit that has an event of its own; a later one of the interval takes its place."""
    commits = {snapshot: at for snapshots in lake.commits.values() for snapshot, at in snapshots.items()}
    return [event.at - commits[event.snapshot] - interval for event in events if event.snapshot in commits]


def account(lake: WatchedLake, events: list[StoredEvent]) -> tuple[int, int]:
    """Return commits that no event covers, and events that were there before."""
    lost = repeated = 0
    for table, snapshots in lake.commits.items():
        chain = [event for event in events if event.table == table]
        repeated += len(chain) - len({event.snapshot for event in chain})
        order = [chain[0].snapshot, *snapshots]
        covered = {chain[0].snapshot}
        for event in chain[1:]:
            if event.previous in order and event.snapshot in order:
                covered |= set(order[order.index(event.previous) + 1 : order.index(event.snapshot) + 1])
        lost += len(set(order) - covered)
    return lost, repeated


def parse_seconds(tables: int, rounds: int) -> float:
    """Return the seconds that Airflow needs to import a DAG file with that many watched assets, in the median."""
    environment = {
        **os.environ,
        "LAKE_BENCH_TABLES": str(tables),
        "LAKE_BENCH_INTERVAL": "30",
        "LAKE_BENCH_TRIGGER": "ours",
    }
    command = [sys.executable, "-c", _PARSE, str(DAGS / "watched_tables.py")]
    seconds = []
    for _ in range(rounds):
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
        seconds.append(float(done.stdout.split()[-1]))
    return statistics.median(seconds)


def run(plan: Plan, official: bool, rounds: int) -> dict[str, float]:
    """Measure both sides and the parsing of DAG files, and return the ratios."""
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch, watched_lake(Path(scratch), plan.tables) as lake:
        ours = measure(lake, Path(scratch, "ours"), "ours", plan)
        _tell("ours", ours)
        ratios |= {
            "trigger_core_share": round(ours.core_share, 3),
            "event_lag_seconds_over_poll": round(max(ours.lags), 2),
            "connections": ours.connections,
            "unseen_commits": ours.unseen,
            "lost_commits": ours.lost,
            "repeated_events": ours.repeated,
            "alarms_in_the_hang": ours.alarms,
        }
        if official:
            theirs = measure(lake, Path(scratch, "official"), "official", replace(plan, hang=0))
            _tell("official", theirs)
            ratios |= {
                "official_trigger_core_share": round(theirs.core_share, 3),
                "official_event_lag_seconds_over_poll": round(max(theirs.lags), 2),
                "official_connections": theirs.connections,
                "official_unseen_commits": theirs.unseen,
            }
    many, none = parse_seconds(1000, rounds), parse_seconds(0, rounds)
    print(f"parsing 1000 watched assets: {many:.2f} s, none: {none:.2f} s")
    return {**ratios, "parse_seconds_1000_assets_over_none": round(many - none, 3)}


def _tell(side: str, found: Measured) -> None:
    print(
        f"{side}: {found.core_share:.3f} of a core, {found.connections} connections, first events within "
        f"{found.start_seconds:.0f} s; lag over the interval: median {statistics.median(found.lags):.2f} s, worst "
        f"{max(found.lags):.2f} s of {len(found.lags)}, {found.unseen} commits unseen; in the hang: {found.lost} "
        f"commits lost, {found.repeated} events repeated, {found.alarms} alarms",
        flush=True,
    )


QUICK = Plan(tables=20, interval=2, seconds=10, commits=6, hang=8, hang_commits=6, look_timeout=2, rest=8)


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between two looks at a table")
    parser.add_argument("--seconds", type=float, default=180.0, help="of the measured time")
    parser.add_argument("--commits", type=int, default=90, help="in the measured time")
    parser.add_argument("--hang", type=float, default=60.0, help="seconds in which the catalog hangs")
    parser.add_argument("--rounds", type=int, default=5, help="of parsing")
    parser.add_argument("--without-official", action="store_true", help="leave Airflow's own trigger out")
    parser.add_argument("--quick", action="store_true", help="20 tables, for a minute: a test of the benchmark")
    options = parser.parse_args()
    plan = QUICK
    if not options.quick:
        plan = Plan(options.tables, options.interval, options.seconds, options.commits, options.hang, 60, 30.0)
    ratios = run(plan, official=not options.without_official, rounds=1 if options.quick else options.rounds)
    command = f"scripts/bench watch {' '.join(sys.argv[1:])}".strip()
    print(json.dumps({"benchmark": "watch", "command": command, "ratios": ratios}))


if __name__ == "__main__":
    main()
