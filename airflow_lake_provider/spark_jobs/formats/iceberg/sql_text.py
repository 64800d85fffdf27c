"""Names and text literals inside SQL statements."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """Return a column's or branch's name as SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """Return a SQL expression that is folded into a text, whatever the session's settings make of text literals."""
    # Their backslashes may or may not escape, and Spark replaces ${name} in a whole statement, literals included.
    if any(character in text for character in "\\'$"):
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    return f"'{text}'"
