"""A skipped test is told with its reason; one that the list does not have fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import skipped_tests

TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_with_a_database(n):
    pytest.skip("no PostgreSQL server; install it")

@pytest.mark.skipif(True, reason="Linux has it")
def test_of_linux():
    pass

@pytest.mark.xfail(strict=True, reason="a declared gap")
def test_of_a_gap():
    assert False

def test_that_runs():
    pass
"""
ALL = ["skipped: test_it.test_with_a_database: no PostgreSQL server; install it"] * 2
ALL += ["skipped: test_it.test_of_linux: Linux has it"]
UNKNOWN = "; tests/allowed_skips does not have it"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skips")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", ".", "--junit-xml=found.xml", "."]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "found.xml"


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ("test_it.test_with_a_database: no PostgreSQL\n# a comment\n\ntest_it.test_of_linux: Linux", []),
        ("test_it: no PostgreSQL\ntest_it: Linux has it", []),
        ("test_it.test_with_a_database: no PostgreSQL", [2]),
        # Skipped for another reason than the one that is known.
        ("test_it.test_with_a_database: no disk\ntest_it.test_of_linux: Linux", [0, 1]),
        ("", [0, 1, 2]),
    ],
)
def test_a_skip_that_the_list_does_not_have_is_red(
    summary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    allowed: str,
    refused: list[int],
) -> None:
    (tmp_path / "allowed").write_text(allowed)
    monkeypatch.setattr(skipped_tests, "ALLOWED", tmp_path / "allowed")
    assert skipped_tests.main([str(summary)]) == min(1, len(refused))
    told = [f"{line}{UNKNOWN if place in refused else ''}" for place, line in enumerate(ALL)]
    assert capsys.readouterr().out.splitlines() == told


def test_the_list_names_tests_that_there_are() -> None:
    root = Path(__file__).parents[2]
    for known in skipped_tests.allowed_skips((root / "tests" / "allowed_skips").read_text()):
        module, _, name = known.test.rpartition(".")
        file = root / f"{known.test.replace('.', '/')}.py"
        within = root / f"{module.replace('.', '/')}.py"
        assert file.exists() or f"def {name}(" in within.read_text(), known
        assert known.reason
