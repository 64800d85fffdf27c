"""Place where a reader of a table stands: as an author names it, and as a watcher keeps it between restarts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, unquote

from airflow_lake_provider.contracts.durations import in_utc
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.property_values import moment, shown, whole_number

# What begins the id of a format whose ids are no numbers, in what authors write and in what is kept.
_OF_ANY_FORM = "snapshot:"


@dataclass(frozen=True, kw_only=True)
class Since:
    """Place where a reader stands; without anything it has seen nothing yet.

    :param snapshot_id: the last snapshot it has seen, as its format writes it.
    :param time: commits that reached the branch at this moment or later are new.
    :param consumer: the snapshot that this consumer's cursor on the table names.
    """

    snapshot_id: str | None = None
    time: datetime | None = None
    consumer: str | None = None

    @classmethod
    def parse(cls, value: object) -> Since:
        """Read a snapshot id or a time.

        :param value: digits for a snapshot id, ``snapshot:<id>`` where ids are no numbers, otherwise a time with a
            zone, as an object or in ISO 8601.
        :raises InvalidSpecError: for any other text, and for a time without a zone.
        """
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return cls(snapshot_id=str(value))
        if (snapshot := whole_number(value)) is not None:
            return cls(snapshot_id=str(snapshot))
        if isinstance(value, str) and (text := value.removeprefix(_OF_ANY_FORM)) not in (value, ""):
            return cls(snapshot_id=text)
        time = _in_utc(value if isinstance(value, datetime) else _parse_time(value))
        if time is None:
            # Python refuses to write a very long number in decimal.
            is_long = isinstance(value, int) and abs(value) >= 2**63
            as_text = value if isinstance(value, str) else f"{value:#x}" if is_long else repr(value)
            given = value if isinstance(value, datetime) else shown(as_text)
            raise InvalidSpecError(
                f"since={given} is neither a snapshot id (digits, or snapshot:<id>) nor a time with a zone, for "
                "example 2026-11-20T08:00:00+00:00"
            )
        return cls(time=time)

    def to_text(self) -> str | None:
        """Write what :meth:`parse` reads; None for a consumer and for nothing."""
        if self.time is not None:
            return self.time.isoformat()
        if self.snapshot_id is None or is_numbered(self.snapshot_id):
            return self.snapshot_id
        return f"{_OF_ANY_FORM}{self.snapshot_id}"


def is_numbered(snapshot_id: str) -> bool:
    """Tell whether digits alone stand for an id in what is kept: a number without leading zeros."""
    number = whole_number(snapshot_id)
    return number is not None and str(number) == snapshot_id


_WATERMARK = re.compile(rf"(?:([0-9]+)|{_OF_ANY_FORM}([^@]+))(?:@([0-9]+))?")


@dataclass(frozen=True)
class Watermark:
    """State that a watcher remembers between restarts.

    :param snapshot_id: last snapshot reported, or passed over in silence.
    :param event_at: when the last event was made, to the second.
    """

    snapshot_id: str | None = None
    event_at: datetime | None = field(default=None)

    @classmethod
    def parse(cls, text: str) -> Watermark:
        """Read what :meth:`to_text` wrote.

        :raises InvalidSpecError: for anything else.
        """
        match = _WATERMARK.fullmatch(text)
        number, quoted, at = match.groups() if match else (None, None, None)
        snapshot = unquote(quoted) if quoted else None if (whole := whole_number(number)) is None else str(whole)
        event_at = moment(seconds) if (seconds := whole_number(at)) is not None else None
        if snapshot is None or (at and event_at is None):
            raise InvalidSpecError(f"watermark {shown(text)} is not of the form <snapshot id>@<epoch seconds>")
        return cls(snapshot, event_at)

    def to_text(self) -> str:
        """Write ``<snapshot id>@<epoch seconds>``; an id that is no number as ``snapshot:<quoted id>``."""
        snapshot = self.snapshot_id or ""
        written = snapshot if is_numbered(snapshot) else f"{_OF_ANY_FORM}{quote(snapshot, safe='')}"
        return written + (f"@{int(self.event_at.timestamp())}" if self.event_at else "")


def _parse_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _in_utc(time: datetime | None) -> datetime | None:
    """Return a time in UTC; None without a zone, and where UTC has no such year."""
    try:
        return in_utc(time) if time is not None and time.tzinfo is not None else None
    except OverflowError:
        return None
