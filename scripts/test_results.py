"""Sum up what pytest wrote of a run: each failed and each skipped test by name, and the counts.

A test is skipped where a machine lacks what it needs. One that ``tests/allowed_skips`` does not have fails the run:
without the list nobody would see that a CI lost its database. A test that is expected to fail, and does, is no skip.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ALLOWED = Path(__file__).resolve().parents[1] / "tests" / "allowed_skips"
NOTHING_RAN = 5


@dataclass(frozen=True)
class Skip:
    """A test that was skipped.

    :param test: ``tests.unit.test_lock.test_name``, without parameters.
    """

    test: str
    reason: str

    def __str__(self) -> str:
        return f"skipped: {self.test}: {self.reason}"


@dataclass(frozen=True)
class Result:
    """How one test ended.

    :param outcome: ``passed``, ``failed``, ``skipped`` or ``failed as declared``.
    :param reason: first line of the message.
    """

    test: str
    outcome: str
    reason: str = ""


def results_of(summary: Path) -> Iterator[Result]:
    """Give the results of a file that pytest's ``--junit-xml`` wrote."""
    for case in ET.parse(summary).iter("testcase"):  # noqa: S314  # pytest has written it
        test = f"{case.get('classname')}.{case.get('name')}"
        endings = [each for each in case if each.tag in ("failure", "error", "skipped")]
        if not endings:
            yield Result(test, "passed")
        for ending in endings[:1]:
            yield Result(test, _outcome(ending), str(ending.get("message")).partition("\n")[0])


def _outcome(ending: ET.Element) -> str:
    if ending.tag != "skipped":
        return "failed"
    return "failed as declared" if ending.get("type") == "pytest.xfail" else "skipped"


def allowed_skips(text: str) -> list[Skip]:
    """Read the list: a line ``test: reason`` each, where a module stands for its tests, and comments."""
    lines = (line.strip() for line in text.splitlines())
    parts = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return [Skip(test, reason) for test, _, reason in parts]


def main(summaries: list[str], skips: Path = ALLOWED) -> int:
    """Print failures, skips and counts; 1 where a test failed or a skip is not allowed, 5 where no test ran.

    :param skips: the list of skips that are allowed; the default is that of ``scripts/test``.
    """
    allowed = allowed_skips(skips.read_text())
    results = [result for name in summaries for result in results_of(Path(name))]
    faults = 0
    for result in results:
        if result.outcome == "failed":
            faults += 1
            print(f"failed: {result.test}: {result.reason}")
        if result.outcome == "skipped":
            skip = Skip(result.test.partition("[")[0], result.reason)
            is_allowed = any(
                skip.test.startswith(allowance.test) and allowance.reason in skip.reason for allowance in allowed
            )
            faults += not is_allowed
            print(f"{skip}{'' if is_allowed else f'; tests/{skips.name} does not have it'}")
    counts = Counter(result.outcome for result in results)
    print(", ".join(f"{counts[each]} {each}" for each in ("passed", "failed", "skipped", "failed as declared")))
    return min(faults, 1) if results else NOTHING_RAN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
