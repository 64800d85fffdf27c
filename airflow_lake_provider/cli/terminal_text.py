"""Texts that strangers wrote, as a terminal may show them."""

from __future__ import annotations

from rich.markup import escape


def printable(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def unstyled(text: str) -> str:
    """Return a text in which rich finds no style, for a cell of its own."""
    # A backslash at the end would be doubled, for the sake of markup behind it.
    return escape(f"{text} ")[:-1]
