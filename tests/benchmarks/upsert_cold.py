"""Compare cold upserts: whole applications without a warm-up, ours as our operator submits it, the peer a bare MERGE.

Four applications a round: ours, a script with the ``MERGE`` that a user writes (the same raw batch, dedupe included),
and beside each an empty application with the same session. Rounds alternate in order. Round 0 is not counted: in it
our upsert makes the archive of classes that a worker has. After the last round both tables must be equal, and have the
rows that the batches say.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.benchmark_files import frame, keep
from tests.benchmarks.cold_sides import CATALOG, DRIVER_MEMORY, ColdSides
from tests.benchmarks.cold_sizes import ColdSize
from tests.benchmarks.cold_tables import APPLICATION, REPOSITORY, ColdCheck, ColdTables
from tests.benchmarks.submitted_lake import SubmittedLake
from tests.benchmarks.upsert_floor import Floor


@dataclass
class ColdSeconds:
    """Seconds of whole applications, by side, one for each counted round."""

    ours: list[float] = field(default_factory=list)
    ours_empty: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    bare_empty: list[float] = field(default_factory=list)

    def add(self, took: Mapping[str, float]) -> None:
        """Add a round."""
        for side, seconds in took.items():
            getattr(self, side).append(seconds)

    def work(self) -> tuple[list[float], list[float]]:
        """Return the seconds of ours and of the peer, each less its empty application of the same round."""
        ours = [whole - empty for whole, empty in zip(self.ours, self.ours_empty, strict=True)]
        bare = [whole - empty for whole, empty in zip(self.bare, self.bare_empty, strict=True)]
        return ours, bare

    def rounds(self) -> list[float]:
        """Return the ratio of each round."""
        return [bare / ours for ours, bare in zip(*self.work(), strict=True)]

    def ratios(self, size: ColdSize, floor: Floor) -> dict[str, float]:
        """Return the peer over ours: their work, whole applications, and ours over the floor."""
        ours, bare = (statistics.median(seconds) for seconds in self.work())
        return {
            size.ratio: bare / ours,
            f"{size.ratio}_whole": statistics.median(self.bare) / statistics.median(self.ours),
            f"{size.ratio}_floor_ratio": ours / floor.seconds,
        }


def cold_results(options: argparse.Namespace) -> dict[str, Any]:
    """Measure whole applications, and return the JSON, which is kept."""
    sizes = ",".join(size.name for size in options.cold_sizes)
    command = f"scripts/bench upsert --cold --cold-sizes {sizes} --rounds {options.rounds}"
    results = {**frame("upsert-cold", command), **measure_cold(options.cold_sizes, options.rounds)}
    keep(results, {})
    return results


def measure_cold(sizes: Sequence[ColdSize], rounds: int) -> dict[str, Any]:
    """Measure each size and return ratios, seconds and floors.

    :param rounds: that are counted.
    """
    ratios: dict[str, float] = {}
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["AIRFLOW__LAKE__CLASS_ARCHIVE"] = str(home / "archives")
        lake = SubmittedLake.at(home / "lake", CATALOG, {"spark.driver.memory": DRIVER_MEMORY})
        for size in sizes:
            tables = _build(lake, size, rounds)
            seconds = play(ColdSides(lake, tables), rounds)
            floor = _checked_floor(lake, tables)
            ratios |= seconds.ratios(size, floor)
            ratios.setdefault("floor_ratio", ratios[f"{size.ratio}_floor_ratio"])
            measured.append(_told(size, seconds, floor, ratios))
    return {"ratios": {name: round(value, 2) for name, value in ratios.items()}, "cold": measured}


def play(sides: ColdSides, rounds: int) -> ColdSeconds:
    """Run the four applications round by round; round 0 is in reverse, so that our upsert makes the archive."""
    counted, run = ColdSeconds(), sides.all()
    for number in range(rounds + 1):
        order = list(run) if number % 2 else list(reversed(run))
        took = {side: run[side](number) for side in order}
        seconds = ", ".join(f"{side} {took[side]:.1f} s" for side in run)
        print(f"round {number}, {sides.tables.rows} rows: {seconds}, load {os.getloadavg()[0]:.1f}", flush=True)
        if not list(Path(os.environ["AIRFLOW__LAKE__CLASS_ARCHIVE"]).glob("*.jsa")):
            raise SystemExit("no archive was made")
        if number:
            counted.add(took)
    return counted


def _build(lake: SubmittedLake, size: ColdSize, rounds: int) -> ColdTables:
    file = lake.home / "tables.json"
    arguments = (str(lake.home), str(size.rows), str(size.batch), str(rounds), str(file))
    took = lake.submit(APPLICATION.format(function="build"), *arguments, PYTHONPATH=str(REPOSITORY))
    print(f"two tables of {size.rows} rows, built in {took:.0f} s", flush=True)
    return ColdTables.of_file(file)


def _checked_floor(lake: SubmittedLake, tables: ColdTables) -> Floor:
    """Return the floor; the benchmark ends where a table is wrong."""
    file = lake.home / "check.json"
    arguments = (str(lake.home), str(lake.home / "tables.json"), str(file))
    lake.submit(APPLICATION.format(function="check"), *arguments, PYTHONPATH=str(REPOSITORY))
    checked = ColdCheck.of_file(file)
    if difference := checked.wrong():
        raise SystemExit(difference)
    print(f"both tables of {tables.rows} rows are equal: {checked.expected_rows} rows now", flush=True)
    return checked.floor


def _told(size: ColdSize, seconds: ColdSeconds, floor: Floor, ratios: Mapping[str, float]) -> dict[str, Any]:
    """Print a size's result, and return what the JSON keeps of it."""
    of_rounds = seconds.rounds()
    spread = f"{min(of_rounds):.2f} to {max(of_rounds):.2f}"
    print(f"{size.ratio}: {ratios[size.ratio]:.2f}, of single rounds {spread}; {floor}", flush=True)
    raw = {side: [round(each, 2) for each in values] for side, values in vars(seconds).items()}
    return {
        "name": size.ratio,
        "rows": size.rows,
        "batch": size.batch,
        "seconds": raw,
        "ratio_of_rounds": [round(each, 2) for each in of_rounds],
        "floor": floor.to_plain(),
    }
