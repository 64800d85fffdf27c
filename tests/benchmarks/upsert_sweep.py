"""Sweep table sizes and shares: where ours is quicker than the best peer, and whether ``auto`` takes our own best way.

Every cell has random keys and starts from the tables' first rows. Its sides take turns: ours (``auto``), plain MERGE,
merge-on-read and copy-on-write, Delta's MERGE, and our own strategies as asked for. Each round has an order of its own,
the same in every run. One round is not counted. Contents are compared at the end of each cell.

Under a budget a side plays no more in a cell when its uncounted round took over twice that of the quickest of its
group, and seconds more: it will not be the best of them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from docs.pictures.drawings import heat_maps, write
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.benchmark_files import folder, frame
from tests.benchmarks.sweep_plan import UNCOUNTED_ROUNDS, Budget, Cell, cells
from tests.benchmarks.sweep_results import OURS, OWN, PEERS, CellResult, SweepFile
from tests.benchmarks.sweep_tables import SweepTables
from tests.benchmarks.upsert_floor import measure_floor
from tests.benchmarks.upsert_tables import Bench, Side

SLOWER_TIMES, SLOWER_SECONDS = 2, 5
WARM_UP_SHARE = 1.0


def sweep_results(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the cells of a sweep, and return the JSON, of which each cell was kept as it was measured."""
    rows, shares = (
        ",".join(f"{number:g}" for number in numbers) for numbers in (options.sweep_rows, options.sweep_shares)
    )
    chosen = f"--sweep-rows {rows} --sweep-shares {shares}"
    limits = f"--rounds {options.rounds} --warm-up {options.warm_up} --budget-minutes {options.budget_minutes:g}"
    begun = frame("upsert-sweep", f"scripts/bench upsert --sweep {chosen} {limits}")
    wanted = cells(options.sweep_rows, options.sweep_shares)
    results = SweepFile(folder() / f"sweep-{begun['date']}.json", begun, wanted)
    if options.resume:
        results.resume(options.resume)
    elif results.path.exists():
        raise SystemExit(f"{results.path} is of an earlier sweep: go on with --resume {results.path}, or move it away")
    budget = Budget(options.budget_minutes, options.rounds)
    with tempfile.TemporaryDirectory() as home:
        spark = open_session(Path(home))
        sweep(spark, Path(home), results, budget, options.warm_up)
        spark.stop()
    print(f"{results.path}: {told(results)}")
    plain = results.to_plain()
    if plain["cells"]:
        write(heat_maps(plain), results.path.parent)
    return plain


def sweep(spark: SparkSession, home: Path, results: SweepFile, budget: Budget, warm_up: int) -> None:
    """Measure the cells that lack, size by size.

    :param warm_up: rounds on the first tables, until the JVM has compiled most of all sides.
    """
    left = results.lacking()
    for rows in sorted({cell.rows for cell in left}):
        of_size = [cell for cell in left if cell.rows == rows]
        # The others of this size cost more.
        if not budget.has_time_for_tables(of_size[0], _sides()):
            continue
        tables = SweepTables.build(spark, home, rows)
        if warm_up:
            _warm(tables, warm_up)
            warm_up = 0
        for cell in of_size:
            rounds = budget.rounds_of(cell, [each for each in left if each > cell], len(tables.applies))
            if rounds:
                started = budget.clock()
                results.add(_measure(tables, cell, rounds, gives_up=bool(budget.minutes)))
                tables.put_back()
                budget.learn(cell, rounds, len(tables.applies), budget.clock() - started)
        tables.drop()


def told(results: SweepFile) -> str:
    """Return in words which cells lack."""
    lacking = results.lacking()
    return f"no cell lacks of {len(results.wanted)}" if not lacking else f"lacking: {', '.join(map(str, lacking))}"


def _sides() -> int:
    return len((OURS, *PEERS, *OWN)) - ("LAKE_DELTA_JARS" not in os.environ)


def _warm(tables: SweepTables, rounds: int) -> None:
    play = CellPlay.of(tables, Cell(tables.bench.rows, WARM_UP_SHARE))
    for number in range(-rounds, 0):
        play.round(number)
    tables.put_back()


