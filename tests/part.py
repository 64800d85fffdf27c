"""A part of the tests, for which a change waits; all parts together are every test.

``--part 2/4`` runs every fourth test of a file, beginning somewhere else than ``--part 1/4``. A test that is marked
``in_every_part`` is in each of them. ``python -m tests.part 2/4`` fails where that names no part.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, field

import pytest


@dataclass
class Part:
    """Every n-th test of each file.

    :param number: from 1 to ``count``.
    :param count: how many parts there are.
    """

    number: int
    count: int
    _seen: Counter[str] = field(default_factory=Counter)

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read ``2/4``.

        :raises pytest.UsageError: for any other text, and a number above the count.
        """
        shape = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
        if not shape or int(shape[1]) > int(shape[2]):
            raise pytest.UsageError(f"--part is {text!r}; give the number of a part and their count: --part 2/4")
        return cls(int(shape[1]), int(shape[2]))

    def takes(self, test: pytest.Item) -> bool:
        """Tell whether this part runs a test; tests are asked for once each, in their order."""
        if test.get_closest_marker("in_every_part"):
            return True
        file = test.nodeid.partition("::")[0]
        self._seen[file] += 1
        # By its place alone, the only test of a file would always be in the first part.
        return (self._seen[file] + zlib.crc32(file.encode())) % self.count == self.number % self.count


if __name__ == "__main__":
    try:
        Part.parse(sys.argv[1])
    except pytest.UsageError as refusal:
        sys.exit(str(refusal))
