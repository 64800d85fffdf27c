"""Read the settings of sensors and watchers: poll interval, looks at once, their timeout, and when one is overdue."""

from __future__ import annotations

from datetime import timedelta

from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.call_limits import positive_setting

DEFAULT_CONNECTION = "lake_default"
_LONGEST = timedelta.max.total_seconds()


def seconds_of(value: object, name: str) -> float:
    """Return a time between two looks, or two events, in seconds.

    :param value: seconds, a timedelta or ISO-8601 text.
    :raises InvalidSpecError: it is none of these, or less than 0.
    """
    if isinstance(value, timedelta | str):
        return duration(value, name).total_seconds()
    # NaN, which no JSON has, is in no range.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LONGEST:
        raise InvalidSpecError(f"{name} must be a duration of 0 or more seconds, got {value!r}")
    return float(value)


def default_poll_interval() -> float:
    """Return ``[lake] snapshot_poll_interval`` in seconds, 60 unless set."""
    return positive_setting("snapshot_poll_interval", 60.0)


def look_timeout() -> float:
    """Return ``[lake] watch_look_timeout``: seconds after which a look fails, and ends."""
    return positive_setting("watch_look_timeout", 30.0)


def most_looks() -> int:
    """Return ``[lake] watch_connections``: looks at tables of one catalog that run at once."""
    return int(positive_setting("watch_connections", 4.0, least=1.0))


def overdue_intervals() -> float:
    """Return ``[lake] watch_overdue_intervals``: poll intervals without an answer after which a table is overdue."""
    return positive_setting("watch_overdue_intervals", 2.0)
