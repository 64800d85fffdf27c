"""The tables that a task may write and read, where a form names one: patterns of whole names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from airflow_lake_provider.contracts.argument_validation import names
from airflow_lake_provider.contracts.author_object import refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError

# What `*` and `?` may stand for in a form: names need no more, and no SQL fits in.
_NAMED = r"[\w.\-]"
# A `*` that is a whole part of a name stands for no empty one.
_PARTS = re.compile(r"(?P<whole>(?<![^.])\*(?![^.]))|\*++|[^*]++")
# Escaped beside letters that have a meaning, an ordinary one is an error in browsers.
_MEANT = re.compile(r"[.^$*+?()\[\]{}|\\/]")


def table_patterns(value: object) -> tuple[str, ...] | None:
    """Return patterns of table names as a tuple; None for none.

    :raises InvalidSpecError: for what is no list of texts, or has a template.
    """
    refuse_template(value, "allowed_tables")
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
        digits, ``_``, ``.`` and ``-``, and ``?`` for one of them. A browser knows the letters of English only.
    :return: a regular expression for Python and for browsers.
    :raises InvalidSpecError: for what is no list of texts, and for a pattern with ``[``.
    """
    patterns = table_patterns(allowed) or ()
    for pattern in patterns:
        if "[" in pattern:
            raise InvalidSpecError(
                f"allowed tables of a form may have * and ?, not [...], got {pattern!r}; list the names"
            )
    forms: list[str] = []
    for pattern in patterns:
        # The whole is group 1, and each form has one group for each `*` but its last.
        groups = 2 + "".join(forms).count("(?=(")
        forms.append(_form(pattern, groups))
    # To Python alone the end is also before a last newline.
    return f"^({'|'.join(forms)})$(?!\\n)"


def _form(pattern: str, group: int) -> str:
    """Return one pattern as an expression that never gives back what a ``*`` before its last one took.

    Browsers have no possessive ``*+``; a look ahead and its group do the same. The shortest text up to the next sign
    is always enough, as all between two ``*`` has one length.

    :param group: number of the first group of it.
    """
    parts = list(_PARTS.finditer(pattern))
    stars = [place for place, part in enumerate(parts) if part[0][0] == "*"]
    translated = [_translated(part) for part in parts]
    for place, following in reversed(list(pairwise(stars))):
        taken = f"{translated[place]}?{''.join(translated[place + 1 : following])}"
        translated[place:following] = [f"(?=({taken}))(?:\\{group + stars.index(place)})"]
    return "".join(translated)


def _translated(part: re.Match[str]) -> str:
    if part[0][0] == "*":
        return f"{_NAMED}+" if part.lastgroup == "whole" else f"{_NAMED}*"
    return _MEANT.sub(lambda sign: _NAMED if sign[0] == "?" else f"\\{sign[0]}", part[0])
