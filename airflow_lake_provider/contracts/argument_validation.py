"""Values as authors, forms and XCom give them, read as specs want them, or refused with a sentence.

Each reader takes a value and the name of its argument, which the sentence begins with. It raises InvalidSpecError for
whatever it does not take.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from fractions import Fraction
from os import PathLike
from typing import Any, TypeVar

from airflow_lake_provider.contracts.errors import InvalidSpecError

E = TypeVar("E", bound=Enum)
T = TypeVar("T")
Reader = Callable[[Any, str], Any]
# Of a file system of this machine one slash will do.
_CUT_SCHEME = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")
_CONSUMER = re.compile(r"[A-Za-z0-9_-]{1,27}")
_DECIMAL = re.compile(r"-?(?:[0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?")


def choice(cls: type[E], value: str | E, name: str) -> E:
    """Return the member of an enumeration."""
    try:
        return cls(value)
    except ValueError:
        members = ", ".join(repr(member.value) for member in cls)
        raise InvalidSpecError(f"{name} must be one of {members}, got {value!r}") from None


def choice_of(cls: type[E]) -> Reader:
    """Return a reader of the members of an enumeration."""
    return lambda value, name: choice(cls, value, name)


def text(value: object, name: str) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str):
        raise InvalidSpecError(f"{name} must be a text, got {value!r}")
    if not value.strip():
        raise InvalidSpecError(f"{name} must not be empty, got {value!r}")
    return value


# What a template writes for a param without a value.
NO_VALUE = "None"


def not_none(value: object, name: str) -> object:
    """Return a value that is not the text ``None``, which a template writes for a param without a value."""
    if value == NO_VALUE:
        raise InvalidSpecError(
            f"{name} must not be 'None', which a template makes of a param or an XCom without a value; write "
            "{{ params.x or '' }} where it may have none"
        )
    return value


def optional(read: Callable[[Any, str], T]) -> Callable[[Any, str], T | None]:
    """Return a reader that takes None too, and an empty text, which a template renders to, for None.

    The text ``None`` is refused: nobody who leaves an argument out means a branch of that name.
    """
    return lambda value, name: None if value is None or value == "" else read(not_none(value, name), name)


def is_path(value: object) -> bool:
    """Return whether a value is a path of ``pathlib``, or of Airflow's object storage, which has its methods."""
    return isinstance(value, PathLike) or hasattr(value, "joinpath")


def path_text(value: object, name: str) -> object:
    """Return the text of a path object; other values as they are.

    :raises InvalidSpecError: it has lost a slash of what its author wrote, or has a connection of Airflow.
    """
    if not is_path(value):
        return value
    path, connection = str(value), getattr(value, "conn_id", None)
    if connection is not None:
        raise InvalidSpecError(
            f"{name} has the connection {connection!r} of Airflow, and Spark reads files by settings of its own; give "
            f"it without, got {path!r}"
        )
    if _CUT_SCHEME.match(path) and isinstance(value, PathLike):
        raise InvalidSpecError(
            f"{name} is {path!r}, which pathlib made of two slashes; give a text or an ObjectStoragePath"
        )
    return path


def listed(value: object) -> object:
    """Return the list of texts that a template wrote as a text, ``"['a', 'b']"`` or JSON; other values as they are.

    A param of the type ``array`` becomes that where a DAG does not render native objects.
    """
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    text = value.strip()
    # What is in each other is no list of names, and a parser may take it for minutes.
    if not text.endswith("]") or "[" in text[1:]:
        return value
    # Python reads most of JSON, but for its escapes of "/" and of what UTF-16 writes as two units.
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return read(text)
    return value


def names(value: object, name: str, what: str = "column names") -> tuple[str, ...]:
    """Return column names, or other texts, as a tuple. A bare text would be read as one name per letter.

    :param what: the texts are, for the message.
    """
    value = listed(value)
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if not is_list or not all(isinstance(item, str) and item.strip() for item in value):  # type: ignore[attr-defined]  # a list here
        raise InvalidSpecError(f"{name} must be a list of {what}, got {value!r}")
    return tuple(value)  # type: ignore[arg-type]  # a list here


def texts(value: object, name: str, what: str = "a name to each text") -> dict[str, str]:
    """Return texts by name, such as SQL by column.

    :param what: of each entry, for the message: ``"a column to its function"``.
    """
    return {key: text(entry, f"{name}[{key!r}]") for key, entry in mapping(value, name, what).items()}


def options(value: object, name: str) -> dict[str, str]:
    """Return options as Spark takes them: ``{"header": True, "maxColumns": 5}`` as ``"true"`` and ``"5"``."""
    if value is None:
        return {}
    given = mapping(value, name, "the name of an option to its value")
    return {key: _option(entry, f"{name}[{key!r}]") for key, entry in given.items()}


