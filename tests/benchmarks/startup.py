"""Measure what an archive of classes saves a small upsert, and what the upsert costs beside an empty Spark application.

Three sides in alternating rounds: an upsert of 1,000 rows by our operator with the archive and without, and an
application that starts a session and stops it, submitted by the same ``spark-submit`` without the archive. Round 0
makes the archive and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_lake_provider import Files
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.benchmarks.submitted_lake import EMPTY, SubmittedLake, task_context

ARCHIVED, PLAIN, NOTHING = "with the archive", "without", "empty application"


def upsert_seconds(folder: Path, number: int, archives: str) -> float:
    """Upsert a batch of the round through the operator.

    :param archives: value of ``[lake] class_archive``.
    """
    os.environ["AIRFLOW__LAKE__CLASS_ARCHIVE"] = archives
    source = folder / f"{number}-{archives == 'off'}.parquet"
    keys = range(number * 100, number * 100 + 1_000)
    pq.write_table(pa.table({"id": list(keys), "n": [number] * len(keys)}), source)
    operator = LakeUpsertOperator(
        task_id="bench", table="bench.small", source=Files(str(source), format="parquet"), keys=["id"]
    )
    started = time.monotonic()
    report = operator.execute(task_context(f"round {number} {archives}"))
    took = time.monotonic() - started
    if report["outcome"] != "applied":
        raise SystemExit(f"nothing was measured: {report}")
    return took


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every counted round by side."""
    seconds: dict[str, list[float]] = {ARCHIVED: [], PLAIN: [], NOTHING: []}
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        lake = SubmittedLake.at(folder / "lake")
        sides: dict[str, Callable[[int], float]] = {
            ARCHIVED: lambda number: upsert_seconds(folder, number, str(folder / "archives")),
            PLAIN: lambda number: upsert_seconds(folder, number, "off"),
            NOTHING: lambda _: lake.submit(EMPTY),
        }
        for number in range(rounds + 1):
            order = list(sides) if number % 2 else list(reversed(sides))
            took = {side: sides[side](number) for side in order}
            load = os.getloadavg()[0]
            print(
                f"round {number}: {', '.join(f'{side} {took[side]:.1f} s' for side in sides)}, load {load:.1f}",
                flush=True,
            )
            if not list((folder / "archives").glob("*.jsa")):
                raise SystemExit("no archive was made")
            for side, value in took.items() if number else ():
                seconds[side].append(value)
    return seconds


def main() -> None:
    """Measure and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    seconds = measure(options.rounds)
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    for side, values in seconds.items():
        print(f"{side}: median {medians[side]:.1f} s, {min(values):.1f} to {max(values):.1f} s")
    pairs = [plain / archived for plain, archived in zip(seconds[PLAIN], seconds[ARCHIVED], strict=True)]
    print(f"without / with, of single rounds: {', '.join(f'{pair:.2f}' for pair in pairs)}")
    ratios = {
        "small_upsert_vs_without_archive": round(medians[PLAIN] / medians[ARCHIVED], 3),
        "small_upsert_vs_empty_application": round(medians[ARCHIVED] / medians[NOTHING], 3),
    }
    print(
        json.dumps(
            {"benchmark": "startup", "command": f"scripts/bench startup --rounds {options.rounds}", "ratios": ratios}
        )
    )


if __name__ == "__main__":
    main()
