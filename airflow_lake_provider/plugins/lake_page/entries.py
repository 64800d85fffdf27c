"""Entries of plans and verdicts as the page reads them, whatever is in them: what does not fit counts as missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.maintenance import fleet_entries, outcome_entry, trend

# What a page shows of a text.
_LONGEST = 500
_MOST = 10**18
_MOST_POINTS = 30
_NUMBER = re.compile(r"-?[0-9]{1,8}")


class UnreadableEntryError(Exception):
    """An entry that another version of the package has left, or that is none."""


class Fields:
    """Values of a JSON object by name; one of another type than asked for is missing.

    :param given: parsed JSON of any kind.
    """

    def __init__(self, given: object) -> None:
        self._given: Mapping[str, Any] = given if isinstance(given, dict) else {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __bool__(self) -> bool:
        return bool(self._given)

    def text(self, name: str) -> str:
        """Return a text; empty where there is none."""
        value = self._given.get(name)
        return value[:_LONGEST] if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """Return a finite number; None where there is none."""
        return number_of(self._given.get(name))

    def count(self, name: str) -> int | None:
        """Return a whole number; None where there is none."""
        value = self.number(name)
        return None if value is None else int(value)

    def moment(self, name: str) -> datetime | None:
        """Return a time in UTC; None where there is none."""
        try:
            moment = datetime.fromisoformat(self.text(name))
            return None if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def span(self, name: str) -> timedelta | None:
        """Return a time span that is written in seconds; None where there is none."""
        seconds = self.number(name)
        return None if seconds is None or abs(seconds) > 10**11 else timedelta(seconds=seconds)

    def is_true(self, name: str) -> bool:
        """Tell whether the value is True."""
        return self._given.get(name) is True

    def each(self, name: str) -> list[Fields]:
        """Return the objects of a list."""
        return [Fields(each) for each in self.list(name) if isinstance(each, dict)]

    def list(self, name: str) -> list[Any]:
        """Return a list; empty where there is none."""
        value = self._given.get(name)
        return value if isinstance(value, list) else []

    def within(self, name: str) -> Fields:
        """Return an object."""
        return Fields(self._given.get(name))


def number_of(value: object) -> float | None:
    """Return a value where it is a finite number that a page can show."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # NaN is in no range, and a whole number may be beyond those of a float.
    return value if abs(value) <= _MOST else None


def entry_of(text: str | None, version: int) -> Fields:
    """Return an entry of this version.

    :param text: as the database has it.
    :param version: that is read here.
    :raises UnreadableEntryError: it is of another version, or no JSON object.
    """
    try:
        fields = Fields(json.loads(text or ""))
    except (ValueError, RecursionError):
        raise UnreadableEntryError("is not readable") from None
    if fields.number("version") != version:
        raise UnreadableEntryError("was left by another version of airflow-lake-provider")
    return fields


