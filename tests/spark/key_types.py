"""Types of key columns: values that lie on both sides of what readers compare wrongly, and how each is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

_DAYS = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1599, 12, 31), date(1600, 1, 1), date(1969, 12, 31)]
_DAYS += [date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
_MOMENTS = [datetime(day.year, day.month, day.day, 10, 30, 0, 123456, UTC) for day in _DAYS]
# ORC cannot tell the last second before 1970 from the first one after (decisions/0019).
_MOMENTS += [
    datetime(1969, 12, 31, 23, 59, 58, 999999, UTC),
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
]
_TEXTS = [
    "",
    "A",
    "a",
    "it's",
    'say "x"',
    "a\\b",
    "\\",
    "$",
    "${env:HOME}",
    "%_",
    "tab\tline\n",
    "é",
    "e\u0301",
    "I",
    "\u0131",
]
_TEXTS += ["\ud7ff", "\ue000", "\uff21", "\uffee", "\U0001f600", "\U0001f600\U0001f600", "A\uff21", "A\U0001f600"]
# Bounds of metrics are cut after 16 characters, and the last one of an upper bound is raised.
_TEXTS += [
    "abcdefghijklmno\uff21z",
    "abcdefghijklmno\U0001f600z",
    "abcdefghijklmno\ud7ffz",
    "\U0010ffff" * 17,
    "z" * 40,
]
_BYTES = [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\x00\xff", b"\xff" * 20, b"it's", b"A"]


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def _moment(value: datetime) -> str:
    return value.isoformat(sep=" ")


@dataclass(frozen=True)
class KeyType:
    """A type of a key column.

    :param name: as SQL spells it.
    :param arrow: its type in Parquet files.
    :param values: that a batch may have.
    :param literal: from a value to SQL.
    """

    name: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    literal: Callable[[Any], str]
    transforms: tuple[str, ...] = field(default=())


KEY_TYPES = {
    kind.name: kind
    for kind in (
        KeyType("INT", pa.int32(), (-(2**31), -1, 0, 1, 7, 2**31 - 1), str, ("bucket(3, {})", "truncate(5, {})", "{}")),
        KeyType(
            "BIGINT", pa.int64(), (-(2**63) + 1, -1, 0, 1, 2**40, 2**63 - 1), "{}L".format, ("bucket(3, {})", "{}")
        ),
        KeyType(
            "DECIMAL(20,4)",
            pa.decimal128(20, 4),
            tuple(
                map(
                    Decimal,
                    # The next multiple of a width below it has to have as many digits.
                    ("-9999999999999999.0000", "-0.5000", "0.0000", "0.0001", "12.3400", "9999999999999999.9999"),
                )
            ),
            "{}BD".format,
            ("bucket(3, {})", "truncate(10, {})"),
        ),
        KeyType("STRING", pa.string(), tuple(_TEXTS), _escaped, ("bucket(3, {})", "truncate(2, {})", "{}")),
        KeyType(
            "DATE",
            pa.date32(),
            tuple(_DAYS),
            "DATE '{}'".format,
            ("years({})", "months({})", "days({})", "bucket(3, {})"),
        ),
        KeyType(
            "TIMESTAMP",
            pa.timestamp("us", "UTC"),
            tuple(_MOMENTS),
            lambda value: f"TIMESTAMP '{_moment(value.replace(tzinfo=None))}Z'",
            ("years({})", "days({})", "hours({})", "bucket(3, {})"),
        ),
        KeyType(
            "TIMESTAMP_NTZ",
            pa.timestamp("us"),
            tuple(moment.replace(tzinfo=None) for moment in _MOMENTS),
            lambda value: f"TIMESTAMP_NTZ '{_moment(value)}'",
            ("months({})", "days({})", "bucket(3, {})"),
        ),
        KeyType("BOOLEAN", pa.bool_(), (True, False), lambda value: str(value).lower(), ("{}",)),
        KeyType(
            "BINARY",
            pa.binary(),
            tuple(_BYTES),
            lambda value: f"X'{value.hex()}'",
            ("bucket(3, {})", "truncate(1, {})"),
        ),
        # Text to Spark; a table with such a column is made by PyIceberg.
        KeyType(
            "UUID",
            pa.string(),
            tuple(str(UUID(int=number)) for number in (0, 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**128 - 1)),
            _escaped,
            ("bucket(3, {})",),
        ),
    )
}


def plain(value: Any) -> Any:
    """Return a value that was read, as the model has it."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value
