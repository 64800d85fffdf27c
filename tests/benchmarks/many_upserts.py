"""A hundred upserts of one table, then its maintenance: delete files and seconds of queries before and after it.

The upserts are tasks of one application, and the maintenance is a run of the fleet over that table alone. A query is
run by a bare application, warm, in the session's median.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from tests.benchmarks.submitted_lake import SubmittedLake, task_context
from tests.run_maintenance import run_maintenance

CONN_ID, UPSERTS, ROWS, BATCH, ROUNDS = "lake_default", 100, 1_000_000, 1_000, 7
POLICY = {"compaction": {"level": "major"}}
_QUERIES = """
import json, sys, time
from statistics import median
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
name, rounds, out = sys.argv[1:]
queries = {
    "sum of a column": f"SELECT sum(n) FROM {name}",
    "rows of a key": f"SELECT * FROM {name} WHERE id = 4711",
    "groups": f"SELECT n % 100, count(*), max(name) FROM {name} GROUP BY 1",
}
seconds = {}
for query, text in queries.items():
    taken = []
    for _ in range(int(rounds) + 2):
        started = time.perf_counter()
        spark.sql(text).collect()
        taken.append(time.perf_counter() - started)
    seconds[query] = round(median(taken[2:]), 3)
with open(out, "w") as file:
    json.dump(seconds, file)
spark.stop()
"""


def measure(home: Path, version: int, upserts: int) -> dict[str, Any]:
    """Upsert, query, maintain and query again; the rows must be those of a loop over the batches."""
    lake = SubmittedLake.at(home / "lake", CONN_ID)
    table = f"shop.orders_v{version}"
    batches = _batches(home / "inbox", upserts)
    tasks = [_upsert(table, path, version) for path in batches]
    seconds = {"upserts": _application(tasks, f"upserts of version {version}")}
    catalog = SqlCatalog(CONN_ID, uri=f"sqlite:///{lake.home}/catalog.db", warehouse=f"file://{lake.home}/warehouse")
    before, slow = _files(catalog, table), _queries(lake, table)
    started = time.monotonic()
    outcomes = run_maintenance(table, "night", plan={"policy": POLICY}, parallelism=1)
    seconds["maintenance"] = time.monotonic() - started
    after, quick = _files(catalog, table), _queries(lake, table)
    _check(catalog, table, batches)
    return {
        "version": version,
        "upserts": upserts,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "outcomes": [f"{each.action}: {each.outcome}" for each in outcomes],
        "before": {**before, "queries": slow},
        "after": {**after, "queries": quick},
        "ratios": {name: round(taken / quick[name], 2) for name, taken in slow.items()},
    }


def _batches(inbox: Path, upserts: int) -> list[Path]:
    """Write the first rows, and batches of keys of which four of five are there."""
    inbox.mkdir(parents=True)
    drawn, paths = np.random.default_rng(1), []
    for number in range(upserts + 1):
        ids = np.arange(ROWS) if number == 0 else drawn.choice(ROWS * 5 // 4, BATCH, replace=False)
        values = ids * 3 + number
        names = [f"name {value % 997}" for value in values]
        paths.append(inbox / f"{number:03d}" / "rows.parquet")
        paths[-1].parent.mkdir()
        pq.write_table(pa.table({"id": ids, "name": names, "n": values}), paths[-1])
    return paths


def _upsert(table: str, path: Path, version: int) -> dict[str, Any]:
    return {
        "action": "upsert",
        "table": table,
        "source": Files(path=str(path), format="parquet", name=f"batch-{path.parent.name}"),
        "keys": ["id"],
        "strategy": "positions",
        "create": {"properties": {"format-version": str(version)}},
    }


def _application(tasks: list[dict[str, Any]], run: str) -> float:
    operator = LakeApplicationOperator(task_id="run", tasks=tasks, parallelism=1)
    started = time.monotonic()
    reports = operator.execute(task_context(run))
    failed = [report for report in reports if report["outcome"] != "applied"]
    if failed:
        sys.exit(f"{len(failed)} upserts did not apply, the first: {failed[0]}")
    return time.monotonic() - started


def _files(catalog: SqlCatalog, name: str) -> dict[str, int]:
    table = catalog.load_table(name)
    summary = table.current_snapshot().summary.additional_properties  # type: ignore[union-attr]  # it has one
    return {
        "data_files": int(summary["total-data-files"]),
        "delete_files": int(summary["total-delete-files"]),
        "snapshots": len(table.snapshots()),
    }


def _queries(lake: SubmittedLake, table: str) -> dict[str, float]:
    out = lake.home / "queries.json"
    lake.submit(_QUERIES, f"{CONN_ID}.{table}", str(ROUNDS), str(out))
    seconds: dict[str, float] = json.loads(out.read_text())
    return seconds


def _check(catalog: SqlCatalog, name: str, batches: list[Path]) -> None:
    expected: dict[int, int] = {}
    for path in batches:
        rows = pq.read_table(path, columns=["id", "n"])
        expected.update(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    rows = catalog.load_table(name).scan(selected_fields=("id", "n")).to_arrow()
    read = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    if rows.num_rows != len(read) or read != expected:
        sys.exit(f"{name} has not the rows of the batches")


def main() -> None:
    """Print the JSON line of both format versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upserts", type=int, default=UPSERTS)
    given = parser.parse_args()
    results = []
    for version in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(Path(folder), version, given.upserts))
        print(json.dumps(results[-1]), f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    ratios = {f"{name}, version {each['version']}": value for each in results for name, value in each["ratios"].items()}
    command = f"scripts/bench many-upserts --upserts {given.upserts}"
    print(json.dumps({"benchmark": "many-upserts", "command": command, "results": results, "ratios": ratios}))


if __name__ == "__main__":
    main()