@dataclass(frozen=True, kw_only=True)
class Header:
    """Header of a plan's look.

    :param at: when tables were looked at.
    :param conn_id: connection of the catalog.
    :param authority: of the URIs of its tables' assets; the connection's id is one, too.
    :param tables: patterns that were asked for.
    :param allowed: patterns, of which each table had to match one as well; empty where nobody knows them.
    :param parts: how many parts have rows.
    :param left_out: tables without a row.
    :param is_dry_run: whether nothing was carried out.
    """

    at: datetime
    conn_id: str
    authority: str
    tables: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    parts: int = 0
    left_out: int = 0
    is_dry_run: bool = False

    def covers(self, table: str) -> bool:
        """Tell whether a table that was there has a row; of some looks nobody knows."""
        patterns = _patterns(self.tables, self.allowed) if self.allowed and not self.left_out else None
        return patterns is not None and patterns.matches(table)

    @classmethod
    def of(cls, text: str | None) -> Header:
        """Read it.

        :raises UnreadableEntryError: as :func:`entry_of`.
        """
        fields = entry_of(text, fleet_entries.VERSION)
        at, most = fields.moment("at"), -(-fleet_entries.MOST_ROWS // fleet_entries.ROWS_OF_A_PART)
        if at is None:
            raise UnreadableEntryError("has no time")
        return cls(
            at=at,
            conn_id=fields.text("conn_id"),
            authority=fields.text("authority") or fields.text("conn_id"),
            tables=tuple(each for each in fields.list("tables") if isinstance(each, str)),
            allowed=tuple(each for each in fields.list("allowed") if isinstance(each, str)),
            parts=min(max(0, fields.count("parts") or 0), most),
            left_out=fields.count("left_out") or 0,
            is_dry_run=fields.is_true("dry_run"),
        )


@dataclass(frozen=True, kw_only=True)
class Lag:
    """A consumer's distance behind main.

    :param consumer: its name.
    :param behind: age of the oldest commit that it has not read; None where its place is lost.
    :param commits: that it has not read.
    :param is_late: whether that is beyond the limit.
    :param target: table that it fills.
    :param owner: DAG and task.
    """

    consumer: str
    behind: timedelta | None
    commits: int | None
    is_late: bool
    target: str = ""
    owner: str = ""

    @classmethod
    def of(cls, fields: Fields) -> Lag:
        """Read it."""
        return cls(
            consumer=fields.text("consumer"),
            behind=fields.span("behind"),
            commits=fields.count("commits"),
            is_late=fields.is_true("is_late"),
            target=fields.text("target"),
            owner=fields.text("owner"),
        )


@dataclass(frozen=True, kw_only=True)
class Due:
    """An action that is due.

    :param action: its name.
    :param level: of a compaction; empty of all others.
    :param why: sentences with numbers.
    :param core_seconds: expected.
    """

    action: str
    level: str
    why: str
    core_seconds: float | None

    @classmethod
    def of(cls, fields: Fields) -> Due:
        """Read it."""
        return cls(
            action=fields.text("action"),
            level=fields.text("level"),
            why=fields.text("why"),
            core_seconds=fields.number("core_seconds"),
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One table as a plan has seen it; None is what nobody has counted."""

    table: str
    error: str = ""
    score: int | None = None
    owner: str = ""
    why: tuple[str, ...] = ()
    files: int | None = None
    bytes: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    deleted_share: float | None = None
    equality_deletes: int | None = None
    snapshots: int | None = None
    data_at: datetime | None = None
    fresh_within: timedelta | None = None
    maintained_at: datetime | None = None
    is_paused: bool = False
    due: tuple[Due, ...] = ()
    waits: str = ""
    consumers: tuple[Lag, ...] = ()
    details: int | None = None

    @classmethod
    def of(cls, fields: Fields) -> Row | None:
        """Read it; None where it does not say of which table it is."""
        counts = ("score", "files", "bytes", "small_files", "delete_files", "equality_deletes", "snapshots", "details")
        if not (table := fields.text("table")):
            return None
        return cls(
            table=table,
            **{name: fields.count(name) for name in counts},
            error=fields.text("error"),
            owner=fields.text("owner"),
            why=tuple(each.text("reason") for each in fields.each("why")),
            deleted_share=fields.number("deleted_share"),
            data_at=fields.moment("data_at"),
            fresh_within=fields.span("fresh_within"),
            maintained_at=fields.moment("maintained_at"),
            is_paused=fields.is_true("paused"),
            due=tuple(map(Due.of, fields.each("due"))),
            waits=fields.text("waits"),
            consumers=tuple(map(Lag.of, fields.each("consumers"))),
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one task of maintenance.

    :param gained: files, bytes, delete files and snapshots that are fewer than before.
    """

    table: str
    action: str
    level: str
    outcome: str
    error: str
    reason: str
    why: str
    at: datetime | None
    core_seconds: float | None
    gained: Mapping[str, int]

    @classmethod
    def of(cls, fields: Fields) -> Outcome:
        """Read it."""
        texts = ("table", "action", "level", "outcome", "error", "reason", "why")
        return cls(
            **{name: fields.text(name) for name in texts},
            at=fields.moment("ended_at"),
            core_seconds=fields.number("core_seconds"),
            gained=gained_of(fields),
        )


def gained_of(fields: Fields) -> dict[str, int]:
    """Return the counts that a run has lowered, by their names."""
    gained = fields.within("gained")
    counts = {name: gained.count(name) for name in ("data_files", "bytes", "delete_files", "snapshots")}
    return {name: count for name, count in counts.items() if count is not None}


@dataclass(frozen=True, kw_only=True)
class Night:
    """Outcomes of one run of maintenance.

    :param conn_id: connection of the catalog.
    :param authority: of the URIs of its tables' assets; the connection's id is one, too.
    :param counts: tasks by their outcome.
    """

    at: datetime
    conn_id: str
    authority: str
    counts: Mapping[str, int]
    gained: Mapping[str, int]
    core_seconds: float
    tasks: tuple[Outcome, ...]
    left_out: int

    @property
    def done(self) -> dict[str, int]:
        """Number of tasks of each action that were done; empty where some tasks are left out."""
        return dict(Counter(each.action for each in self.tasks if each.outcome == "done")) if not self.left_out else {}

    @property
    def failed(self) -> tuple[str, ...]:
        """Tables whose maintenance failed, as far as the entry has them."""
        return tuple(dict.fromkeys(each.table for each in self.tasks if each.outcome == "failed"))

    @classmethod
    def of(cls, text: str | None) -> Night:
        """Read it.

        :raises UnreadableEntryError: as :func:`entry_of`.
        """
        fields = entry_of(text, outcome_entry.VERSION)
        if (at := fields.moment("at")) is None:
            raise UnreadableEntryError("has no time")
        counts = fields.within("outcomes")
        return cls(
            at=at,
            conn_id=fields.text("conn_id"),
            authority=fields.text("authority") or fields.text("conn_id"),
            counts={name[:20]: counts.count(name) or 0 for name in counts},
            gained=gained_of(fields),
            core_seconds=fields.number("core_seconds") or 0.0,
            tasks=tuple(map(Outcome.of, fields.each("tasks"))),
            left_out=fields.count("left_out") or 0,
        )


@dataclass(frozen=True, kw_only=True)
class Trend:
    """State of a table after each of its last runs, oldest first; -1 is what nobody has counted."""

    table: str
    at: datetime | None
    hours: tuple[int, ...] = ()
    score: tuple[int, ...] = ()
    files: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    deletes: tuple[int, ...] = field(default=())

    @classmethod
    def of(cls, fields: Fields) -> Trend | None:
        """Read what ``maintenance/trend.py`` has written; None of another version."""
        most = fields.list("most")
        if fields.number("version") != trend.VERSION or len(most) != 3:
            return None
        largest = dict(zip(("files", "bytes", "deletes"), map(number_of, most), strict=True))
        counts = {
            name: tuple(
                each if each < 0 else round(each * max(0, each_most or 0) / 999) for each in _numbers(fields, name)
            )
            for name, each_most in largest.items()
        }
        return cls(
            table=fields.text("table"),
            at=fields.moment("at"),
            hours=_numbers(fields, "hours"),
            score=_numbers(fields, "score"),
            **counts,
        )


@lru_cache(maxsize=256)
def _patterns(tables: tuple[str, ...], allowed: tuple[str, ...]) -> TablePatterns | None:
    try:
        return TablePatterns.parse(tables, allowed)
    except InvalidSpecError:
        return None


def _numbers(fields: Fields, name: str) -> tuple[int, ...]:
    words = fields.text(name).split()[:_MOST_POINTS]
    return tuple(int(each) if _NUMBER.fullmatch(each) else -1 for each in words)