def _option(value: object, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise InvalidSpecError(f"{name} must be a text, a number or a boolean, got {value!r}")
    # Empty values mean something: a null value, a comment sign that is off.
    return value


def groups(value: object, name: str) -> dict[str, tuple[str, ...]]:
    """Return lists of columns by column."""
    if value is None:
        return {}
    given = mapping(value, name, "a column to a list of columns")
    return {key: names(group, f"{name}[{key!r}]") for key, group in given.items()}


def mapping(value: object, name: str, what: str) -> dict[str, object]:
    """Return a mapping whose keys are texts that are not empty.

    :param what: it maps to what, for the message.
    """
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map {what}, got {value!r}")
    unfit_names = [key for key in value if not isinstance(key, str) or not key.strip()]
    if unfit_names:
        raise InvalidSpecError(f"{name} must map {what}, got the name {unfit_names[0]!r}")
    templates = [key for key in value if "{{" in key or "{%" in key]
    if templates:
        raise InvalidSpecError(f"{name}: names are not templated, only what they map to, got the name {templates[0]!r}")
    return dict(value)


def different_columns(given: Iterable[str], name: str) -> None:
    """Refuse names that are one column, as these are compared without case: one of their entries would be lost."""
    spelled = sorted(given)
    lower = [each.lower() for each in spelled]
    if twice := [each for each in spelled if lower.count(each.lower()) > 1]:
        raise InvalidSpecError(f"{name} names columns twice, as they are compared without case: {twice}")


def flag(value: object, name: str) -> bool:
    """Return a switch; templates render it to text."""
    by_text = {"true": True, "false": False}
    if isinstance(value, str) and value.strip().lower() in by_text:
        return by_text[value.strip().lower()]
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be true or false, got {value!r}")
    return value


def sql(value: object, name: str) -> str:
    """Return a text of SQL, which its spec looks into."""
    if not isinstance(value, str):
        raise InvalidSpecError(f"{name} must be a text of SQL, got {value!r}")
    not_none(value, name)
    return value


def share(value: object, name: str) -> float:
    """Return a number such as ``0.1``; templates render it to text."""
    is_text = isinstance(value, str) and _DECIMAL.fullmatch(value.strip())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        given = float(value) if is_text or is_number else math.nan  # type: ignore[arg-type]  # it is one of the three
    except OverflowError:
        given = math.nan
    # NaN is within every limit and beyond none.
    if math.isnan(given):
        raise InvalidSpecError(f"{name} must be a number such as 0.1, got {value!r}")
    return given


def share_of(total: int, share: float) -> int:
    """Return a share in whole numbers, exact for the number as its author writes it: 0.29 * 100 is less than 29."""
    return int(Fraction(str(share)) * total)


def number(value: object, name: str) -> int:
    """Return a whole number; templates render it to text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 4_300:
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be a whole number, got {value!r}")
    return value


def positive(value: object, name: str) -> int:
    """Return a whole number of at least 1."""
    if (count := number(value, name)) < 1:
        raise InvalidSpecError(f"{name} must be at least 1, got {value!r}")
    return count


def label(value: object, name: str) -> str:
    """Return the name of a branch, a tag or a batch. A native template renders digits to a number."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return text(str(value) if is_number else not_none(value, name), name)


def ref_name(value: object, name: str) -> str:
    """Return the name of a branch or a tag that may be made; a template's output may end in a line break."""
    given = label(value, name)
    if given != given.strip() or not given.isprintable():
        raise InvalidSpecError(
            f"{name} must have no line break or other control character, and no blank before or behind it, "
            f"got {given!r}"
        )
    return given


def consumer_name(value: object, name: str) -> str:
    """Return the name of a consumer, which keeps its place on a table under it."""
    consumer = text(value, name)
    if not _CONSUMER.fullmatch(consumer):
        raise InvalidSpecError(
            f"{name} {consumer!r} must have 1 to 27 letters, digits, '_' or '-': it becomes part of a tag"
        )
    return consumer


def snapshot(value: object, name: str) -> str:
    """Return the id of a snapshot as text."""
    return label(value, name).strip()


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the candidate that is nearest to what was written, or an empty text."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


# Powers of 1,024, as Spark, Hadoop and Iceberg's documentation count: 128MB is 134217728.
_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"(\d{1,19})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
# Iceberg keeps it in a Java long.
_LARGEST = 2**63 - 1


def size(value: object, name: str, least: int = 1) -> int:
    """Return a number of bytes.

    :param value: whole number of bytes, or a text of a whole number and one of ``B``, ``KB``, ``MB``, ``GB``, ``TB``.
        Any case will do, as will ``128 MiB`` or ``1g``. Units are powers of 1,024.
    :param least: smallest number that is taken.
    """
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    bytes_ = int(match[1]) * _UNITS[match[2].upper()] if match else value
    if isinstance(bytes_, bool) or not isinstance(bytes_, int) or not least <= bytes_ <= _LARGEST:
        raise InvalidSpecError(f"{name} must be a size such as '128MB' or a number of bytes, got {value!r}")
    return bytes_
