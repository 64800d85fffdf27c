"""Print each skipped test with its reason, and fail where ``tests/allowed_skips`` does not have it.

A test is skipped where a machine lacks what it needs. Without the list nobody would see that a CI lost its database.
One that is expected to fail has run: it is no skip.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ALLOWED = Path(__file__).resolve().parents[1] / "tests" / "allowed_skips"


@dataclass(frozen=True)
class Skip:
    """A test that was skipped.

    :param test: ``tests.unit.test_lock.test_name``, without parameters.
    """

    test: str
    reason: str

    def __str__(self) -> str:
        return f"skipped: {self.test}: {self.reason}"


def skips_of(summary: Path) -> Iterator[Skip]:
    """Give the skipped tests of a file that pytest's ``--junit-xml`` wrote."""
    for case in ET.parse(summary).iter("testcase"):  # noqa: S314  # pytest has written it
        for skipped in case.iter("skipped"):
            if skipped.get("type") == "pytest.xfail":
                continue
            name = str(case.get("name")).partition("[")[0]
            yield Skip(f"{case.get('classname')}.{name}", str(skipped.get("message")))


def allowed_skips(text: str) -> list[Skip]:
    """Read the list: a line ``test: reason`` each, where a module stands for its tests, and comments."""
    lines = (line.strip() for line in text.splitlines())
    parts = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return [Skip(test, reason) for test, _, reason in parts]


def main(summaries: list[str]) -> int:
    """Print the skips of all files; 1 where one is not allowed."""
    allowed = allowed_skips(ALLOWED.read_text())
    refused = 0
    for skip in (found for name in summaries for found in skips_of(Path(name))):
        is_allowed = any(skip.test.startswith(known.test) and known.reason in skip.reason for known in allowed)
        refused += not is_allowed
        print(f"{skip}{'' if is_allowed else '; tests/allowed_skips does not have it'}")
    return min(refused, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
