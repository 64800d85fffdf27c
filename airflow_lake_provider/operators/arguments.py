"""Arguments of operators as specs want them, refused with a sentence where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

import pendulum

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_layout import TableLayout

E = TypeVar("E", bound=Enum)


def choice(cls: type[E], value: str | E, name: str) -> E:
    """Return the member of an enumeration.

    :raises InvalidSpecError: naming the known values.
    """
    try:
        return cls(value)
    except ValueError:
        known = ", ".join(repr(member.value) for member in cls)
        raise InvalidSpecError(f"{name} must be one of {known}, got {value!r}") from None


def names(value: Sequence[str], name: str) -> tuple[str, ...]:
    """Return column names as a tuple.

    :raises InvalidSpecError: for a bare text, which would be read as one name per letter.
    """
    if isinstance(value, str) or not all(value):
        raise InvalidSpecError(f"{name} must be a list of column names, got {value!r}")
    return tuple(value)


def queries(value: object, name: str) -> dict[str, str]:
    """Return queries by name.

    :raises InvalidSpecError: for anything that is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map a name to each query, got {value!r}")
    return dict(value)


def table_layout(value: Mapping[str, Any] | bool) -> TableLayout | None:
    """Return the layout of a missing table; None when it must not be created.

    :raises InvalidSpecError: for a field that a layout does not have.
    """
    if isinstance(value, bool):
        return TableLayout() if value else None
    unknown = sorted(value.keys() - {field.name for field in fields(TableLayout)})
    if unknown:
        known = ", ".join(field.name for field in fields(TableLayout))
        raise InvalidSpecError(f"create has no {unknown}; it takes {known}")
    listed = {"partition_by", "sort_by", "bloom_filter_columns"}
    arguments: dict[str, Any] = {k: names(v, f"create[{k!r}]") if k in listed else v for k, v in value.items()}
    return TableLayout(**arguments)


def duration(value: timedelta | str, name: str) -> timedelta:
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


def flag(value: bool | str, name: str) -> bool:
    """Return a switch; templates render it to text.

    :raises InvalidSpecError: for a text that is neither true nor false.
    """
    known = {"true": True, "false": False}
    if isinstance(value, str) and value.strip().lower() in known:
        return known[value.strip().lower()]
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be true or false, got {value!r}")
    return value


def number(value: int | str, name: str) -> int:
    """Return a whole number; templates render it to text.

    :raises InvalidSpecError: for anything else.
    """
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be a whole number, got {value!r}")
    return value
