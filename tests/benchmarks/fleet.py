"""A fleet of 100 tables, ten of them or all due: ours beside Iceberg's procedures in 100 applications and in one.

Ours is a process that plans, starts Spark where anything is due, and carries the plan out, as the operators do it. A
peer calls the four procedures for each table, as a nightly script does. Of the 100 applications a sample is run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.benchmarks.fleet_tables import FILES, MERGEABLE, ROWS, make_fleet, mergeable_files
from tests.benchmarks.submitted_lake import SubmittedLake

CONN_ID = "lake_default"
TABLES, DUE, SAMPLE = 100, 10, 3
# Options of rewrite_data_files are Iceberg's defaults but for these, which a user of small tables sets.
_OPTIONS = {"max-concurrent-file-group-rewrites": "2", "delete-file-threshold": "1"}
_MAINTAIN = "import sys; from tests.benchmarks.maintained_fleet import maintain; maintain(sys.argv[1])"
_PROCEDURES = """
import sys
from datetime import datetime, timedelta, timezone
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
before = (datetime.now(timezone.utc) - timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
catalog, options, namespace, *names = sys.argv[1:]
for name in names or [row.tableName for row in spark.sql(f"SHOW TABLES IN {catalog}.{namespace}").collect()]:
    table = f"{namespace}.{name}"
    for call in (
        f"expire_snapshots(table => '{table}', older_than => TIMESTAMP '{before}', retain_last => 1)",
        f"rewrite_data_files(table => '{table}', options => map({options}))",
        f"rewrite_position_delete_files(table => '{table}')",
        f"rewrite_manifests('{table}')",
    ):
        spark.sql(f"CALL {catalog}.system.{call}").collect()
spark.stop()
"""


def compare(home: Path, tables: int = TABLES, due: int = DUE) -> dict[str, Any]:
    """Make a lake for each side, run all, and return seconds and ratios."""
    lake = SubmittedLake.at(home / "lake", CONN_ID)
    catalog = SqlCatalog(CONN_ID, uri=f"sqlite:///{lake.home}/catalog.db", warehouse=f"file://{lake.home}/warehouse")
    options = ", ".join(f"'{name}', '{value}'" for name, value in _OPTIONS.items())
    few, all_ill = ["ill"] * due + ["well"] * (tables - due), ["ill"] * tables
    sides = {"ours_few": few, "ours_all": all_ill, "session_few": few, "session_all": all_ill}
    # In its first run a worker makes the archive of classes, and the catalog its history.
    samples = {"submits": ["ill"] * SAMPLE + ["well"] * SAMPLE, "first": ["ill"]}
    for namespace, kinds in {**sides, **samples}.items():
        make_fleet(lake.home, catalog, namespace, kinds)
    first = _ours("first")
    seconds = {side: _ours(side) for side in ("ours_few", "ours_all")}
    seconds |= {side: lake.submit(_PROCEDURES, CONN_ID, options, side) for side in ("session_few", "session_all")}
    each = [lake.submit(_PROCEDURES, CONN_ID, options, "submits", f"t{number:03d}") for number in range(2 * SAMPLE)]
    ill, well = mean(each[:SAMPLE]), mean(each[SAMPLE:])
    seconds |= {"submits_few": due * ill + (tables - due) * well, "submits_all": tables * ill}
    left = {side: _left(catalog, side, kinds) for side, kinds in sides.items()}
    return {
        "tables": tables,
        "due": due,
        "seconds": {side: round(value, 1) for side, value in seconds.items()},
        "seconds_of_a_first_run": round(first, 1),
        "seconds_of_a_submit": {"due": round(ill, 1), "not_due": round(well, 1), "sample_of_each": SAMPLE},
        "snapshots_left": {side: numbers["snapshots"] for side, numbers in left.items()},
        "peer": {"options": _OPTIONS, "master": "local[2]", "procedures": 4},
        "ratios": {
            "fleet_10_due_vs_submits": round(seconds["submits_few"] / seconds["ours_few"], 2),
            "fleet_100_due_vs_submits": round(seconds["submits_all"] / seconds["ours_all"], 2),
            "fleet_10_due_vs_one_session": round(seconds["session_few"] / seconds["ours_few"], 2),
            "fleet_100_due_vs_one_session": round(seconds["session_all"] / seconds["ours_all"], 2),
            "small_files_left": max(left[side]["share"] for side in ("ours_few", "ours_all")),
            "small_files_left_by_procedures": max(left[side]["share"] for side in ("session_few", "session_all")),
        },
    }


def _ours(namespace: str) -> float:
    """Maintain a namespace in a new process, from its start to its end."""
    command = [sys.executable, "-c", _MAINTAIN, namespace]
    started = time.monotonic()
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, check=False)
    took = time.monotonic() - started
    if done.returncode:
        sys.exit(f"{namespace} was not maintained:\n{(done.stdout + done.stderr)[-4000:]}")
    return took


def _left(catalog: SqlCatalog, namespace: str, kinds: Sequence[str]) -> dict[str, Any]:
    """Return the share of mergeable files that is left, and the snapshots of all tables; no row may be missing."""
    files = snapshots = 0
    for number in range(len(kinds)):
        table = catalog.load_table(f"{namespace}.t{number:03d}")
        files += mergeable_files(table)
        snapshots += len(table.snapshots())
        rows = sum(task.file.record_count for task in table.scan().plan_files())
        if rows != FILES * ROWS:
            sys.exit(f"{namespace}.t{number:03d} has {rows} rows, not {FILES * ROWS}")
    return {"share": round(files / (MERGEABLE * kinds.count("ill")), 4), "snapshots": snapshots}


def main() -> None:
    """Compare the sides, and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--due", type=int, default=DUE)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = compare(Path(folder), given.tables, given.due)
    print(json.dumps({"benchmark": "fleet", "command": f"scripts/bench fleet --tables {given.tables}", **results}))


if __name__ == "__main__":
    main()
