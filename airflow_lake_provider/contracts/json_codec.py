"""Frozen dataclasses to JSON and back, by their type hints. Standard library only: the driver may have no pydantic."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from airflow_lake_provider.contracts.author_object import AuthorObject, is_left_out
from airflow_lake_provider.contracts.durations import from_iso, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Turn dataclasses, enums, times, durations and tuples into what ``json`` can write.

    :raises InvalidSpecError: for a time without a zone.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = {"type": value.kind} if isinstance(value, AuthorObject) and value.kind else {}
        given = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        kept = {field.name: to_plain(item) for field, item in given.items() if not is_left_out(item, field)}
        return {**kind, **kept}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidSpecError(f"times must carry a time zone, got {value!r}")
        return value.isoformat()
    if isinstance(value, timedelta):
        return to_iso(value)
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def storable(plain: Any) -> Any:
    """Return plain JSON data with texts that any database of Airflow's can store.

    The ``jsonb`` of PostgreSQL refuses NUL and halves of surrogate pairs, which rows and paths in a message may have.
    They are written as Python escapes them.
    """
    if isinstance(plain, str):
        return plain.replace("\0", r"\x00").encode(errors="backslashreplace").decode()
    if isinstance(plain, dict):
        return {storable(key): storable(item) for key, item in plain.items()}
    return [storable(item) for item in plain] if isinstance(plain, (list, tuple)) else plain


def to_json(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces, so that equal values have equal text and equal digests."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"))


def from_json(cls: type[T], text: str) -> T:
    """Build ``cls`` from JSON written by :func:`to_json`.

    :raises InvalidSpecError: when a field is unknown or missing, or a choice is unknown: the two sides are of
        different versions.
    """
    value: T = from_plain(cls, json.loads(text))
    return value


def from_plain(hint: Any, value: Any) -> Any:
    """Build a value of the type ``hint`` from plain JSON data.

    :raises InvalidSpecError: as :func:`from_json`.
    """
    if value is None or hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return from_plain(next(a for a in typing.get_args(hint) if a is not type(None)), value)
    if origin is tuple:
        return tuple(from_plain(typing.get_args(hint)[0], item) for item in value)
    if origin is dict:
        return {key: from_plain(typing.get_args(hint)[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _dataclass_from_plain(typing.cast("type", hint), value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, value)
    if hint is timedelta:
        return from_iso(value)
    return datetime.fromisoformat(value) if hint is datetime else value


def _dataclass_from_plain(cls: type[Any], value: dict[str, Any]) -> Any:
    if issubclass(cls, AuthorObject) and cls.kinds():
        value = dict(value)
        cls = _of_kind(cls, value.pop("type", None))
    fields = dataclasses.fields(cls)
    unknown = value.keys() - {field.name for field in fields}
    if unknown:
        raise InvalidSpecError(f"{cls.__name__} has no field {sorted(unknown)}; driver and worker differ in version")
    absent = dataclasses.MISSING
    needed = {field.name for field in fields if field.default is absent and field.default_factory is absent}
    if not needed <= value.keys():
        missing = sorted(needed - value.keys())
        raise InvalidSpecError(f"{cls.__name__} needs {missing}; driver and worker differ in version")
    if issubclass(cls, AuthorObject) and cls.reads_json:
        return cls(**value)
    hints = _hints(cls)  # type: ignore[arg-type]  # a class can be hashed
    return cls(**{name: from_plain(hints[name], item) for name, item in value.items()})


def _of_kind(cls: type[AuthorObject], kind: Any) -> type:
    kinds = cls.kinds()
    if kind not in kinds:
        raise InvalidSpecError(f"{cls.__name__} has no type {kind!r}; driver and worker differ in version")
    return kinds[kind]


def _member(cls: type[Enum], value: Any) -> Enum:
    try:
        return cls(value)
    except ValueError as error:
        raise InvalidSpecError(f"{error}; driver and worker differ in version") from None


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)
