"""Plan a sweep: cells of table size by share, their order, and the rounds of each that fit into a budget of minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

MILLION = 1_000_000
ROWS = (1.0, 3.0, 10.0, 30.0, 100.0)
SHARES = (0.01, 0.1, 1.0, 5.0, 20.0)
# The greatest table has one share of its own: 50,000 rows of 100 M.
LARGEST, LARGEST_SHARE = 100 * MILLION, 0.05
LEAST_ROUNDS = 2
UNCOUNTED_ROUNDS = 1
# Seconds of one side on two idle cores, guessed; what is measured corrects all three by one factor.
SECONDS_OF_A_SIDE, SECONDS_PER_ROW, SECONDS_PER_BATCH_ROW = 0.8, 0.5e-6, 2e-6
# To fill one table of Iceberg and one of Delta.
SECONDS_PER_FILLED_ROW = 2e-6


@dataclass(frozen=True, order=True)
class Cell:
    """One size of table and one of batch.

    :param share: batch in percent of the table.
    """

    rows: int
    share: float

    @property
    def batch(self) -> int:
        """Rows of the batch."""
        return max(1, round(self.rows * self.share / 100))

    def __str__(self) -> str:
        return f"{self.rows / MILLION:g} M rows by {self.share:g} %"


def cells(millions: Iterable[float], shares: Iterable[float]) -> list[Cell]:
    """Return the cells in the order in which they are measured: small tables first, and small batches of each.

    What a budget leaves out are then the cells that cost most.
    """
    wanted = list(shares)
    sizes = sorted({round(number * MILLION) for number in millions})
    of_size = {rows: [LARGEST_SHARE] if rows == LARGEST else wanted for rows in sizes}
    return sorted({Cell(rows, share) for rows in sizes for share in of_size[rows]})


@dataclass
class Budget:
    """Minutes of a whole sweep.

    :param minutes: 0 for no limit.
    :param rounds: counted ones, where there is time for them.
    :param clock: seconds that only grow.
    :param factor: of the guessed seconds, as measured so far.
    """

    minutes: float
    rounds: int
    clock: Callable[[], float] = time.monotonic
    factor: float = 1.0
    started: float = 0.0
    measured: float = 0.0
    guessed: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def rounds_of(self, cell: Cell, later: Sequence[Cell], sides: int) -> int:
        """Return the counted rounds of a cell; 0 when not even the fewest fit.

        :param later: cells after this one, which shall fit with the fewest rounds.
        """
        if not self.minutes:
            return self.rounds
        left = self._seconds_left()
        sizes = {each.rows for each in later} - {cell.rows}
        reserved = sum(self._seconds(each, LEAST_ROUNDS, sides) for each in later)
        reserved += self.factor * sum(sizes) * SECONDS_PER_FILLED_ROW
        for rounds in range(max(self.rounds, LEAST_ROUNDS), LEAST_ROUNDS, -1):
            if self._seconds(cell, rounds, sides) + reserved <= left:
                return rounds
        return LEAST_ROUNDS if self._seconds(cell, LEAST_ROUNDS, sides) <= left else 0

    def has_time_for_tables(self, cell: Cell, sides: int) -> bool:
        """Tell whether tables can be filled and this cell, the first of their size, be measured."""
        wanted = self.factor * cell.rows * SECONDS_PER_FILLED_ROW + self._seconds(cell, LEAST_ROUNDS, sides)
        return not self.minutes or wanted <= self._seconds_left()

    def learn(self, cell: Cell, rounds: int, sides: int, seconds: float) -> None:
        """Correct the guesses by what a cell took."""
        self.measured += seconds
        self.guessed += guess(cell, rounds, sides)
        self.factor = self.measured / self.guessed

    def _seconds_left(self) -> float:
        return self.minutes * 60 - (self.clock() - self.started)

    def _seconds(self, cell: Cell, rounds: int, sides: int) -> float:
        return self.factor * guess(cell, rounds, sides)


def guess(cell: Cell, rounds: int, sides: int) -> float:
    """Return the guessed seconds of a cell, its uncounted round and the comparison of contents included.

    :param rounds: that are counted.
    :param sides: that play.
    """
    round_of_side = SECONDS_OF_A_SIDE + cell.rows * SECONDS_PER_ROW + cell.batch * SECONDS_PER_BATCH_ROW
    return sides * round_of_side * (rounds + UNCOUNTED_ROUNDS)
