"""Spark's settings in a file that only its owner reads: a command line shows secrets to everybody on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def properties_text(settings: Mapping[str, str], author_file: str | None = None) -> str:
    """Return the text of a properties file.

    :param author_file: path of the author's own file, which comes after ``settings`` and wins.
    """
    text = "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in sorted(settings.items()))
    return text + (Path(author_file).read_text(encoding="utf-8") if author_file is not None else "")


def _escape(text: str, *, key: bool = False) -> str:
    """Escape for ``java.util.Properties``, which Spark reads as UTF-8."""
    escaped = text.replace("\\", "\\\\")
    for sign, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"), ("\f", "f")):
        escaped = escaped.replace(sign, "\\" + letter)
    if key:
        for sign in (" ", "=", ":", "#", "!"):
            escaped = escaped.replace(sign, "\\" + sign)
    return "\\" + escaped if escaped.startswith(" ") else escaped
