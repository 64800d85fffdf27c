"""Names and text literals inside SQL statements."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """Return a column's or branch's name as SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """Return a SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    # Spark replaces ${name} in a whole statement, literals included.
    escaped = escaped.replace("$", "\\u0024")
    return f"'{escaped}'"
