"""Literals that every reader of data files compares as Spark does: no other may decide which files are read.

ORC's reader compares texts by UTF-16, and its statistics are in UTF-8. The two orders differ only between two
characters above U+D7FF, so a literal without one is on the same side of every statistic. It also takes days for those
of a calendar that is Julian before 1582: statistics move by days there, and never past 1600. What the literals of other
formats lose by these rules is little, so nobody looks for ORC files first. ``docs/decisions/0019`` has the proof.
"""

from __future__ import annotations

from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType, TimestampType

from airflow_lake_provider.spark_jobs.sql.identifiers import text_literal

_LAST_SURE_CHARACTER = "\ud7ff"
# 1600-01-01, as a day and as a microsecond since 1970.
_FIRST_SURE_DAY = -135140
_FIRST_SURE_MICROSECOND = _FIRST_SURE_DAY * 86_400_000_000


def has_literals(kind: DataType) -> bool:
    """Tell whether values of a type are compared by literal at all."""
    # A collation has an order of its own.
    return isinstance(kind, (IntegralType, DecimalType, DateType, TimestampType)) or kind == StringType()


def sure_literal(text: str, kind: DataType | None) -> str | None:
    """Return a SQL literal equal to the value; None where it would not be compared alike everywhere.

    :param text: of ``as_text``.
    """
    match kind:
        case IntegralType():
            return f"{text}L"
        case DecimalType():
            return f"{text}BD"
        case DateType():
            return f"date_from_unix_date({text})" if int(text) >= _FIRST_SURE_DAY else None
        case TimestampType():
            return f"timestamp_micros({text}L)" if int(text) >= _FIRST_SURE_MICROSECOND else None
    if kind == StringType() and _sure_start(text) == text:
        return text_literal(text)
    return None


def least_literal(text: str, kind: DataType | None) -> str | None:
    """Return a sure literal that is not above the value; None where there is none."""
    literal = sure_literal(text, kind)
    if literal is None and kind == StringType() and _sure_start(text):
        return text_literal(_sure_start(text))
    return literal


def greatest_literal(text: str, kind: DataType | None) -> str | None:
    """Return a sure literal that is not below the value; None where there is none."""
    literal = sure_literal(text, kind)
    start = _sure_start(text).rstrip(_LAST_SURE_CHARACTER)
    if literal is None and kind == StringType() and start:
        return text_literal(start[:-1] + chr(ord(start[-1]) + 1))
    return literal


def _sure_start(text: str) -> str:
    """Return the text up to its first character above U+D7FF.

    A byte that is no UTF-8 comes to Python as U+FFFD, which is above.
    """
    end = next((place for place, character in enumerate(text) if character > _LAST_SURE_CHARACTER), len(text))
    return text[:end]
