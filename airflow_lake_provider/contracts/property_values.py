"""Read what anybody may have written into a property as a number, in range, or refuse it by name.

Strangers write them, and ``int`` takes more than digits.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from airflow_lake_provider.contracts.errors import BrokenMetadataError

# Iceberg's ids, times and counts are 64 bits wide.
LARGEST = 2**63 - 1
# The last second of the year 9999, beyond which Python has no time.
LAST_SECOND = 253_402_300_799
_BROKEN = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, StopIteration,
    RuntimeError, binascii.Error,
)  # fmt: skip
# As many digits as 2**63 has. ``str.isdigit`` takes "²" and other scripts' digits, and ``int`` refuses 4,301 of them.
_DIGITS = re.compile(r"[0-9]{1,19}")
_LONGEST_SHOWN = 60


def whole_number(text: object) -> int | None:
    """Return the number that ASCII digits write; None for anything else, and for what a Java ``long`` cannot hold."""
    if not isinstance(text, str) or not _DIGITS.fullmatch(text) or (number := int(text)) > LARGEST:
        return None
    return number


def number_property(table: str, properties: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """Return a number that a table property holds; ``default`` where it is not set.

    :param table: named in the error.
    :raises BrokenMetadataError: it is no whole number from 0 on.
    """
    text = properties.get(name)
    if text is None:
        return default
    number = whole_number(text.strip())
    if number is None:
        raise BrokenMetadataError(
            f"{table}: property {name!r} is {shown(text)}, expected a whole number from 0 on; set it, or remove it "
            f"with ALTER TABLE ... UNSET TBLPROPERTIES ('{name}')"
        )
    return number


def number_or(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return a number above 0 that a table property holds; ``default`` for anything else, which others refuse."""
    return whole_number(properties.get(name, "").strip()) or default


def moment(seconds: int) -> datetime | None:
    """Return the time of so many seconds after 1970; None where no ``datetime`` is so far away."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def shown(text: str) -> str:
    """Return a text as an error shows it: quoted, escaped, and cut where it is long."""
    cut = ascii(text[:_LONGEST_SHOWN])
    return cut if len(text) <= _LONGEST_SHOWN else f"{cut} and {len(text) - _LONGEST_SHOWN} characters more"


def checked_number(text: str, most: int = LARGEST) -> int:
    """Read a number that has to be one.

    :raises ValueError: it is none, or above ``most``.
    """
    number = whole_number(text)
    if number is None or number > most:
        raise ValueError(f"it is no number from 0 to {most}")
    return number


def is_whole_number(value: object, most: int = LARGEST) -> bool:
    """Tell whether a value of JSON is a number from 0 to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def count_of(summary: Mapping[str, str], name: str) -> int:
    """Return a count of a snapshot's summary; 0 where it is not said, or is no number."""
    return whole_number(summary.get(name)) or 0


@contextmanager
def reading_property(table: str, name: str, properties: Mapping[str, str], remedy: str) -> Iterator[None]:
    """Name the table and the property in the error of what reads it.

    :param remedy: sentence that says what to do.
    :raises BrokenMetadataError: the property cannot be read.
    """
    try:
        yield
    except _BROKEN as error:
        raise BrokenMetadataError(
            f"{table}: the table property {name} is {shown(properties.get(name, ''))}, which is not what this package "
            f"writes there: {type(error).__name__} {str(error)[:200]}. {remedy}"
        ) from error
