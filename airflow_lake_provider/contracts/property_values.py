"""Read what anybody may have written into a table's properties and summaries: numbers in range, or an error by name."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.metadata_numbers import whole_number

# Iceberg's ids, times and counts are 64 bits wide.
LARGEST = 2**63 - 1
# The last second of the year 9999, beyond which Python has no time.
LAST_SECOND = 253_402_300_799
_MOST_SHOWN = 80
_BROKEN = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, StopIteration,
    RuntimeError, binascii.Error,
)  # fmt: skip


def checked_number(text: str, most: int = LARGEST) -> int:
    """Read a number that has to be one.

    :raises ValueError: it is none, or above ``most``.
    """
    found = whole_number(text)
    if found is None or found > most:
        raise ValueError(f"it is no number from 0 to {most}")
    return found


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
        text = ascii(properties.get(name, ""))
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... of {len(text):,} characters"
        raise BrokenMetadataError(
            f"{table}: the table property {name} is {shown}, which is not what this package writes there: "
            f"{type(error).__name__} {str(error)[:200]}. {remedy}"
        ) from error
