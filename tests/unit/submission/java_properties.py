"""Read properties as ``java.util.Properties.load(Reader)`` documents it: the oracle for files that Spark reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def load(text: str) -> dict[str, str]:
    """Return the properties of a file; of equal keys the last wins."""
    return dict(_pair(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    continues = False
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(_BLANK)
        if not continues and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continues = backslashes % 2 == 1
        joined += line[:-1] if continues else line
        if not continues:
            yield joined
            joined = ""
    if joined:
        yield joined


def _pair(line: str) -> tuple[str, str]:
    found = re.fullmatch(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
    assert found is not None
    return _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    def sign(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _LETTERS.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", sign, text, flags=re.DOTALL)
