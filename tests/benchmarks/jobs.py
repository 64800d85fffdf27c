"""Twenty small upserts in one application, against twenty operators and against twenty bare applications.

Each is a run in a real scheduler with two cores, of 1,000 rows into a table of 2,000; half of the keys are there. An
archive of classes is made before. The bare applications are scripts with one ``MERGE``, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.submission.spark_installation import launch_environment, spark_submit_binary
from tests.benchmarks.job_dags.jobs import SIDES, TABLES
from tests.end_to_end.lake_environment import environment_of
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for

_ROWS = 1_000
# As a user writes it on one machine: with Spark's 200 partitions it would lose seconds.
_MERGE = """
import sys
from pyspark.sql import SparkSession
table, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
spark.read.schema("id BIGINT, name STRING, n INT").json(folder).createOrReplaceTempView("batch")
spark.sql(
    f"MERGE INTO {table} t USING batch b ON t.id = b.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
spark.stop()
"""


def main() -> None:
    """Print a line for each side and the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder))
    text = json.dumps(results)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def measure(home: Path) -> dict[str, Any]:
    """Build the tables, run each side once, and compare the tables."""
    (home / "warehouse").mkdir()
    environment = {
        **environment_of(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "job_dags"),
        "AIRFLOW__LAKE__CLASS_ARCHIVE": str(home / "classes"),
    }
    subprocess.run(["airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
    subprocess.run(["airflow", "lake", "warm-up"], env=environment, check=True, capture_output=True)
    arrive(home, 0)
    airflow = StandaloneAirflow(environment, home / "standalone", _free_port())
    seconds, megabytes = {}, {}
    try:
        airflow.wait_until_healthy()
        wait_for("the DAGs", lambda: airflow.get("/dags")["total_entries"] == DAGS or None, airflow.output)
        _run(airflow, "build")
        arrive(home, _ROWS // 2)
        for side in SIDES[:-1]:
            seconds[side], megabytes[side] = _run(airflow, side)
            print(f"{side}: {seconds[side]:.1f} s, drivers {megabytes[side]:.0f} MB, load {os.getloadavg()[0]:.1f}")
    finally:
        airflow.stop()
    seconds["bare"] = bare(home, environment)
    print(f"bare: {seconds['bare']:.1f} s")
    check(home)
    ratios = {
        "jobs_20_vs_tasks": seconds["operators"] / seconds["application"],
        "jobs_20_vs_tasks_by_two": seconds["operators_by_two"] / seconds["application_by_two"],
        "jobs_20_vs_applications": seconds["bare"] / seconds["application"],
    }
    return {
        "ratios": {name: round(value, 2) for name, value in ratios.items()},
        "seconds": {side: round(value, 1) for side, value in seconds.items()},
        "driver_megabytes": {side: round(value) for side, value in megabytes.items()},
    }


# One for each side but the last, which needs none, and one that builds the tables.
DAGS = len(SIDES)


def arrive(home: Path, first: int) -> None:
    """Let a file of rows arrive for each table."""
    for side in SIDES:
        for number in range(TABLES):
            folder = home / "inbox" / f"{side}_{number:02d}"
            folder.mkdir(parents=True, exist_ok=True)
            rows = [{"id": each, "name": f"row {each} of {first}", "n": first} for each in range(first, first + _ROWS)]
            (folder / f"{first}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def bare(home: Path, environment: Mapping[str, str]) -> float:
    """Run a script with one MERGE for each table, and return the seconds of all."""
    script, settings = home / "merge.py", home / "bare.properties"
    script.write_text(_MERGE)
    extra = json.loads(environment["AIRFLOW_CONN_LAKE_DEFAULT"])["extra"]
    connection = CatalogConnection.from_fields(conn_id="lake_default", extra=extra)
    lines = {"spark.log.level": "WARN", **connection.spark_settings()}
    settings.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    jars = ",".join(map(str, sorted(Path(environment["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar"))))
    command = [str(spark_submit_binary()), "--master", "local[2]", "--jars", jars]
    command += ["--properties-file", str(settings), str(script)]
    started = time.monotonic()
    for number in range(TABLES):
        name = f"bare_{number:02d}"
        done = subprocess.run(
            [*command, f"lake_default.bench.{name}", str(home / "inbox" / name / f"{_ROWS // 2}.jsonl")],
            env={**environment, **launch_environment("local[2]", environment=environment)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr[-4000:])
    return time.monotonic() - started


def check(home: Path) -> None:
    """End the benchmark where a table is not what the two files make of it."""
    half = _ROWS // 2
    expected = {each: 0 if each < half else half for each in range(_ROWS + half)}
    catalog = load_catalog("lake_default", type="sql", uri=f"sqlite:///{home}/catalog.db")
    for side in SIDES:
        for number in range(TABLES):
            table = catalog.load_table(f"bench.{side}_{number:02d}")
            rows = table.scan(selected_fields=("id", "n")).to_arrow().to_pylist()
            if {row["id"]: row["n"] for row in rows} != expected or len(rows) != len(expected):
                raise SystemExit(f"{table.name()} has not the rows that it should have")


def _run(airflow: StandaloneAirflow, dag: str) -> tuple[float, float]:
    """Run a DAG; return its seconds, and the most megabytes that its drivers had together."""
    airflow.unpause(dag)
    run = airflow.trigger(dag, {}).json()["dag_run_id"]
    most = 0.0

    def ended() -> dict[str, Any] | None:
        nonlocal most
        most = max(most, sum(_resident(process) for process in airflow.processes()))
        current = airflow.get(f"/dags/{dag}/dagRuns/{run}")
        return current if current["state"] in ("success", "failed") else None

    finished = wait_for(f"the end of {dag}", ended, airflow.output)
    if finished["state"] != "success":
        raise SystemExit(airflow.task_logs(dag, run)[-6000:])
    start, end = (datetime.fromisoformat(finished[name]) for name in ("start_date", "end_date"))
    return (end - start).total_seconds(), most


def _resident(process: psutil.Process) -> float:
    try:
        return process.memory_info().rss / 1e6 if process.name() == "java" else 0.0
    except psutil.NoSuchProcess:
        return 0.0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
