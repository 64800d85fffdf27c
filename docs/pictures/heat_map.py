"""Draw a sweep of upserts: a field for each table size and share, with the best peer's seconds over ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docs.pictures.drawing import Drawing, Palette

OURS = "ours"
PEERS = {"merge_on_read": "merge-on-read", "copy_on_write": "copy-on-write", "delta": "Delta"}
LEFT, TOP = 130, 52
WIDTH, HEIGHT, GAP = 120, 54, 4
# Times quicker, or slower, from where on a field has the full colour; text can still be read on it.
QUICKER, SLOWER, FULL = 8.0, 2.0, 0.5


@dataclass(frozen=True)
class Field:
    """One field of the map.

    :param rows: of the table.
    :param share: batch in percent of it.
    :param ratio: the best peer's seconds over ours.
    :param peer: the best one.
    """

    rows: int
    share: float
    ratio: float
    peer: str

    @classmethod
    def of(cls, cell: Mapping[str, Any]) -> Field | None:
        """Return the field of a cell; None where no peer played.

        :param cell: one of the JSON's ``cells``.
        """
        medians = {side: statistics.median(seconds) for side, seconds in cell["seconds"].items()}
        peers = [side for side in PEERS if side in medians]
        if not peers:
            return None
        best = min(peers, key=medians.__getitem__)
        return cls(cell["rows"], cell["share"], medians[best] / medians[OURS], PEERS[best])

    def said(self) -> str:
        """Return the field in words."""
        return f"{_rows(self.rows)} by {self.share:g} %: {self.ratio:.2f} of {self.peer}"


def draw_heat_map(results: Mapping[str, Any], palette: Palette) -> str:
    """Return the map as SVG.

    :param results: the JSON of ``scripts/bench upsert --sweep``.
    :param palette: colours.
    """
    fields = [field for cell in results["cells"] if (field := Field.of(cell)) is not None]
    rows, shares = sorted({field.rows for field in fields}), sorted({field.share for field in fields})
    width, bottom = LEFT + len(shares) * (WIDTH + GAP), TOP + len(rows) * (HEIGHT + GAP)
    drawing = Drawing(max(width, 640), bottom + 52, f"{'. '.join(field.said() for field in fields)}.", palette)
    _draw_axes(drawing, rows, shares)
    for field in fields:
        _draw_field(drawing, field, LEFT + shares.index(field.share) * (WIDTH + GAP), rows.index(field.rows))
    drawing.text(
        0, bottom + 20, "Seconds of the best peer over those of ours, in medians. Above 1 ours is quicker.", size=12
    )
    drawing.text(0, bottom + 38, f"An empty field was not measured. {results['date']}.", size=12)
    return drawing.svg()


def colour(ratio: float, palette: Palette) -> str:
    """Return the colour of a ratio: the page's own at 1, ours above it, another below it.

    :param ratio: above 0.
    :param palette: colours.
    """
    full, edge = (QUICKER, palette.job.edge) if ratio >= 1 else (SLOWER, palette.slower.edge)
    strength = min(1.0, abs(math.log(ratio)) / math.log(full)) * FULL
    return _mixed(palette.dot, edge, strength)


def _draw_axes(drawing: Drawing, rows: Sequence[int], shares: Sequence[float]) -> None:
    drawing.text(LEFT, 16, "rows of the batch, in percent of the table", size=12)
    for number, share in enumerate(shares):
        drawing.text(LEFT + number * (WIDTH + GAP) + WIDTH / 2, 40, f"{share:g} %", anchor="middle")
    for number, count in enumerate(rows):
        drawing.text(LEFT - 12, TOP + number * (HEIGHT + GAP) + HEIGHT / 2 + 5, _rows(count), anchor="end")


def _draw_field(drawing: Drawing, field: Field, left: float, row: int) -> None:
    top = TOP + row * (HEIGHT + GAP)
    drawing.bar(left, top, WIDTH, HEIGHT, colour(field.ratio, drawing.palette))
    drawing.lines(left + WIDTH / 2, top + HEIGHT / 2, [f"{field.ratio:.2f}", field.peer], [])


def _rows(count: int) -> str:
    return f"{count / 1e6:g} million rows"


def _mixed(page: str, edge: str, strength: float) -> str:
    """Return a colour between two of the form ``#rrggbb``."""
    pairs = zip(bytes.fromhex(page[1:]), bytes.fromhex(edge[1:]), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * strength):02x}" for low, high in pairs)
