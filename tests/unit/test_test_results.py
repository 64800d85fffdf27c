"""Failed and skipped tests are named with their reasons; a skip that the list does not have fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import matrix_spark_3_5, test_results
from scripts.package_environment import PackageEnvironment

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
FAILING = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError("no disk")

@pytest.mark.parametrize("n", [0, 1])
def test_of_two(n):
    assert n == 0, "one is wrong"

def test_without_its_fixture(broken):
    pass
"""
ALL = ["skipped: test_it.test_with_a_database: no PostgreSQL server; install it"] * 2
ALL += ["skipped: test_it.test_of_linux: Linux has it"]
# Of a test of three lines, loading the plugins that are installed took most of the time.
QUICK = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
UNKNOWN = "; tests/allowed_skips does not have it"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skips")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", ".", "--junit-xml=found.xml", "."]
    subprocess.run(command, cwd=folder, env=QUICK, check=True, capture_output=True)
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
    capsys: pytest.CaptureFixture[str],
    allowed: str,
    refused: list[int],
) -> None:
    (tmp_path / "allowed_skips").write_text(allowed)
    assert test_results.main([str(summary)], tmp_path / "allowed_skips") == min(1, len(refused))
    told = [f"{line}{UNKNOWN if place in refused else ''}" for place, line in enumerate(ALL)]
    assert capsys.readouterr().out.splitlines() == [*told, "1 passed, 0 failed, 3 skipped, 1 failed as declared"]


def test_failed_tests_are_named_with_their_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", ".", "--junit-xml=found.xml", "."]
    assert subprocess.run(command, cwd=tmp_path, env=QUICK, check=False, capture_output=True).returncode == 1
    assert test_results.main([str(tmp_path / "found.xml")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "failed: test_it.test_of_two[1]: AssertionError: one is wrong",
        'failed: test_it.test_without_its_fixture: failed on setup with "RuntimeError: no disk"',
        "1 passed, 2 failed, 0 skipped, 0 failed as declared",
    ]


def test_a_run_of_no_test_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert test_results.main([]) == 5


@pytest.mark.parametrize(("reason", "status"), [("this Spark has no pipe syntax", 0), ("no disk", 1)])
def test_a_skip_on_spark_3_5_that_its_own_list_does_not_have_is_red(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], reason: str, status: int
) -> None:
    (tmp_path / "tests/spark/sql").mkdir(parents=True)
    test = tmp_path / "tests/spark/sql/test_query.py"
    name = "test_a_query_is_taken_whatever_words_it_has"
    test.write_text(f"import pytest\n\ndef {name}():\n    pytest.skip({reason!r})\n\ndef test_b(): pass\n")
    environment = PackageEnvironment(Path(sys.prefix), tmp_path / "log")
    arguments = ["-c", "/dev/null", "--rootdir", str(tmp_path), str(test)]
    counts = {"passed": 1, "failed": 0, "skipped": 1, "error": 0}
    assert matrix_spark_3_5.run_tests(environment, tmp_path, arguments) == (status, counts)
    unknown = "; tests/allowed_skips_spark_3_5 does not have it" if status else ""
    assert f"skipped: tests.spark.sql.test_query.{name}: {reason}{unknown}" in capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["allowed_skips", "allowed_skips_spark_3_5"])
def test_the_list_names_tests_that_there_are(name: str) -> None:
    root = Path(__file__).parents[2]
    for known in test_results.allowed_skips((root / "tests" / name).read_text()):
        module, _, function = known.test.rpartition(".")
        file = root / f"{known.test.replace('.', '/')}.py"
        within = root / f"{module.replace('.', '/')}.py"
        assert file.exists() or f"def {function}(" in within.read_text(), known
        assert known.reason
