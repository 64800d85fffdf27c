"""Terms of a table's layout: a column, or an Iceberg transform of one, as Spark SQL writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_lake_provider.contracts.errors import InvalidSpecError

_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)"
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_COLUMN = re.compile(_PATH)
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
# A run of blanks is looked at from its start alone, so that a long one takes no longer than it is.
_ORDER = re.compile(
    r"(.*?)(?:(?<!\s)\s++(?:ASC|DESC))?(?:(?<!\s)\s++NULLS\s++(?:FIRST|LAST))?", re.IGNORECASE | re.DOTALL
)
# As Iceberg's Spark catalog reads them.
_OF_COLUMN = frozenset(
    ("identity", "year", "years", "month", "months", "day", "days", "date", "hour", "hours", "date_hour")
)
_OF_NUMBER = {"bucket": "buckets", "truncate": "characters"}
_KNOWN = "a column, identity(c), bucket(n, c), truncate(n, c), years(c), months(c), days(c) or hours(c)"


@dataclass(frozen=True, kw_only=True)
class LayoutTerm:
    """A column or a transform of it, such as ``days(placed_at)`` or ``bucket(16, id)``.

    :param transform: name in lower case; ``identity`` for a bare column.
    :param column: the column and, of a nested field, the names down to it; without backticks.
    :param number: buckets, or the width of ``truncate``.
    """

    transform: str
    column: tuple[str, ...]
    number: int | None = None

    @classmethod
    def parse(cls, text: str, role: str) -> LayoutTerm:
        """Read a term.

        :param role: argument that the term is of, for messages.
        :raises InvalidSpecError: for anything else; nothing of it has reached Spark.
        """
        plain = str(text).strip()
        if "${" in plain:
            raise _refused(text, role, "'${' would be replaced by a setting or an environment variable")
        if _COLUMN.fullmatch(plain):
            return cls(transform="identity", column=_names(plain))
        called = _CALL.fullmatch(plain)
        if called is None:
            raise _refused(text, role, "a name with other characters than letters, digits and '_' goes in backticks")
        return cls._of_call(text, role, called[1].lower(), called[2].strip())

    @classmethod
    def _of_call(cls, text: str, role: str, transform: str, arguments: str) -> LayoutTerm:
        if transform in _OF_COLUMN:
            if not _COLUMN.fullmatch(arguments):
                raise _refused(text, role, f"{transform} takes one column")
            return cls(transform=transform, column=_names(arguments))
        if transform not in _OF_NUMBER:
            raise _refused(text, role, f"Iceberg has no transform {transform!r}")
        return cls._of_number(text, role, transform, arguments)

    @classmethod
    def _of_number(cls, text: str, role: str, transform: str, arguments: str) -> LayoutTerm:
        given = re.fullmatch(rf"(\d+)\s*,\s*({_PATH})", arguments)
        turned = re.fullmatch(rf"({_PATH})\s*,\s*(\d+)", arguments)
        unit = _OF_NUMBER[transform]
        if turned is not None:
            raise _refused(text, role, f"the number of {unit} comes first: {transform}({turned[2]}, {turned[1]})")
        if given is None:
            raise _refused(text, role, f"{transform} takes the number of {unit} and a column: {transform}(16, id)")
        # Iceberg keeps both as an int of Java.
        if not 0 < int(given[1]) < 2**31:
            raise _refused(text, role, f"the number of {unit} is between 1 and 2147483647, not {given[1]}")
        return cls(transform=transform, column=_names(given[2]), number=int(given[1]))


def partition_terms(texts: Sequence[str]) -> tuple[LayoutTerm, ...]:
    """Read the terms of ``partition_by``.

    :raises InvalidSpecError: a text is no term.
    """
    return tuple(LayoutTerm.parse(text, "partition_by") for text in texts)


def sort_terms(texts: Sequence[str]) -> tuple[LayoutTerm, ...]:
    """Read the terms of ``sort_by``; ``ASC`` or ``DESC`` and ``NULLS FIRST`` or ``NULLS LAST`` may follow each.

    :raises InvalidSpecError: a text is no such term.
    """
    terms = []
    for text in texts:
        ordered = _ORDER.fullmatch(str(text).strip())
        terms.append(LayoutTerm.parse(ordered[1] if ordered else text, "sort_by"))
    return tuple(terms)


def _names(path: str) -> tuple[str, ...]:
    found = re.findall(_NAME, path)
    return tuple(name[1:-1].replace("``", "`") if name[0] == "`" else name for name in found)


def _refused(text: str, role: str, why: str) -> InvalidSpecError:
    order = ", each with ASC or DESC and NULLS FIRST or NULLS LAST" if role == "sort_by" else ""
    return InvalidSpecError(f"{role} {text!r} is no term of a layout: {why}. A term is {_KNOWN}{order}")