def _measure(tables: SweepTables, cell: Cell, rounds: int, *, gives_up: bool) -> CellResult:
    play = CellPlay.of(tables, cell)
    print(f"{cell}: {cell.batch} rows, {rounds} rounds", flush=True)
    for number in range(1 - UNCOUNTED_ROUNDS, rounds + 1):
        play.round(number)
        if gives_up and number == 0:
            play.give_up_slow()
    play.bench.refuse_different(play.sides)
    result = play.result()
    print(f"{cell}: {_summary(result)}", flush=True)
    return result


def _summary(result: CellResult) -> str:
    medians = ", ".join(f"{side} {result.median(side):.2f} s" for side in result.seconds)
    ratio = result.ratio(PEERS)
    peer = "no peer" if ratio is None else f"best peer {result.best(PEERS)} {ratio:.2f} times ours"
    return f"{medians}; {result.strategy}; {peer}; floor_ratio {result.floor_ratio:.2f}, of {result.floor}"


@dataclass
class CellPlay:
    """Rounds of one cell.

    :param sides: that still play.
    :param seconds: of the newest round, by side.
    :param strategy: that ``auto`` chose in it, and why.
    """

    bench: Bench
    cell: Cell
    sides: list[Side]
    seconds: dict[str, float]
    given_up: dict[str, float]
    refused: dict[str, str]
    strategy: str = ""

    @classmethod
    def of(cls, tables: SweepTables, cell: Cell) -> CellPlay:
        """Begin with all sides."""
        play = cls(replace(tables.bench, batch=cell.batch), cell, tables.sides(), {}, {}, {})
        play.sides[0].apply = play._noting_strategy(play.sides[0].apply)
        return play

    def round(self, number: int) -> None:
        """Give every side one batch; those after 0 are counted."""
        batch = self.bench.arrive(clustered=False)
        # By turns alone, forwards and backwards, ours would always play right after a MERGE, and an own strategy never.
        for side in random.Random(f"round {number}").sample(self.sides, len(self.sides)):
            try:
                seconds = self.bench.time(side, batch, number)
            except UnsupportedError as error:
                if side.name not in OWN:
                    raise
                self.refused[side.name] = str(error)
                self.sides.remove(side)
                continue
            self.seconds[side.name] = seconds
            if number > 0:
                side.seconds.append(seconds)

    def give_up_slow(self) -> None:
        """Let the sides rest that will not be the best of their group."""
        slow = [side for group in (PEERS, OWN) for side in self._slow(group)]
        if slow:
            self.bench.refuse_different(self.sides)
        for side in slow:
            self.given_up[side.name] = round(self.seconds[side.name], 2)
            self.sides.remove(side)
        if slow:
            print(f"   play no more: {self.given_up}", flush=True)

    def result(self) -> CellResult:
        """Return the cell, with the floor below ours."""
        ours = self.sides[0]
        batch = self.bench.arrive(clustered=False)
        floor = measure_floor(self.bench.spark, ours.table, batch, self.bench.home, rounds=1)
        return CellResult(
            rows=self.cell.rows,
            share=self.cell.share,
            batch=self.cell.batch,
            seconds={side.name: [round(each, 2) for each in side.seconds] for side in self.sides},
            strategy=self.strategy,
            floor=floor.to_plain(),
            given_up=self.given_up,
            refused=self.refused,
            load=round(os.getloadavg()[0], 1),
        )

    def _noting_strategy(self, apply: Callable[[str], Any]) -> Callable[[str], object]:
        def noted(batch: str) -> object:
            report = apply(batch)
            self.strategy = f"{report.strategy}: {report.strategy_reason}"
            return report

        return noted

    def _slow(self, group: Sequence[str]) -> list[Side]:
        played = [side for side in self.sides if side.name in group]
        best = min((self.seconds[side.name] for side in played), default=0.0)
        slow = max(best * SLOWER_TIMES, best + SLOWER_SECONDS)
        return [side for side in played if self.seconds[side.name] > slow]
