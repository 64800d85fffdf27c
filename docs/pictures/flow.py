"""Draw the way of the data: files, an upsert, a table, what sees its snapshot, and what runs then."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from docs.pictures.drawing import Drawing, Palette

TITLE = (
    "Files go through LakeUpsertOperator into an Iceberg table. A sensor, trigger or asset sees the new snapshot and "
    "starts LakeIncrementalOperator, which writes a downstream table. Compaction and expiry keep the table small."
)
HEIGHT = 92


@dataclass(frozen=True)
class Step:
    """A box of the flow.

    :param x: left edge.
    :param y: upper edge.
    :param width: to the right.
    :param kind: ``job``, ``metadata`` or ``data``, as the palette names its colours.
    :param titles: what it is, in bold.
    :param said: what it does.
    """

    x: int
    y: int
    width: int
    kind: str
    titles: tuple[str, ...]
    said: tuple[str, ...]

    @property
    def middle(self) -> float:
        """Middle of its width."""
        return self.x + self.width / 2

    def draw(self, drawing: Drawing) -> None:
        """Add it to a drawing.

        :param drawing: the whole.
        """
        drawing.box(self.x, self.y, self.width, HEIGHT, getattr(drawing.palette, self.kind))
        drawing.lines(self.middle, self.y + HEIGHT / 2, self.titles, self.said)


FILES = Step(2, 12, 142, "data", ("Files",), ("Parquet, JSON, CSV,", "Debezium events"))
UPSERT = Step(180, 12, 184, "job", ("LakeUpsertOperator",), ("last change of each key,", "one atomic commit"))
TABLE = Step(400, 12, 142, "data", ("Iceberg table",), ("each commit is", "a new snapshot"))
WATCH = Step(578, 12, 186, "metadata", ("Sensor, trigger, asset",), ("see the new snapshot", "in the metadata"))
INCREMENTAL = Step(800, 12, 198, "job", ("LakeIncrementalOperator",), ("reads only the rows", "that changed"))
UPKEEP = Step(355, 164, 232, "job", ("LakeCompactionOperator", "LakeSnapshotExpiryOperator"), ("keep the table small",))
DOWNSTREAM = Step(816, 164, 166, "data", ("Downstream table",), ("rows and position", "in one commit"))
WAY = (FILES, UPSERT, TABLE, WATCH, INCREMENTAL)
LEGEND = {"job": "Spark job", "metadata": "metadata only, no Spark", "data": "data"}


def draw_flow(palette: Palette) -> str:
    """Return the picture as SVG.

    :param palette: colours.
    """
    drawing = Drawing(1000, 262, TITLE, palette)
    # A table is the sum of its snapshots: the older ones lie behind.
    for behind in (10, 5):
        drawing.box(TABLE.x + behind, TABLE.y - behind, TABLE.width, HEIGHT, palette.data)
    for step in (*WAY, UPKEEP, DOWNSTREAM):
        step.draw(drawing)
    across = FILES.y + HEIGHT / 2
    for before, after in pairwise(WAY):
        begin = before.x + before.width + (14 if before is TABLE else 4)
        drawing.arrow((begin, across), (after.x - 4, across))
    drawing.arrow((UPKEEP.middle, UPKEEP.y - 4), (TABLE.middle, TABLE.y + HEIGHT + 4))
    drawing.arrow((INCREMENTAL.middle, INCREMENTAL.y + HEIGHT + 4), (DOWNSTREAM.middle, DOWNSTREAM.y - 4))
    for number, (kind, said) in enumerate(LEGEND.items()):
        drawing.box(2, 178 + number * 26, 16, 16, getattr(palette, kind), radius=4)
        drawing.text(28, 191 + number * 26, said)
    return drawing.svg()
