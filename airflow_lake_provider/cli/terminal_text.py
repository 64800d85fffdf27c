"""Texts that strangers wrote, as a terminal may show them."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def unstyled(text: str) -> str:
    """Return a text without what rich takes for a style."""
    return text.replace("[", r"\[")
