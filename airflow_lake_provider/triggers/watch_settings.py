"""Settings of the section ``[lake]`` about watching tables."""

from __future__ import annotations

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import InvalidSpecError

_DEFAULT_LOOK_SECONDS = 30.0


def look_timeout() -> float:
    """Return ``[lake] watch_look_timeout``: seconds after which a look fails, and ends.

    :raises InvalidSpecError: it is not above 0.
    """
    return positive_setting("watch_look_timeout", _DEFAULT_LOOK_SECONDS)


def positive_setting(name: str, default: float, least: float = 0.0) -> float:
    """Return a number of the section.

    :param least: that is allowed; 0 itself never is.
    :raises InvalidSpecError: it is less.
    """
    value = conf.getfloat("lake", name, fallback=default)
    if not value >= least or value == 0:
        raise InvalidSpecError(f"[lake] {name} must be a number above 0, got {value!r}")
    return float(value)
