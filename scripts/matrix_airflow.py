"""Try the wheel with several versions of Airflow and of Python: tests that need no Spark, and the README's ten lines.

Each version gets an environment of its own, below LAKE_HOME/matrix. Versions outside the pins of setup.cfg are
installed all the same, so that the pins can follow from what passes. Interpreters are those of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from configparser import ConfigParser
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version
from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from scripts.fetch_jars import fetch_missing, read_lock  # noqa: E402  # found by the line above
from scripts.package_environment import (  # noqa: E402
    PYTHONS,
    PackageEnvironment,
    StepFailedError,
    find_pythons,
    requirements_of,
)
from scripts.release import DISTRIBUTION, build  # noqa: E402
from scripts.ten_lines import providers_listed, run_ten_lines  # noqa: E402

AIRFLOWS = ("3.3.*", "3.3.0", "3.2.*", "3.1.*")
# PostgreSQL's driver is asked for by one test.
EXTRAS = ("sqlite", "postgres")
TEST_TOOLS = ("hypothesis", "jsonschema", "moto[server]", "pytest", "pytest-asyncio", "pytest-xdist")
# Unit tests of the repository's own files (docs, images, the lock) ask nothing of Airflow.
TESTS = (
    *("assets", "catalogs", "contracts", "hooks", "operators", "planning", "sensors", "snapshots", "submission"),
    *("triggers", "test_dags.py", "test_private_names.py"),
)
NEEDED_BY_TESTS = ("dags", "docs", "pyproject.toml", "scripts", "setup.cfg", "tests")
console = Console(highlight=False, markup=False)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One pair of versions, and what became of it.

    :param airflow: the version installed, or the pattern where none could be.
    :param pinned: whether setup.cfg allows it.
    :param failed: test files with failures, or the step that failed.
    """

    airflow: str
    python: str
    pinned: bool
    tests: str
    ten_lines: str
    failed: tuple[str, ...]
    seconds: int


def main() -> int:
    """Try all pairs, and print a table and a JSON line; the exit code is 1 where a version within the pins failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--airflow", nargs="+", default=list(AIRFLOWS), help="versions, such as 3.2.* or 3.3.0")
    parser.add_argument("--python", nargs="+", default=list(PYTHONS), help="for the first of these Airflows")
    parser.add_argument("--override", nargs="+", default=[], help="for example pydantic<2.13, for an older Airflow")
    options = parser.parse_args()
    pythons = find_pythons(options.python)
    for version in options.python:
        if version not in pythons:
            console.print(f"Python {version} was not found on this machine, and is not tried")
    if not pythons:
        return 1
    fetch_missing(read_lock(), Path(os.environ["LAKE_JARS"]))
    folder = Path(os.environ["LAKE_HOME"]) / "matrix"
    shutil.rmtree(folder, ignore_errors=True)
    (wheel,) = build(REPOSITORY, folder).glob("*.whl")
    # The other Airflows on one Python: what differs between Pythons is not Airflow's matter.
    oldest = next(iter(pythons))
    pairs = [(options.airflow[0], python) for python in pythons]
    pairs += [(airflow, oldest) for airflow in options.airflow[1:]]
    attempts = []
    for airflow, python in pairs:
        overrides = [f"apache-airflow=={airflow}", *options.override]
        attempts.append(attempt(wheel, folder, (airflow, python), pythons[python], overrides))
        console.print(f"Airflow {attempts[-1].airflow}, Python {python}: {sentence(attempts[-1])}", soft_wrap=True)
    show(attempts)
    print(json.dumps({"matrix": "airflow", "attempts": [asdict(each) for each in attempts]}))
    return 1 if any(each.failed for each in attempts if each.pinned) else 0


def attempt(wheel: Path, folder: Path, pair: tuple[str, str], interpreter: Path, overrides: Sequence[str]) -> Attempt:
    """Install, test and run with one pair of versions, Airflow's and Python's.

    :param overrides: requirements that win over what packages ask for, the version of Airflow among them.
    """
    airflow, python = pair
    started = time.monotonic()
    place = folder / f"airflow-{airflow.replace('.*', '')}-python-{python}"
    version, tests, ran = airflow, "not run", "not run"
    failed: list[str] = []
    try:
        requirements = [str(wheel), *requirements_of(wheel, EXTRAS), *TEST_TOOLS]
        environment = PackageEnvironment.make(place, interpreter, requirements, overrides=overrides)
        version = environment.versions()["apache-airflow"]
        tests, failed = run_tests(environment, place)
        if providers_listed(environment, place / "home").get(DISTRIBUTION) is None:
            raise StepFailedError("airflow providers list does not have the provider")
        run_ten_lines(environment, place / "home", runs=1)
        ran = "passed"
    except StepFailedError as error:
        failed.append(str(error).splitlines()[0])
        ran = "failed" if tests != "not run" else ran
    return Attempt(
        airflow=version,
        python=python,
        pinned=is_pinned(version),
        tests=tests,
        ten_lines=ran,
        failed=tuple(failed),
        seconds=round(time.monotonic() - started),
    )


def run_tests(environment: PackageEnvironment, place: Path) -> tuple[str, list[str]]:
    """Run the tests against the installed package, and return their count and the failures by name.

    They run in a copy of their own, where the repository's package is not found.
    """
    copy = place / "repository"
    copy.mkdir()
    for name in NEEDED_BY_TESTS:
        source = REPOSITORY / name
        shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy(source, copy)
    output = environment.run(
        *(str(environment.python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--tb", "short"),
        "--continue-on-collection-errors",
        *(f"tests/unit/{name}" for name in TESTS),
        folder=copy,
        accepted=(0, 1, 2),
    )
    shutil.rmtree(copy)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return output.strip().splitlines()[-1].strip("= "), failed


def is_pinned(version: str) -> bool:
    """Tell whether setup.cfg allows a version of Airflow."""
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    lines = parser["options"]["install_requires"].split()
    (pin,) = (each for each in map(Requirement, lines) if each.name == "apache-airflow")
    return "*" not in version and Version(version) in pin.specifier


def sentence(tried: Attempt) -> str:
    """Return what became of an attempt, failures by name."""
    failed = f"; failed: {', '.join(tried.failed)}" if tried.failed else ""
    return f"tests: {tried.tests}; ten lines: {tried.ten_lines}{failed}; {tried.seconds} s"


def show(attempts: list[Attempt]) -> None:
    """Print the table."""
    sheet = Table(title="Airflow and Python")
    for heading in ("Airflow", "Python", "pinned", "tests", "ten lines"):
        sheet.add_column(heading)
    for each in attempts:
        sheet.add_row(each.airflow, each.python, "yes" if each.pinned else "no", each.tests, each.ten_lines)
    console.print(sheet)


if __name__ == "__main__":
    sys.exit(main())
