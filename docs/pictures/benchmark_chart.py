"""Draw what a benchmark of upserts measured: a bar for each side's median, a dot for each counted round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docs.pictures.drawing import Drawing, Palette

OURS = "ours"
SIDES = {
    OURS: "LakeUpsertOperator",
    "merge_on_read": "Spark MERGE, merge-on-read",
    "copy_on_write": "Spark MERGE, copy-on-write",
    "delta": "Delta Lake MERGE",
    "pruned_merge": "Spark MERGE with a BETWEEN",
}
KEYS = {"random": "random keys", "clustered": "time-ordered keys"}
WIDTH = 1000
LEFT, RIGHT = 230, 800
ROW, HEADING, GAP = 24, 26, 16
# Seconds between two lines of the background; the first that gives at most eight of them is taken.
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def draw_benchmark(results: Mapping[str, Any], palette: Palette) -> str:
    """Return the chart as SVG.

    :param results: the JSON of ``scripts/bench upsert``.
    :param palette: colours.
    """
    compared = results["comparisons"]
    drawing = Drawing(WIDTH, _height(compared), _title(compared), palette)
    axis = Axis(max(seconds for each in compared for side in each["seconds"].values() for seconds in side))
    top = 8
    for each in compared:
        top = _draw_comparison(drawing, axis, each, results["ratios"], top)
    for tick in axis.ticks():
        drawing.text(axis.x(tick), top + 2, f"{tick} s", size=12, anchor="middle")
    rounds = len(compared[0]["seconds"][OURS])
    said = (
        f"Seconds of an upsert, fewer is better. A bar is the median, a dot one of {rounds} rounds. {results['date']}."
    )
    drawing.text(0, drawing.height - 8, said, size=12)
    return drawing.svg()


@dataclass(frozen=True)
class Axis:
    """Seconds as places on the drawing.

    :param longest: what has to fit.
    """

    longest: float

    def x(self, seconds: float) -> float:
        """Return the place of some seconds.

        :param seconds: from 0 to the longest.
        """
        return LEFT + seconds * (RIGHT - LEFT) / self.longest

    def ticks(self) -> range:
        """Return the seconds that have a line in the background."""
        step = next(step for step in STEPS if self.longest / step <= 8)
        return range(0, int(self.longest) + step, step)


def heading(comparison: Mapping[str, Any]) -> str:
    """Return what a comparison upserts, and into how much.

    :param comparison: one of the JSON's ``comparisons``.
    """
    keys = KEYS[comparison["name"].split("_")[0]]
    return f"{comparison['batch']:,} {keys} into {comparison['rows'] / 1e6:g} million rows"


def _draw_comparison(
    drawing: Drawing, axis: Axis, comparison: Mapping[str, Any], ratios: Mapping[str, float], top: int
) -> int:
    drawing.text(0, top + 16, heading(comparison), bold=True)
    top += HEADING
    for tick in axis.ticks():
        drawing.line(axis.x(tick), top, top + ROW * len(comparison["seconds"]))
    for side, seconds in comparison["seconds"].items():
        ratio = ratios.get(f"{comparison['name']}_vs_{side}")
        _draw_side(drawing, axis, side, seconds, "" if ratio is None else f", {ratio:.2f} times ours", top)
        top += ROW
    return top + GAP


def _draw_side(drawing: Drawing, axis: Axis, side: str, seconds: Sequence[float], ratio: str, top: int) -> None:
    median = statistics.median(seconds)
    colour = drawing.palette.job.edge if side == OURS else drawing.palette.data.edge
    drawing.text(LEFT - 10, top + 16, SIDES[side], anchor="end")
    drawing.bar(LEFT, top + 4, axis.x(median) - LEFT, ROW - 8, colour)
    for each in seconds:
        drawing.dot(axis.x(each), top + ROW / 2, drawing.palette.dot, colour)
    drawing.text(axis.x(max(seconds)) + 12, top + 16, f"{median:.1f} s{ratio}", bold=side == OURS)


def _height(compared: Sequence[Mapping[str, Any]]) -> int:
    return 8 + sum(HEADING + ROW * len(each["seconds"]) + GAP for each in compared) + 36


def _title(compared: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(f"{heading(each)}: {', '.join(map(_median, each['seconds'].items()))}." for each in compared)


def _median(side: tuple[str, Sequence[float]]) -> str:
    return f"{SIDES[side[0]]} {statistics.median(side[1]):.1f} s"
