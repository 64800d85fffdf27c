"""Cells of a sweep as they are measured: their JSON file, which is whole after each, and the ratios over all."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.sweep_plan import Cell

OURS = "ours"
PEERS = ("merge_on_read", "copy_on_write", "delta")
OWN = ("ours_positions", "ours_copy_on_write", "ours_merge")


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One cell, measured.

    :param share: batch in percent of the table.
    :param seconds: of each counted round, by side.
    :param given_up: side to the seconds of its uncounted round, after which it played no more.
    :param refused: side to why it cannot upsert such a batch.
    :param strategy: that ``auto`` chose, and why.
    :param floor: seconds of each part.
    :param load: average of the machine when the cell was done.
    """

    rows: int
    share: float
    batch: int
    seconds: dict[str, list[float]]
    strategy: str
    floor: dict[str, float]
    given_up: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    load: float = 0.0

    @property
    def cell(self) -> Cell:
        """Size of table and batch."""
        return Cell(self.rows, self.share)

    def median(self, side: str) -> float:
        """Seconds of a side."""
        return statistics.median(self.seconds[side])

    def best(self, sides: Iterable[str]) -> str | None:
        """Return the quickest of some sides; None when none of them played."""
        return min((side for side in sides if side in self.seconds), key=self.median, default=None)

    def ratio(self, sides: Iterable[str]) -> float | None:
        """Return the seconds of the quickest of some sides over ours."""
        best = self.best(sides)
        return None if best is None else self.median(best) / self.median(OURS)

    @property
    def choice_ratio(self) -> float | None:
        """Return the seconds of our quickest strategy over those of the one that ``auto`` chose, both as asked for.

        1 where it chose the quickest: unlike ours over that strategy, it does not tell what two runs of the same work
        differ by.
        """
        chosen = f"ours_{self.strategy.partition(':')[0].replace('-', '_')}"
        best = self.best(OWN)
        return self.median(best) / self.median(chosen) if best is not None and chosen in self.seconds else None

    @property
    def floor_ratio(self) -> float:
        """Ours over the floor."""
        return self.median(OURS) / sum(self.floor.values())


def sweep_ratios(measured: Sequence[CellResult]) -> dict[str, float]:
    """Return the ratios over all cells; empty when none was measured."""
    if not measured:
        return {}
    of_peers = [ratio for each in measured if (ratio := each.ratio(PEERS)) is not None]
    of_own = [ratio for each in measured if (ratio := each.ratio(OWN)) is not None]
    ratios = {"floor_ratio": statistics.geometric_mean(each.floor_ratio for each in measured)}
    if of_peers:
        ratios |= {"auto_vs_best_peer": statistics.geometric_mean(of_peers), "auto_worst_vs_best_peer": min(of_peers)}
    if of_own:
        ratios["auto_worst_vs_own_strategies"] = min(of_own)
    choices = [ratio for each in measured if (ratio := each.choice_ratio) is not None]
    return ratios | ({"auto_worst_choice": min(choices)} if choices else {})


@dataclass
class SweepFile:
    """JSON file of a sweep.

    :param frame: of the JSON: benchmark, date and command.
    :param wanted: all cells of the sweep.
    """

    path: Path
    frame: dict[str, str]
    wanted: Sequence[Cell]
    measured: list[CellResult] = field(default_factory=list)

    def resume(self, file: Path) -> None:
        """Take the cells that an earlier run has measured, and go on in its file."""
        self.path = file
        self.measured = [CellResult(**each) for each in json.loads(file.read_text())["cells"]]

    def lacking(self) -> list[Cell]:
        """Return the cells that are not measured yet, in their order."""
        done = {each.cell for each in self.measured}
        return [cell for cell in self.wanted if cell not in done]

    def add(self, result: CellResult) -> None:
        """Keep a cell; a run that is stopped now loses nothing."""
        self.measured = sorted((*self.measured, result), key=lambda each: each.cell)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.to_plain(), indent=2) + "\n")
        new.replace(self.path)

    def to_plain(self) -> dict[str, Any]:
        """Return the JSON, which the heat map is drawn from."""
        return {
            **self.frame,
            "ratios": {name: round(value, 2) for name, value in sweep_ratios(self.measured).items()},
            "lacking": [asdict(cell) for cell in self.lacking()],
            "cells": [asdict(each) for each in self.measured],
        }
