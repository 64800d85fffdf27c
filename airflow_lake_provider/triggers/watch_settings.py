"""Read the settings of sensors and watchers: poll interval, looks at once, their timeout, and when one is overdue."""

from __future__ import annotations

from airflow.sdk import conf

from airflow_lake_provider.hooks.call_limits import positive_setting

DEFAULT_CONNECTION = "lake_default"


def default_poll_interval() -> float:
    """Return ``[lake] snapshot_poll_interval`` in seconds, 60 unless set."""
    return float(conf.getfloat("lake", "snapshot_poll_interval", fallback=60.0))


def look_timeout() -> float:
    """Return ``[lake] watch_look_timeout``: seconds after which a look fails, and ends."""
    return positive_setting("watch_look_timeout", 30.0)


def most_looks() -> int:
    """Return ``[lake] watch_connections``: looks at tables of one catalog that run at once."""
    return int(positive_setting("watch_connections", 4.0, least=1.0))


def overdue_intervals() -> float:
    """Return ``[lake] watch_overdue_intervals``: poll intervals without an answer after which a table is overdue."""
    return positive_setting("watch_overdue_intervals", 2.0)
