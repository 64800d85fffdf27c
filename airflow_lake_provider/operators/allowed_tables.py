"""The tables that a task may work on, where a form names the table: patterns of whole names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.untemplated_arguments import names

# What `*` and `?` may stand for in a form: names need no more, and no SQL fits in.
_NAMED = r"[\w.\-]"
# A `*` that is a whole part of a name stands for no empty one.
_PARTS = re.compile(r"(?P<whole>(?<![^.])\*(?![^.]))|.", re.DOTALL)
# Escaped beside letters that have a meaning, an ordinary one is an error in browsers.
_MEANT = re.compile(r"[.^$*+?()\[\]{}|\\/]")


def table_patterns(value: object) -> tuple[str, ...] | None:
    """Return patterns of table names as a tuple; None for none.

    :raises InvalidSpecError: for what is no list of texts, or has a template.
    """
    return None if value is None else names(value, "allowed_tables", "patterns of table names, such as ['shop.*']")


def refuse_other_tables(table: str, allowed: Sequence[str] | None) -> None:
    """Refuse a table that no pattern allows.

    :param allowed: patterns such as ``shop.*``, in which ``*`` stands for anything; None allows all.
    :raises InvalidSpecError: naming the patterns.
    """
    if allowed is not None and not any(fnmatchcase(table, pattern) for pattern in allowed):
        raise InvalidSpecError(f"table {table!r} is none of those that this task may work on: {', '.join(allowed)}")


def form_pattern(allowed: Sequence[str]) -> str:
    """Return the ``pattern`` of a ``Param`` that names a table: of ``["shop.*"]`` it takes ``shop.orders``.

    The form then refuses other names before there is a run, and the operator's ``allowed_tables`` refuses them again.

    :param allowed: patterns as ``allowed_tables`` takes them, but for ``[...]``. In a form ``*`` stands for letters,
        digits, ``_``, ``.`` and ``-``, and ``?`` for one of them; a browser knows the letters of English only.
    :return: a regular expression for Python and for browsers.
    :raises InvalidSpecError: for what is no list of texts, and for a pattern with ``[``.
    """
    patterns = table_patterns(allowed) or ()
    for pattern in patterns:
        if "[" in pattern:
            raise InvalidSpecError(
                f"allowed tables of a form may have * and ?, not [...], got {pattern!r}; list the names"
            )
    # To Python alone the end is also before a last newline.
    return f"^({'|'.join(_PARTS.sub(_translated, pattern) for pattern in patterns)})$(?!\\n)"


def _translated(part: re.Match[str]) -> str:
    text = part[0]
    if text == "*":
        return f"{_NAMED}+" if part.lastgroup == "whole" else f"{_NAMED}*"
    return _NAMED if text == "?" else _MEANT.sub(r"\\\g<0>", text)
