"""Draw the way of one job: from a DAG to a commit in the driver, and back to an asset event."""

from __future__ import annotations

from dataclasses import dataclass

from docs.pictures.drawing import Drawing, Palette

TITLE = (
    "A DAG's operator asks the table's metadata first. Where that is not enough, it sends a job of tasks to a Spark "
    "driver. There a source gives a batch, the table format reaches its rows, and one commit takes all of it. The "
    "report comes back to the operator, which makes one asset event of each commit; that starts other DAGs."
)
COLUMNS = 5
WIDTH, HEIGHT, GAP, MARGIN = 156, 78, 18, 14
LANE_TOP, LANE_HEIGHT, BETWEEN = 2, 118, 34


def left_edge(column: int) -> int:
    """Return the left edge of a column.

    :param column: from 0 on.
    """
    return MARGIN + column * (WIDTH + GAP)


@dataclass(frozen=True)
class Lane:
    """A process, or the lake, with its boxes from left to right.

    :param name: who runs it, and what it does without.
    :param row: 0 is the uppermost.
    :param kind: colour of its boxes, as the palette names it.
    :param name_column: above whose boxes its name begins, so that no arrow crosses it.
    """

    name: str
    row: int
    kind: str
    name_column: int = 0

    @property
    def top(self) -> int:
        """Upper edge."""
        return LANE_TOP + self.row * (LANE_HEIGHT + BETWEEN)

    @property
    def box_top(self) -> int:
        """Upper edge of its boxes."""
        return self.top + LANE_HEIGHT - HEIGHT - 10

    @property
    def middle(self) -> float:
        """Height of the arrows between its boxes."""
        return self.box_top + HEIGHT / 2

    def draw(self, drawing: Drawing) -> None:
        """Add the area and its name.

        :param drawing: the whole.
        """
        drawing.area(1, self.top, drawing.width - 2, LANE_HEIGHT)
        drawing.text(left_edge(self.name_column), self.top + 20, self.name, bold=True)


WORKER = Lane("Airflow: worker, scheduler, triggerer. No Spark", 0, "metadata")
DRIVER = Lane("Spark driver: one application, one session a task. No Airflow", 1, "job", name_column=1)
LAKE = Lane("Lake", 2, "data")


@dataclass(frozen=True)
class Box:
    """A step of the way.

    :param column: from 0 on.
    :param columns: how many it is wide.
    :param kind: colour in place of its lane's.
    """

    lane: Lane
    column: int
    title: str
    lines: tuple[str, ...]
    columns: int = 1
    kind: str = ""

    @property
    def left(self) -> float:
        """Left edge."""
        return left_edge(self.column)

    @property
    def right(self) -> float:
        """Right edge."""
        return left_edge(self.column + self.columns) - GAP

    @property
    def middle(self) -> float:
        """Middle of its width."""
        return (self.left + self.right) / 2

    @property
    def top(self) -> float:
        """Upper edge."""
        return self.lane.box_top

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + HEIGHT

    def draw(self, drawing: Drawing) -> None:
        """Add it to a drawing.

        :param drawing: the whole.
        """
        tint = getattr(drawing.palette, self.kind or self.lane.kind)
        drawing.box(self.left, self.top, self.right - self.left, HEIGHT, tint)
        drawing.lines(self.middle, self.top + HEIGHT / 2, [self.title], self.lines)


DAG = Box(WORKER, 0, "DAG", ("arguments,", "with templates"), kind="data")
OPERATOR = Box(WORKER, 1, "Operator", ("arguments become", "a checked spec"))
ANSWER = Box(WORKER, 2, "Metadata answer", ("nothing new or due,", "dry run, refusal"))
REPORT = Box(WORKER, 3, "Report", ("to XCom; a lost one", "is read off the table"))
EVENT = Box(WORKER, 4, "Asset event", ("one for each commit,", "starts other DAGs"))
JOB = Box(DRIVER, 0, "Job and tasks", ("an action and", "a table each"))
SOURCE = Box(DRIVER, 1, "Source", ("what is new,", "given a position"))
BATCH = Box(DRIVER, 2, "Batch", ("the last change", "of each key"))
FORMAT = Box(DRIVER, 3, "Table format", ("a strategy reaches", "the keys' rows"))
COMMIT = Box(DRIVER, 4, "Commit", ("rows, position and", "run key at once"))
INPUT = Box(LAKE, 0, "Input", ("files, change events, another table, a query,", "or a source of your own"), columns=2)
TABLE = Box(
    LAKE,
    2,
    "Table",
    ("its metadata answers operators, resolves lost reports,", "and shows sensors a new snapshot"),
    columns=3,
)
BOXES = (DAG, OPERATOR, ANSWER, REPORT, EVENT, JOB, SOURCE, BATCH, FORMAT, COMMIT, INPUT, TABLE)
ACROSS = [(DAG, OPERATOR), (OPERATOR, ANSWER), (ANSWER, REPORT), (REPORT, EVENT)]
ACROSS += [(JOB, SOURCE), (SOURCE, BATCH), (BATCH, FORMAT), (FORMAT, COMMIT)]


def draw_architecture(palette: Palette) -> str:
    """Return the picture as SVG.

    :param palette: colours.
    """
    width = left_edge(COLUMNS) - GAP + MARGIN
    drawing = Drawing(width, LAKE.top + LANE_HEIGHT + 2, TITLE, palette)
    for lane in (WORKER, DRIVER, LAKE):
        lane.draw(drawing)
    for box in BOXES:
        box.draw(drawing)
    for before, after in ACROSS:
        drawing.arrow((before.right + 2, before.lane.middle), (after.left - 2, after.lane.middle))
    _draw_border_crossings(drawing)
    return drawing.svg()


def _draw_border_crossings(drawing: Drawing) -> None:
    """Add the two files between worker and driver, and the two ways between driver and lake."""
    between = WORKER.top + LANE_HEIGHT + BETWEEN / 2
    drawing.arrow(
        (ANSWER.middle, ANSWER.bottom + 2), (ANSWER.middle, between), (JOB.middle, between), (JOB.middle, JOB.top - 2)
    )
    drawing.arrow(
        (COMMIT.middle, COMMIT.top - 2),
        (COMMIT.middle, between),
        (REPORT.middle, between),
        (REPORT.middle, REPORT.bottom + 2),
    )
    drawing.text((JOB.middle + ANSWER.middle) / 2, between - 5, "else: the job as JSON", anchor="middle")
    drawing.text((REPORT.middle + COMMIT.middle) / 2, between - 5, "reports as JSON", anchor="middle")
    drawing.arrow((SOURCE.middle, INPUT.top - 2), (SOURCE.middle, SOURCE.bottom + 2))
    drawing.arrow((COMMIT.middle, COMMIT.bottom + 2), (COMMIT.middle, TABLE.top - 2))
