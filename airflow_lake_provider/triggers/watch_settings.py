"""Read the settings of sensors and watchers: poll interval, looks at once, their timeout, and when one is overdue."""

from __future__ import annotations

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import InvalidSpecError

DEFAULT_CONNECTION = "lake_default"


def default_poll_interval() -> float:
    """Return ``[lake] snapshot_poll_interval`` in seconds, 60 unless set."""
    return float(conf.getfloat("lake", "snapshot_poll_interval", fallback=60.0))


def look_timeout() -> float:
    """Return ``[lake] watch_look_timeout``: seconds after which a look fails, and ends."""
    return _positive("watch_look_timeout", 30.0)


def most_looks() -> int:
    """Return ``[lake] watch_connections``: looks at tables of one catalog that run at once."""
    return int(_positive("watch_connections", 4.0, 1.0))


def overdue_intervals() -> float:
    """Return ``[lake] watch_overdue_intervals``: poll intervals without an answer after which a table is overdue."""
    return _positive("watch_overdue_intervals", 2.0)


def _positive(name: str, default: float, least: float = 0.0) -> float:
    """Return a number of the section.

    :param least: that is allowed; 0 itself never is.
    """
    value = conf.getfloat("lake", name, fallback=default)
    if not value >= least or value == 0:
        raise InvalidSpecError(f"[lake] {name} must be a number above 0, got {value!r}")
    return float(value)
