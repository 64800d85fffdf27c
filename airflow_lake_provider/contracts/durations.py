"""Durations: a timedelta, or ISO-8601 text such as ``P5D`` or ``PT1H30M``; moments; milliseconds, as Iceberg counts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.errors import InvalidSpecError

# A year counts 365 days and a month 30, as pendulum counts them.
_DAYS = {"years": 365, "months": 30, "weeks": 7, "days": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"P(?=[\dT])(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def duration(value: object, name: str) -> timedelta:
    """Return a duration above zero.

    :param value: timedelta, of pendulum's class too, or ISO-8601 text (forms send text).
    :raises InvalidSpecError: for other text, a point in time, or a duration of zero or less.
    """
    try:
        given = from_iso(value) if isinstance(value, str) else value
        # pendulum's Duration is a timedelta with fields of its own.
        plain = timedelta(seconds=given.total_seconds()) if isinstance(given, timedelta) else timedelta(0)
    except (OverflowError, ValueError):
        plain = timedelta(0)
    if plain <= timedelta(0):
        raise InvalidSpecError(f"{name} must be a positive timedelta or ISO-8601 duration such as 'P5D', got {value!r}")
    return plain


def is_no_time(value: object) -> bool:
    """Tell whether a value is a duration of zero, such as ``PT0S``.

    :param value: timedelta, or ISO-8601 text; anything else is none.
    """
    try:
        return (from_iso(value) if isinstance(value, str) else value) == timedelta(0)
    except (OverflowError, ValueError):
        return False


def from_iso(text: str) -> timedelta:
    """Read ISO-8601 text of a duration.

    :raises ValueError: for anything else.
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no ISO-8601 duration")
    given = {unit: float(number) for unit, number in match.groupdict(default="0").items()}
    days = sum(given.pop(unit) * factor for unit, factor in _DAYS.items())
    return timedelta(days=days, **given)


def to_iso(value: timedelta) -> str:
    """Return the ISO-8601 text that :func:`from_iso` reads as the same duration."""
    seconds, rest = divmod(value - timedelta(days=value.days), timedelta(seconds=1))
    time = f"T{seconds}{f'.{rest.microseconds:06d}' if rest else ''}S" if seconds or rest else ""
    return f"P{value.days}D{time}"


def short_iso(value: timedelta) -> str:
    """Return the text as a person writes it, such as ``PT6H``, where the duration has whole hours or minutes."""
    for unit, seconds in (("H", 3600), ("M", 60)):
        if timedelta(0) < value < timedelta(days=1) and not value % timedelta(seconds=seconds):
            return f"PT{value // timedelta(seconds=seconds)}{unit}"
    return to_iso(value)


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC, of Python's own class.

    Airflow hands out pendulum's, whose differences are no timedelta that divides.

    :raises OverflowError: UTC has no such year.
    """
    there = moment.astimezone(UTC)
    return datetime.combine(there.date(), there.time(), UTC)


def span_millis(span: timedelta) -> int:
    """Return the whole milliseconds of a duration."""
    return span // timedelta(milliseconds=1)


def epoch_millis(moment: datetime) -> int:
    """Return the whole milliseconds from 1970 to a moment with a zone."""
    return span_millis(moment - _EPOCH)
