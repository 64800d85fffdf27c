"""Draw a sweep of upserts: a field for each table size and share, with the best peer's seconds over ours."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from docs.pictures.drawing import Drawing, Palette

OURS = "ours"
PEERS = {"merge_on_read": "merge-on-read", "copy_on_write": "copy-on-write", "delta": "Delta"}
LEFT, TOP = 128, 104
WIDTH, HEIGHT, GAP = 120, 50, 4
SWATCH, LEGEND_STEP = 16, 168


@dataclass(frozen=True)
class Band:
    """Ratios that have one colour.

    :param least: the lowest of them.
    :param label: in the legend.
    :param tint: of the palette, mixed into the page's own colour.
    :param strength: share of the tint; text can be read on each.
    """

    least: float
    label: str
    tint: str
    strength: float

    def colour(self, palette: Palette) -> str:
        """Return the colour on a page.

        :param palette: colours.
        """
        return _mixed(palette.dot, getattr(palette, self.tint).edge, self.strength)


BANDS = (
    Band(0.0, "slower: below 0.9", "slower", 0.5),
    Band(0.9, "as fast: 0.9 to 1.1", "data", 0.22),
    Band(1.1, "1.1 to 2 times as fast", "job", 0.16),
    Band(2.0, "2 to 4 times", "job", 0.34),
    Band(4.0, "4 times and more", "job", 0.6),
)


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

    def in_words(self) -> str:
        """Return the field as a clause."""
        return f"{_rows(self.rows)} by {self.share:g} %: {self.ratio:.2f} of {self.peer}"


def draw_heat_map(results: Mapping[str, Any], palette: Palette) -> str:
    """Return the map as SVG.

    :param results: the JSON of ``scripts/bench upsert --sweep``.
    :param palette: colours.
    """
    fields = [field for cell in results["cells"] if (field := Field.of(cell)) is not None]
    rows, shares = sorted({field.rows for field in fields}), sorted({field.share for field in fields})
    width, bottom = LEFT + len(shares) * (WIDTH + GAP), TOP + len(rows) * (HEIGHT + GAP)
    drawing = Drawing(max(width, 874), bottom + 78, f"{'. '.join(field.in_words() for field in fields)}.", palette)
    _draw_title(drawing, fields)
    _draw_axes(drawing, rows, shares)
    for field in fields:
        _draw_field(drawing, field, LEFT + shares.index(field.share) * (WIDTH + GAP), rows.index(field.rows))
    _draw_legend(drawing, bottom + 14)
    note = "Each field: the ratio of the medians, and which peer was the best. A gap was not measured."
    drawing.text(0, bottom + 66, f"{note} {results['date']}.", size=12)
    return drawing.svg()


def message(fields: Sequence[Field]) -> tuple[str, str]:
    """Return what the map shows, as a sentence and the numbers behind it.

    :param fields: one or more.
    """
    by_rows = {rows: [field.ratio for field in fields if field.rows == rows] for rows in {f.rows for f in fields}}
    most = {rows: max(by_rows[rows]) for rows in sorted(by_rows)}
    grows = all(before < after for before, after in pairwise(most.values()))
    title = (
        "The larger the table, the more an upsert gains" if grows else "Where an upsert gains, and where it does not"
    )
    smallest, largest = next(iter(most)), next(reversed(most))
    ends = dict.fromkeys((smallest, largest))
    numbers = ", ".join(f"at most {most[rows]:.1f} with {_rows(rows)}" for rows in ends)
    worst = min(field.ratio for field in fields)
    return title, f"The best peer's seconds over ours: {numbers}; {worst:.2f} in the worst field."


def band(ratio: float) -> Band:
    """Return the band of a ratio.

    :param ratio: above 0.
    """
    return next(each for each in reversed(BANDS) if ratio >= each.least)


def _draw_title(drawing: Drawing, fields: Sequence[Field]) -> None:
    title, numbers = message(fields)
    drawing.text(0, 20, title, bold=True, size=18)
    drawing.text(0, 42, numbers)


def _draw_axes(drawing: Drawing, rows: Sequence[int], shares: Sequence[float]) -> None:
    drawing.text(LEFT - 12, TOP - 14, "rows of the table", size=12, anchor="end")
    drawing.text(LEFT, TOP - 32, "rows of the batch, in percent of the table", size=12)
    for number, share in enumerate(shares):
        drawing.text(LEFT + number * (WIDTH + GAP) + WIDTH / 2, TOP - 12, f"{share:g} %", anchor="middle")
    for number, count in enumerate(rows):
        drawing.text(LEFT - 12, TOP + number * (HEIGHT + GAP) + HEIGHT / 2 + 5, _rows(count), anchor="end")


def _draw_field(drawing: Drawing, field: Field, left: float, row: int) -> None:
    top = TOP + row * (HEIGHT + GAP)
    drawing.bar(left, top, WIDTH, HEIGHT, band(field.ratio).colour(drawing.palette))
    drawing.text(left + WIDTH / 2, top + 22, f"{field.ratio:.2f}", bold=True, size=15, anchor="middle")
    drawing.text(left + WIDTH / 2, top + 40, field.peer, strong=True, size=12, anchor="middle")


def _draw_legend(drawing: Drawing, top: float) -> None:
    for number, each in enumerate(BANDS):
        left = number * LEGEND_STEP
        drawing.bar(left, top, SWATCH, SWATCH, each.colour(drawing.palette))
        drawing.text(left + SWATCH + 6, top + 13, each.label, size=12)


def _rows(count: int) -> str:
    return f"{count / 1e6:g} million rows"


def _mixed(page: str, edge: str, strength: float) -> str:
    """Return a colour between two of the form ``#rrggbb``."""
    pairs = zip(bytes.fromhex(page[1:]), bytes.fromhex(edge[1:]), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * strength):02x}" for low, high in pairs)
