"""Kinds of values that a setting of a policy takes, and what a stranger's property may make of it.

A kind says once how a value is read, in a DAG, in YAML and as the text of a property. It also says how an editor's
schema and the reference describe it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from airflow_lake_provider.contracts.argument_validation import Reader, choice, flag, names, size
from airflow_lake_provider.contracts.author_object import is_open, reads
from airflow_lake_provider.contracts.durations import duration, is_no_time, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError

# Longer texts are no name of anything; Airflow keeps 256 characters of a pool.
LONGEST_TEXT = 250
# Any sum of it and a moment of ours is a moment of Python.
LONGEST_SPAN = timedelta(days=36_500)
_LARGEST_COUNT = 1_000_000_000
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,18})?")
_HOURS = re.compile(r"([01]?[0-9]|2[0-3]) *- *([01]?[0-9]|2[0-4])")
_ISO = r"^P(?=[0-9T])([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$"
_SIZE = r"^[0-9]+ *([KkMmGgTt]?[Ii]?[Bb]?)$"


class Hours(str):
    """Hours of the day in UTC: ``22-6`` begins at 22:00 and ends before 06:00."""

    __slots__ = ()

    @property
    def begin(self) -> int:
        """The first of them, from 0 to 23."""
        return int(self.partition("-")[0]) % 24

    @property
    def numbers(self) -> frozenset[int]:
        """Hours that are among them, from 0 to 23."""
        begin, end = map(int, self.split("-"))
        return frozenset(hour % 24 for hour in range(begin, end if end > begin else end + 24))

    def include(self, moment: datetime) -> bool:
        """Tell whether a moment in UTC is among them."""
        return moment.hour in self.numbers


@dataclass(frozen=True)
class Kind:
    """Kind of a value.

    :param read: reads what a DAG or YAML gives.
    :param words: say what is expected, as a noun.
    :param schema: JSON schema of it.
    :param of_text: makes of a property's text what ``read`` takes.
    """

    read: Reader
    words: str
    schema: Mapping[str, Any]
    of_text: Callable[[str], Any] = str

    def or_none(self, words: str) -> Kind:
        """Return the kind that takes None and an empty text, too.

        :param words: what stands for it then.
        """

        def read(value: object, name: str) -> object:
            return None if value is None or value == "" else self.read(value, name)

        schema = {"anyOf": [dict(self.schema), {"type": "null"}]}
        return Kind(read, f"{self.words}; none: {words}", schema, self.of_text)


@dataclass(frozen=True)
class Bound:
    """Bound of what a property of a table or a namespace may make of a setting.

    :param permits: takes the value that holds without it, and its own; None permits all.
    :param words: say what it may do.
    """

    words: str
    permits: Callable[[Any, Any], bool] | None = None


ANY = Bound("any value")
NEVER = Bound("nothing", lambda _, given: False)  # noqa: ARG005  by the names of the others
# Saying again what holds allows nothing.
ONLY_TRUE = Bound("only `true`", lambda below, given: given or given == below)
ONLY_FALSE = Bound("only `false`", lambda below, given: not given or given == below)
LOWER = Bound("only a lower value", lambda below, given: None not in (below, given) and given <= below)
HIGHER = Bound("only a higher value", lambda below, given: None not in (below, given) and given >= below)
LONGER = Bound("only a longer time", HIGHER.permits)
FEWER_HOURS = Bound(
    "only fewer hours",
    lambda below, given: given is not None and (below is None or given.numbers <= below.numbers),
)


def before_in(*order: Enum) -> Bound:
    """Return the bound that permits what comes no later in an order, the strictest first."""
    places = {member: place for place, member in enumerate(order)}
    words = f"only what comes earlier in {', '.join(f'`{member.value}`' for member in order)}"
    return Bound(words, lambda below, given: places[given] <= places[below])


def setting(kind: Kind, bound: Bound = ANY) -> Mapping[str, Any]:
    """Return the metadata of a field that is a setting.

    :param bound: what a property may make of it.
    """
    return {**reads(kind.read), "kind": kind, "bound": bound}


def _refused(name: str, words: str, value: object) -> InvalidSpecError:
    return InvalidSpecError(f"{name} must be {words}, got {value!r}")


FLAG = Kind(flag, "`true` or `false`", {"type": "boolean"})


def one_of(cls: type[Enum]) -> Kind:
    """Return the kind of the members of an enumeration."""
    members = [member.value for member in cls]
    words = f"one of {', '.join(f'`{member}`' for member in members)}"
    return Kind(lambda value, name: choice(cls, value, name), words, {"enum": members})


def whole(least: int, most: int = _LARGEST_COUNT) -> Kind:
    """Return the kind of whole numbers from ``least`` on."""
    words = f"a whole number from {least} to {most}"

    def read(value: object, name: str) -> int:
        given = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value
        if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
            raise _refused(name, words, value)
        return given

    return Kind(read, words, {"type": "integer", "minimum": least, "maximum": most})


def _decimal(words: str, fits: Callable[[float], bool], **schema: float) -> Kind:
    def read(value: object, name: str) -> float:
        given = float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()) else value
        # NaN fits nothing.
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not fits(given):
            raise _refused(name, words, value)
        return float(given)

    return Kind(read, words, {"type": "number", **schema})


SHARE = _decimal("a share in (0, 1]", lambda given: 0 < given <= 1, exclusiveMinimum=0, maximum=1)
RATIO = _decimal("a number from 0 to 1000000", lambda given: 0 <= given <= 1e6, minimum=0, maximum=1_000_000)


def span(least: timedelta = timedelta(0), most: timedelta = LONGEST_SPAN, *, zero: str | None = None) -> Kind:
    """Return the kind of durations from ``least`` to ``most``, and above zero.

    :param zero: meaning of ``PT0S``, where it may be given.
    """
    from_least = f", at least `{to_iso(least)}`" if least else f"; `PT0S`: {zero}" if zero else ""
    to_most = f", at most `{to_iso(most)}`" if most < LONGEST_SPAN else ""
    words = f"an ISO-8601 duration such as `P5D` or `PT6H`{from_least}{to_most}"

    def read(value: object, name: str) -> timedelta:
        if zero and is_no_time(value):
            return timedelta(0)
        given = duration(value, name)
        if not least <= given <= most:
            raise InvalidSpecError(f"{name} must be at least {to_iso(least)} and at most {to_iso(most)}, got {value!r}")
        return given

    return Kind(read, words, {"type": "string", "pattern": _ISO})


SIZE = Kind(
    size,
    "a number of bytes, or a size such as `512MB`",
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE}]},
)


def _text(value: object, name: str) -> str:
    is_line = isinstance(value, str) and value.strip() and len(value) <= LONGEST_TEXT and value.isprintable()
    # A stranger's property must not become a template of a task.
    if not isinstance(value, str) or not is_line or is_open(value):
        raise _refused(name, f"a text of 1 to {LONGEST_TEXT} characters in one line, and no template", value)
    return value.strip()


TEXT = Kind(
    _text, f"a text of at most {LONGEST_TEXT} characters", {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
)


def _columns(value: object, name: str) -> tuple[str, ...]:
    return tuple(_text(each, name) for each in names(value, name))


COLUMNS = Kind(
    _columns,
    "a list of column names; of a sort, with their order",
    {"type": "array", "items": {"type": "string", "minLength": 1}},
    of_text=lambda text: [each.strip() for each in text.split(",")] if text.strip() else [],
)


def _hours(value: object, name: str) -> Hours:
    match = _HOURS.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == int(match[2]):
        raise _refused(name, "hours in UTC such as '22-6', from 0 to 24", value)
    return Hours(f"{int(match[1])}-{int(match[2])}")


HOURS = Kind(
    _hours,
    "hours in UTC such as `22-6`",
    {"type": "string", "pattern": "^([01]?[0-9]|2[0-3]) *- *([01]?[0-9]|2[0-4])$"},
)
