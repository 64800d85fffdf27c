"""Write SVG: boxes, lines, arrows and text, in the colours of a light or a dark page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
TEXT_SIZE = 13
LINE_HEIGHT = 18


@dataclass(frozen=True)
class Tint:
    """Colours of one kind of box.

    :param fill: of its area.
    :param edge: of its border, and of a bar.
    """

    fill: str
    edge: str


@dataclass(frozen=True)
class Palette:
    """Colours of a drawing.

    :param name: ends the file's name.
    :param text: of what is read first.
    :param muted: of what explains it, and of arrows.
    :param grid: of lines in the background.
    :param dot: of what lies on a bar.
    :param job: of a Spark job.
    :param metadata: of what reads metadata only.
    :param data: of files and tables.
    :param slower: of a measurement that is worse than its peer.
    """

    name: str
    text: str
    muted: str
    grid: str
    dot: str
    job: Tint
    metadata: Tint
    data: Tint
    slower: Tint


# Contrasts of text are above 4.5 on the pages of code hosts and of the site.
LIGHT = Palette(
    name="light",
    text="#1f2328",
    muted="#59636e",
    grid="#d1d9e0",
    dot="#ffffff",
    job=Tint("#ddf4ff", "#0969da"),
    metadata=Tint("#dafbe1", "#1a7f37"),
    data=Tint("#f6f8fa", "#818b98"),
    slower=Tint("#fff1e5", "#bc4c00"),
)
DARK = Palette(
    name="dark",
    text="#f0f6fc",
    muted="#9198a1",
    grid="#3d444d",
    dot="#0d1117",
    job=Tint("#12284a", "#4493f8"),
    metadata=Tint("#12301c", "#3fb950"),
    data=Tint("#212830", "#818b98"),
    slower=Tint("#3d1f0d", "#db6d28"),
)
PALETTES = (LIGHT, DARK)


@dataclass
class Drawing:
    """A picture that grows by what is added to it; the page shows through its background.

    :param width: in pixels, like all other lengths.
    :param height: likewise.
    :param title: says what the picture shows to who cannot see it.
    :param palette: colours.
    """

    width: int
    height: int
    title: str
    palette: Palette
    elements: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, tint: Tint, *, radius: int = 8) -> None:
        """Add a box with round corners.

        :param x: left edge.
        :param y: upper edge.
        :param width: to the right.
        :param height: downwards.
        :param tint: colours.
        :param radius: of the corners.
        """
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        colours = f'fill="{tint.fill}" stroke="{tint.edge}" stroke-width="1.5"'
        self.elements.append(f'<rect {place} rx="{radius}" {colours}/>')

    def area(self, x: float, y: float, width: float, height: float) -> None:
        """Add a border around what belongs together.

        :param x: left edge.
        :param y: upper edge.
        :param width: to the right.
        :param height: downwards.
        """
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.elements.append(f'<rect {place} rx="10" fill="none" stroke="{self.palette.grid}"/>')

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Add a filled area without a border.

        :param x: left edge.
        :param y: upper edge.
        :param width: to the right.
        :param height: downwards.
        :param colour: of the area.
        """
        place = f'x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"'
        self.elements.append(f'<rect {place} rx="2" fill="{colour}"/>')

    def dot(self, x: float, y: float, colour: str, edge: str) -> None:
        """Add a small circle.

        :param x: of its middle.
        :param y: of its middle.
        :param colour: of its area.
        :param edge: of its border.
        """
        self.elements.append(f'<circle cx="{x:.1f}" cy="{y:g}" r="3" fill="{colour}" stroke="{edge}"/>')

    def line(self, x: float, top: float, bottom: float) -> None:
        """Add a thin upright line in the background.

        :param x: where it stands.
        :param top: its upper end.
        :param bottom: its lower end.
        """
        self.elements.append(f'<path d="M{x:.1f} {top:g}V{bottom:g}" stroke="{self.palette.grid}"/>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Add an arrow.

        :param points: its bends, from its beginning to its tip.
        """
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        stroke = f'stroke="{self.palette.muted}" stroke-width="1.5"'
        self.elements.append(f'<path d="M{path}" fill="none" {stroke} marker-end="url(#tip)"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        bold: bool = False,
        strong: bool = False,
        size: int = TEXT_SIZE,
        anchor: str = "start",
    ) -> None:
        """Add a line of text.

        :param x: where it begins; its middle or end when the anchor says so.
        :param y: its base line.
        :param words: the text.
        :param bold: heavier, and not muted.
        :param strong: not muted, as text on a colour has to be.
        :param size: height of the letters.
        :param anchor: ``start``, ``middle`` or ``end``.
        """
        colour = self.palette.text if bold or strong else self.palette.muted
        weight = ' font-weight="600"' if bold else ""
        placed = f'x="{x:.4g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
        self.elements.append(f'<text {placed}{weight} fill="{colour}">{html.escape(words)}</text>')

    def lines(self, x: float, y: float, titles: Sequence[str], words: Sequence[str]) -> None:
        """Add lines of text below each other around a middle.

        :param x: the middle of each.
        :param y: the middle of all.
        :param titles: in bold.
        :param words: below these.
        """
        first = y - (len(titles) + len(words) - 1) * LINE_HEIGHT / 2 + 5
        for number, line in enumerate((*titles, *words)):
            self.text(x, first + number * LINE_HEIGHT, line, bold=number < len(titles), anchor="middle")

    def svg(self) -> str:
        """Return the picture as a file's text."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
        head += f'width="{self.width}" height="{self.height}" role="img" font-family="{FONT}">'
        tip = f'<path d="M0 0L10 5L0 10z" fill="{self.palette.muted}"/>'
        place = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
        marker = f'<defs><marker id="tip" {place} orient="auto-start-reverse">{tip}</marker></defs>'
        title = f"<title>{html.escape(self.title)}</title>"
        return "\n".join([head, title, marker, *self.elements, "</svg>", ""])
