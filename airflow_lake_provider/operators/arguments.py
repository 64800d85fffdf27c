"""Arguments of operators as specs want them, refused with a sentence where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.operators.sizes import size

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


def text(value: object, name: str, *, templated: bool = False) -> str:
    """Return a text that says something.

    :param templated: Airflow has rendered it; where it does not, a template would stay as it is.
    :raises InvalidSpecError: for anything else, an empty text, and a template that nothing renders.
    """
    if not isinstance(value, str):
        raise InvalidSpecError(f"{name} must be a text, got {value!r}")
    if not value.strip():
        raise InvalidSpecError(f"{name} must not be empty, got {value!r}")
    if not templated and any(mark in value for mark in ("{{", "{%")):
        raise InvalidSpecError(f"{name} is not templated, so {value!r} would stay as it is; give the value itself")
    return value


def optional_text(value: object, name: str, *, templated: bool = False) -> str | None:
    """Return a text, or None where there is none; a template may render to nothing.

    :raises InvalidSpecError: as of :func:`text`.
    """
    if value is None or (templated and isinstance(value, str) and not value.strip()):
        return None
    return text(value, name, templated=templated)


def file_format(value: object, name: str) -> str | None:
    """Return the format of a source's files, or None where their names tell it.

    :raises InvalidSpecError: naming the known formats.
    """
    found = optional_text(value, name)
    if found is not None and found not in Source.FORMATS:
        raise InvalidSpecError(f"{name} must be one of {', '.join(Source.FORMATS)}, got {value!r}")
    return found


def names(value: object, name: str, what: str = "column names") -> tuple[str, ...]:
    """Return column names, or other texts, as a tuple.

    :param what: the texts are, for the message.
    :raises InvalidSpecError: for a bare text, which would be read as one name per letter, and what is no list of texts.
    """
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if not is_list or not all(isinstance(item, str) and item.strip() for item in value):  # type: ignore[attr-defined]  # a list here
        raise InvalidSpecError(f"{name} must be a list of {what}, got {value!r}")
    return tuple(text(item, name) for item in value)  # type: ignore[attr-defined]  # a list here


def texts(value: object, name: str, what: str) -> dict[str, str]:
    """Return texts by name, such as SQL by column.

    :param what: of each entry, for the message: ``"a column to its function"``.
    :raises InvalidSpecError: for what is no mapping of names to texts.
    """
    return {key: text(entry, f"{name}[{key!r}]") for key, entry in _mapping(value, name, what).items()}


def options(value: object, name: str, *, templated: bool = False) -> dict[str, str]:
    """Return options as Spark and Iceberg take them: ``{"header": True, "maxColumns": 5}`` as ``"true"`` and ``"5"``.

    :raises InvalidSpecError: for what is no mapping of names to texts, numbers and booleans.
    """
    if value is None:
        return {}
    found = _mapping(value, name, "the name of an option to its value")
    return {key: _option(entry, f"{name}[{key!r}]", templated=templated) for key, entry in found.items()}


def _option(value: object, name: str, *, templated: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise InvalidSpecError(f"{name} must be a text, a number or a boolean, got {value!r}")
    # Empty values mean something: a null value, a comment sign that is off.
    return text(value, name, templated=templated) if value.strip() else value


def _mapping(value: object, name: str, what: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map {what}, got {value!r}")
    wrong = [key for key in value if not isinstance(key, str) or not key.strip()]
    if wrong:
        raise InvalidSpecError(f"{name} must map {what}, got the name {wrong[0]!r}")
    return dict(value)


def groups(value: object, name: str) -> dict[str, tuple[str, ...]]:
    """Return lists of columns by column.

    :raises InvalidSpecError: for what is no mapping of column names to lists of them.
    """
    if value is None:
        return {}
    found = _mapping(value, name, "a column to a list of columns")
    return {text(key, name): names(group, f"{name}[{key!r}]") for key, group in found.items()}


def queries(value: object, name: str) -> dict[str, str]:
    """Return queries by name.

    :raises InvalidSpecError: for anything that is not a mapping.
    """
    found = _mapping(value, name, "a name to each query")
    return {key: text(query, f"{name}[{key!r}]", templated=True) for key, query in found.items()}


def table_layout(value: object, name: str = "create") -> TableLayout | None:
    """Return the layout of a missing table; None when it must not be created.

    :raises InvalidSpecError: for a field that a layout does not have, or cannot hold.
    """
    if isinstance(value, bool):
        return TableLayout() if value else None
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must be True, False or a mapping of the layout's fields, got {value!r}")
    unknown = sorted(map(str, value.keys() - {field.name for field in fields(TableLayout)}))
    if unknown:
        known = ", ".join(field.name for field in fields(TableLayout))
        raise InvalidSpecError(f"{name} has no {unknown}; it takes {known}")
    return TableLayout(**{key: _layout_field(key, entry, f"{name}[{key!r}]") for key, entry in value.items()})


_TERMS = {
    "partition_by": "columns or transforms of them, such as ['days(at)']",
    "sort_by": "columns with their order, such as ['at DESC']",
    "bloom_filter_columns": "column names",
}


def _layout_field(field: str, value: object, name: str) -> Any:
    if field in _TERMS:
        return names(value, name, _TERMS[field])
    if field == "properties":
        return options(value, name)
    if field == "target_file_bytes":
        return None if value is None else size(value, name)
    return text(value, name)


def table_patterns(value: object) -> tuple[str, ...] | None:
    """Return patterns of table names as a tuple; None for none.

    :raises InvalidSpecError: for what is no list of texts, or has a template.
    """
    return None if value is None else names(value, "allowed_tables", "patterns of table names, such as ['shop.*']")


def refuse_other_tables(table: str, allowed: Sequence[str] | None) -> None:
    """Refuse a table that no pattern allows.

    :param allowed: patterns such as ``shop.*``, in which ``*`` stands for anything; None allows all.
    :raises InvalidSpecError: naming the patterns.
    """
    if allowed is not None and not any(fnmatchcase(table, pattern) for pattern in allowed):
        raise InvalidSpecError(f"table {table!r} is none of those that this task may work on: {', '.join(allowed)}")


def flag(value: object, name: str) -> bool:
    """Return a switch; templates render it to text.

    :raises InvalidSpecError: for a text that is neither true nor false.
    """
    known = {"true": True, "false": False}
    if isinstance(value, str) and value.strip().lower() in known:
        return known[value.strip().lower()]
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be true or false, got {value!r}")
    return value


def number(value: object, name: str) -> int:
    """Return a whole number; templates render it to text.

    :raises InvalidSpecError: for anything else.
    """
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be a whole number, got {value!r}")
    return value


def share(value: object, name: str) -> float:
    """Return a number such as ``0.1``.

    :raises InvalidSpecError: for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidSpecError(f"{name} must be a number such as 0.1, got {value!r}")
    return float(value)
