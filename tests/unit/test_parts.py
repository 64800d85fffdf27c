"""The parts of the tests are every test once, and each has its share of every file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
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


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script in a tree without git, whose python prints what it is asked for, but for whether a part is one."""
    repository, tree = Path(__file__).parents[2], tmp_path / "tree"
    for name in ("scripts/test", "tests/part.py"):
        (tree / name).parent.mkdir(parents=True)
        shutil.copy(repository / name, tree / name)
    setup = f'set -euo pipefail\nexport LAKE_HOME="{tmp_path}/lake"\nmkdir -p "$LAKE_HOME"\ncd "{tmp_path}/tree"\n'
    (tree / "scripts/setup").write_text(setup)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    real = f'[ "$2" != tests.part ] || exec {sys.executable} "$@"'
    python.write_text(f'#!/usr/bin/env bash\n{real}\nprintf "%s\\n" "$*"\n')
    python.chmod(0o755)
    return tree / "scripts/test"


def run(script: Path, *arguments: str) -> tuple[int, str]:
    bin_folder = script.parents[2] / "bin"
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "GIT_CEILING_DIRECTORIES": str(script.parents[2])}
    done = subprocess.run(
        ["bash", str(script), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "part", "others"),
    [
        ("", "1/8", ""),
        ("--all", "1/1", ""),
        ("-k x", "1/1", " -k x"),
        ("--all -k x", "1/1", " -k x"),
        ("-k x --all", "1/1", " -k x"),
        ("--part 2/4", "2/4", ""),
        ("--part=2/4", "2/4", ""),
        ("-x --part 2/4 -k x", "2/4", " -x -k x"),
    ],
)
def test_a_part_may_stand_anywhere_and_every_unit_test_runs(
    script: Path, arguments: str, part: str, others: str
) -> None:
    status, printed = run(script, *arguments.split())
    asked = dict(re.findall(r"^-m pytest (tests/\w+) .*\.xml(.*)$", printed, re.MULTILINE))
    of_part = f" --part {part}{others}"
    assert asked == {"tests/unit": others, "tests/spark": of_part, "tests/end_to_end": of_part}
    assert (f"part {part} of the tests" in printed) is (part != "1/1")
    assert status == 0


@pytest.mark.parametrize("arguments", ["--part", "--part 2", "--part 5/4", "--part= -x", "-k x --part"])
def test_a_script_without_a_part_that_is_one_runs_nothing(script: Path, arguments: str) -> None:
    status, printed = run(script, *arguments.split())
    assert (status, "-m pytest" in printed) == (2, False)
    assert "--part 2/4" in printed


@pytest.mark.parametrize("arguments", ["--part 2/4 tests/x.py", "tests/x.py::test_x --part 2/4"])
def test_a_part_of_a_file_is_that_part_alone(script: Path, arguments: str) -> None:
    file = script.parents[1] / "tests" / "x.py"
    file.touch()
    path = next(each for each in arguments.split() if "x.py" in each)
    assert run(script, *arguments.split()) == (0, f"-m pytest --part 2/4 {path}\n")
    assert run(script, "--all", path) == (0, f"-m pytest --part 1/1 {path}\n")
    assert run(script, path) == (0, f"-m pytest {path}\n")
