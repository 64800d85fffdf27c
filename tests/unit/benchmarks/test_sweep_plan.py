"""A sweep measures cheap cells first, and fits into its minutes by rounds and by cells that it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.benchmarks.sweep_plan import LEAST_ROUNDS, ROWS, SHARES, Budget, Cell, cells, guess

SIDES = 7


@dataclass
class Clock:
    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_whole_sweep_has_each_size_by_each_share_and_the_largest_by_one_of_its_own() -> None:
    asked = cells(ROWS, SHARES)
    assert [str(cell) for cell in asked[:2]] == ["1 M rows by 0.01 %", "1 M rows by 0.1 %"]
    assert [cell.batch for cell in asked[:5]] == [100, 1_000, 10_000, 50_000, 200_000]
    assert len(asked) == 21
    assert asked[-1] == Cell(100_000_000, 0.05)
    assert asked[-1].batch == 50_000
    assert asked == sorted(asked, key=lambda cell: (cell.rows, cell.share))


def test_chosen_cells_come_once_and_in_order() -> None:
    assert cells([3, 1, 3], [5, 0.1]) == [
        Cell(1_000_000, 0.1),
        Cell(1_000_000, 5),
        Cell(3_000_000, 0.1),
        Cell(3_000_000, 5),
    ]


def test_without_a_limit_every_cell_has_all_rounds() -> None:
    budget = Budget(0, 5, Clock())
    assert budget.rounds_of(Cell(30_000_000, 20), cells(ROWS, SHARES), SIDES) == 5
    assert budget.has_time_for_tables(Cell(100_000_000, 0.05), SIDES)


@pytest.mark.parametrize(("spare", "rounds"), [(5, 5), (4, 4), (3, 3), (2, 2), (1, 0)])
def test_rounds_are_dropped_down_to_two_and_then_the_cell(spare: int, rounds: int) -> None:
    cell = Cell(1_000_000, 1)
    budget = Budget((guess(cell, spare, SIDES) + 0.1) / 60, 5, Clock())
    assert budget.rounds_of(cell, (), SIDES) == rounds


def test_rounds_are_dropped_for_the_cells_that_come_later() -> None:
    cell, later = Cell(1_000_000, 1), Cell(1_000_000, 5)
    seconds = guess(cell, 4, SIDES) + guess(later, LEAST_ROUNDS, SIDES) + 0.1
    assert Budget(seconds / 60, 5, Clock()).rounds_of(cell, [later], SIDES) == 4
    # Later ones that cannot fit anyway take nothing but rounds from this one.
    assert Budget(seconds / 60, 5, Clock()).rounds_of(cell, [Cell(30_000_000, 20)], SIDES) == LEAST_ROUNDS


def test_a_machine_that_is_slower_than_guessed_has_fewer_rounds() -> None:
    clock, cell = Clock(), Cell(1_000_000, 1)
    budget = Budget(guess(cell, 5, SIDES) * 2 / 60, 5, clock)
    assert budget.rounds_of(cell, (), SIDES) == 5
    budget.learn(cell, 5, SIDES, 3 * guess(cell, 5, SIDES))
    assert budget.factor == pytest.approx(3)
    assert budget.rounds_of(cell, (), SIDES) == 3
    clock.seconds += guess(cell, 5, SIDES)
    assert budget.rounds_of(cell, (), SIDES) == 0


def test_tables_are_not_filled_for_a_cell_that_has_no_time() -> None:
    cell = Cell(100_000_000, 0.05)
    assert not Budget(guess(cell, LEAST_ROUNDS, SIDES) / 60, 3, Clock()).has_time_for_tables(cell, SIDES)
    assert Budget((guess(cell, LEAST_ROUNDS, SIDES) + 201) / 60, 3, Clock()).has_time_for_tables(cell, SIDES)
