"""Age of rows by a column of time: the clock against which it counts, and the value below which rows go.

Worker and driver share it. A clock that stands still where nothing arrives keeps the rows of a stalled feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from typing import Protocol

from airflow_lake_provider.contracts.argument_validation import share_of
from airflow_lake_provider.contracts.durations import epoch_millis, in_utc, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_facts import Snapshot

# Of columns, as the spec of Iceberg names them.
TYPES = ("date", "timestamp", "timestamptz")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(str, Enum):
    """Moment from which the age of rows counts back."""

    LAST_COMMIT = "last-commit"
    NOW = "now"


@dataclass(frozen=True, kw_only=True)
class AgeLimit:
    """Value of a column below which a row is too old; times are UTC, and a row without a value is never too old.

    :param kind: type of the column, one of ``TYPES``.
    :param moment: with a zone. A date is too old once its whole day is; a timestamp without a zone counts as UTC.
    """

    column: str
    kind: str
    moment: datetime

    @property
    def literal(self) -> str:
        """The value as Spark and PyIceberg read it alike."""
        moment = self.moment.astimezone(UTC)
        if self.kind == "date":
            return moment.date().isoformat()
        return moment.replace(tzinfo=None).isoformat() + ("+00:00" if self.kind == "timestamptz" else "")

    @property
    def text(self) -> str:
        """The limit, for the summary of the commit that makes it true."""
        return f"{self.column} < {self.literal}"

    @classmethod
    def of_text(cls, text: str) -> AgeLimit | None:
        """Read the limit of a commit's summary; None where a stranger has written something else."""
        column, _, value = text.rpartition(" < ")
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        is_date = len(value) == len("2026-01-01")
        kind = "date" if is_date else "timestamp" if moment.tzinfo is None else "timestamptz"
        return cls(column=column, kind=kind, moment=moment if moment.tzinfo else moment.replace(tzinfo=UTC))

    def includes(self, column: str, moment: datetime) -> bool:
        """Tell whether all rows are too old by it that are before a moment by a column.

        :param moment: with a zone; of a date its day counts.
        """
        return column == self.column and replace(self, moment=moment).number <= self.number

    @property
    def number(self) -> int:
        """The value as manifests have it: days or microseconds since 1970."""
        since = self.moment - _EPOCH
        return since // timedelta(days=1) if self.kind == "date" else since // timedelta(microseconds=1)


def newest_arrival(history: Iterable[Snapshot]) -> Snapshot | None:
    """Return the newest commit that brought rows; None where none is known any more.

    A commit that takes away more rows than it adds brings none: a deletion that writes files anew looks so. Else an
    expiry of rows would move its own clock. An overwrite of PyIceberg is one commit of several snapshots, which delete
    and then append.

    :param history: of main, newest first.
    """
    arrived, gained = None, 0
    for each in history:
        if arrived is not None:
            gained += each.rows_gained
            arrived = arrived if gained > 0 else None
        elif each.brings_rows:
            arrived, gained = each, max(1, each.rows_gained)
        if arrived is not None and not each.shares_commit:
            break
    return arrived


class _Asked(Protocol):
    """Expiry of rows as an author asks for it: a :class:`.RowExpirySpec`."""

    @property
    def table(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def keep(self) -> timedelta: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def before(self) -> datetime | None: ...


def age_limit(
    asked: _Asked, columns: Mapping[str, str], asked_at: datetime, history: Iterable[Snapshot]
) -> AgeLimit | None:
    """Return below which value rows are too old; None where nobody knows when rows arrived last.

    :param columns: types of the table's columns by name.
    :param asked_at: the worker's time; no clock is ahead of it.
    :param history: of main, newest first.
    :raises InvalidSpecError: the column is missing, or has no time.
    """
    kind = _kind(asked, columns)
    moment = asked_at
    if asked.clock is Clock.LAST_COMMIT:
        arrived = newest_arrival(history)
        if arrived is None:
            return None
        moment = min(asked_at, _EPOCH + timedelta(milliseconds=min(arrived.at, epoch_millis(asked_at))))
    limit = moment - asked.keep
    return AgeLimit(column=asked.column, kind=kind, moment=limit if asked.before is None else min(limit, asked.before))


def age_sentence(asked: _Asked, limit: AgeLimit | None) -> str:
    """Say which rows go, by which clock."""
    if limit is None:
        return "no commit that brought rows is in the table's history any more, so nobody knows how old its rows are"
    since = "the last commit that brought rows" if asked.clock is Clock.LAST_COMMIT else "the present"
    by = "as asked" if limit.moment == asked.before else f"{to_iso(asked.keep)} before {since}"
    return f"rows with {asked.column} before {limit.literal}, {by}, are too old; those without a value stay"


def moment_of_row(value: object, name: str) -> datetime:
    """Return a value of a column of time, as reports have it, with a zone: UTC where it has none.

    :raises InvalidSpecError: it is none.
    """
    try:
        given = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        if isinstance(given, date) and not isinstance(given, datetime):
            given = datetime.combine(given, time(), UTC)
        if isinstance(given, datetime):
            return in_utc(given if given.tzinfo else given.replace(tzinfo=UTC))
    # One of year 1 in another zone is none in UTC.
    except (ValueError, OverflowError):
        pass
    raise InvalidSpecError(f"{name} must be a date or a time such as '2026-11-27', got {value!r}")


def without_age(column: str, columns: Mapping[str, str]) -> str | None:
    """Return why rows have no age by a column; None where they have one.

    :param columns: types of the table's columns by name.
    """
    kind = columns.get(column)
    if kind is None:
        return f"column names {column!r}, which is none of its columns {sorted(columns)}"
    if kind not in TYPES:
        return f"column {column!r} is of type {kind}; rows have an age by {', '.join(TYPES)} alone"
    return None


def _kind(asked: _Asked, columns: Mapping[str, str]) -> str:
    if (why := without_age(asked.column, columns)) is not None:
        raise InvalidSpecError(f"{asked.table}: {why}")
    return columns[asked.column]


def most_rows(share: float, total: int) -> int | None:
    """Return how many rows of a table may go; None where all may.

    :param share: of its rows.
    :param total: these, also those that are deleted by position.
    """
    return None if share >= 1 else share_of(total, share)
