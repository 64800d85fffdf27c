"""Durations as an author gives them: timedelta or ISO 8601."""

from __future__ import annotations

import math
from datetime import timedelta

import pendulum

from airflow_lake_provider.contracts.errors import InvalidSpecError


def duration(value: object, name: str) -> timedelta:
    """Return a duration above zero.

    :param value: timedelta, pendulum.Duration, or ISO-8601 text such as ``P5D`` (forms send text).
    :raises InvalidSpecError: for other text, a point in time, or a duration of zero or less.
    """
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = pendulum.parse(value)
        except ValueError:
            parsed = None
        if isinstance(parsed, pendulum.Interval):
            # Two points in time; ISO-8601 text of a duration names none.
            parsed = None
    if not isinstance(parsed, timedelta) or parsed <= timedelta(0):
        raise InvalidSpecError(f"{name} must be a positive timedelta or ISO-8601 duration such as 'P5D', got {value!r}")
    return parsed


def days(value: object, name: str) -> int:
    """Return a duration in whole days, a part of a day as one.

    :raises InvalidSpecError: as :func:`duration`.
    """
    return math.ceil(duration(value, name).total_seconds() / timedelta(days=1).total_seconds())


def at_least_nothing(value: object, name: str) -> timedelta:
    """Return a duration of zero or more that the code of a DAG gives.

    :raises InvalidSpecError: for a text, which a template could have made, and for less than zero.
    """
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidSpecError(f"{name} must be a timedelta of zero or more, and no template, got {value!r}")
    return value
