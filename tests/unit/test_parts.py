"""The parts of the tests are every test once, and each has its share of every file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from tests.part import Part


@dataclass(frozen=True)
class Node:
    """What a part asks of a test."""

    nodeid: str
    marker: str = ""

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == self.marker else None


SOAK = Node("tests/spark/test_faults.py::test_of_a_soak", "in_every_part")
MANY = [Node(f"tests/spark/test_query.py::test_of_many[{number}]") for number in range(10)]
ALONE = [Node(f"tests/spark/test_{number}.py::test_alone") for number in range(40)]


def chosen_by(part: str) -> list[Node]:
    chosen = Part.parse(part)
    return [test for test in [SOAK, *MANY, *ALONE] if chosen.takes(cast("pytest.Item", test))]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_the_parts_are_every_test_once_and_those_of_soaks_in_each(count: int) -> None:
    parts = [chosen_by(f"{number}/{count}") for number in range(1, count + 1)]
    assert all(SOAK in part for part in parts)
    others = [test for part in parts for test in part if test is not SOAK]
    assert sorted(others, key=str) == sorted([*MANY, *ALONE], key=str)


def test_a_part_has_its_share_of_a_file_and_of_files_with_one_test() -> None:
    for number in (1, 2, 3, 4):
        part = chosen_by(f"{number}/4")
        assert sum(test in MANY for test in part) in (2, 3)
        assert sum(test in ALONE for test in part) in range(5, 16)


@pytest.mark.parametrize("part", ["", "2", "0/4", "5/4", "1/0", "a/b", "1/4/2", "-1/4", "1/4\n"])
def test_a_part_that_is_none_is_refused(part: str) -> None:
    with pytest.raises(pytest.UsageError, match="2/4"):
        Part.parse(part)
