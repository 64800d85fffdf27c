"""Moments of a lake table: a snapshot id, the name of a tag or branch, or a time.

Digits are the id of a snapshot that the table has, as to Spark, or else a name. A date with a time of day is a time,
and needs a zone. All else names a tag or a branch.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from airflow_lake_provider.contracts.durations import in_utc
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.table_facts import TableFacts

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}.*", re.ASCII)
_EXPIRED = "it was expired, or is of another table"


def as_of(value: object, name: str) -> str:
    """Return a moment as text, a time in UTC.

    :param value: text, or a datetime with a zone. A number is none: JSON rounds ids of 19 digits.
    :raises InvalidSpecError: it is something else, or a time without a zone.
    """
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, datetime) or (isinstance(given, str) and _TIME.fullmatch(given)):
        return time_in_utc(given, name)
    if not isinstance(given, str) or not given:
        raise InvalidSpecError(
            f"{name} must be a snapshot id as text, the name of a tag or branch, or a time with a zone, got {value!r}"
        )
    return given


def time_in_utc(value: object, name: str) -> str:
    """Return a time as text in UTC.

    :param value: text, or a datetime with a zone.
    :raises InvalidSpecError: it is something else, or a time without a zone.
    """
    return moment_in_utc(value, name).isoformat()


def moment_in_utc(value: object, name: str) -> datetime:
    """Return a time in UTC, of Python's own class.

    :param value: text, or a datetime with a zone, of pendulum's class too.
    :raises InvalidSpecError: it is something else, or a time without a zone.
    """
    given = value
    if isinstance(value, str):
        try:
            given = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise InvalidSpecError(f"{name} looks like a time and is none: {error}, got {value!r}") from None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise InvalidSpecError(f"{name} must be a time with a zone, such as 2026-11-27T06:00:00+00:00, got {value!r}")
    try:
        return in_utc(given)
    except OverflowError:
        raise InvalidSpecError(f"{name} must be from year 1 to 9999 in UTC as well, got {value!r}") from None


def snapshot_as_of(facts: TableFacts, moment: str) -> str:
    """Return the snapshot of a table at a moment.

    :param moment: as :func:`as_of` returns it.
    :raises BadInputError: the table has no such snapshot, tag or branch, or does not know its head at that time.
    """
    if _TIME.fullmatch(moment):
        return _existing(facts, head_at(facts, datetime.fromisoformat(moment)), moment)
    if moment in facts.snapshots:
        return moment
    head = facts.head(moment)
    if head is None and moment.isascii() and moment.isdigit():
        return _existing(facts, moment, moment)
    if head is None:
        names = ", ".join(sorted(facts.references)) or "none"
        raise BadInputError(f"{facts.name}: as_of={moment!r} is no tag or branch of the table; it has {names}")
    return _existing(facts, head, moment)


def head_at(facts: TableFacts, at: datetime) -> str | None:
    """Return where main was at a time, by its log: a snapshot may be made long before main gets it.

    :return: None where main was nowhere then, or its log does not go back so far.
    """
    milliseconds = int(at.timestamp() * 1000)
    return next((snapshot for since, snapshot in reversed(facts.main_log) if since <= milliseconds), None)


def _existing(facts: TableFacts, snapshot: str | None, moment: str) -> str:
    if snapshot is None:
        since = [at for at, _ in facts.main_log[:1]]
        goes_back = f"goes back to {datetime.fromtimestamp(since[0] / 1000, UTC).isoformat()}" if since else "is empty"
        raise BadInputError(
            f"{facts.name}: as_of={moment!r}: main had no snapshot then, or it was expired; its log {goes_back}"
        )
    if snapshot not in facts.snapshots:
        raise BadInputError(
            f"{facts.name}: as_of={moment!r}: snapshot {snapshot} is not in the table's metadata: {_EXPIRED}. A tag "
            "keeps a snapshot from expiry"
        )
    return snapshot
