"""Texts that strangers wrote, as a terminal may show them."""

from __future__ import annotations

import re

# As rich finds a tag, with the backslashes that may escape it.
_TAG = re.compile(r"(?<!\\)(\\*)(\[[a-z#/@][^\[]*?\])")


def printable(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def unstyled(text: str) -> str:
    """Return a text in which rich finds no style, for a cell of its own."""
    return _TAG.sub(r"\1\1\\\2", text)
