"""Seconds that the DAG processor spends on files of ours, beside a file of Airflow alone and one that submits to Spark.

The processor parses each file in a process of its own that has Airflow loaded, so each measurement is a new interpreter
that has imported Airflow before the clock starts. The ten lines are those of the README.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.ten_lines import ten_lines

REPOSITORY = Path(__file__).parents[2]

BARE = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
with DAG("bare"):
    EmptyOperator(task_id="empty")
"""
SPARK_SUBMIT = """
from airflow.sdk import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
with DAG("submit"):
    SparkSubmitOperator(task_id="submit", application="job.py")
"""
MEASURE = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[2], collect_dags=False)
started = time.perf_counter()
bag.process_file(sys.argv[1])
seconds = time.perf_counter() - started
assert bag.dags and not bag.import_errors, bag.import_errors
print(json.dumps(seconds))
"""


def seconds_to_parse(file: Path, home: Path) -> float:
    """Parse a file in a new interpreter, and return its seconds."""
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(file), str(home)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        sys.exit(f"{file} could not be parsed:\n{run.stderr[-3000:]}")
    return float(json.loads(run.stdout.splitlines()[-1]))


def measure(rounds: int, home: Path) -> dict[str, list[float]]:
    """Return the seconds of every file by round; round 0 warms the file cache and is not counted."""
    files = {}
    for name, code in {"Airflow alone": BARE, "SparkSubmitOperator": SPARK_SUBMIT, "ten lines": ten_lines()}.items():
        files[name] = home / f"{name.replace(' ', '_')}.py"
        files[name].write_text(code)
    files |= {f"dags/{file.name}": file for file in sorted((REPOSITORY / "dags").glob("*.py"))}
    seconds: dict[str, list[float]] = {name: [] for name in files}
    for number in range(rounds + 1):
        for name, file in files.items():
            took = seconds_to_parse(file, home)
            if number:
                seconds[name].append(took)
    return seconds


def main() -> None:
    """Measure, print a table, and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        seconds = measure(rounds, Path(home))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    sheet = Table(title=f"seconds to parse a file, {rounds} rounds")
    for heading in ("file", "median", "least", "most"):
        sheet.add_column(heading, justify="left" if heading == "file" else "right")
    for name, values in seconds.items():
        sheet.add_row(name, *(f"{value:.2f}" for value in (medians[name], min(values), max(values))))
    Console().print(sheet)
    ratios = {
        "parse_seconds_over_airflow_alone": round(medians["ten lines"] - medians["Airflow alone"], 2),
        "parse_seconds_over_spark_submit": round(medians["ten lines"] - medians["SparkSubmitOperator"], 2),
    }
    command = f"scripts/bench dag-parsing --rounds {rounds}"
    print(json.dumps({"benchmark": "dag-parsing", "command": command, "ratios": ratios}))


if __name__ == "__main__":
    main()
