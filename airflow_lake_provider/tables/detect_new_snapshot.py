"""The one decision whether the head of a table is a new snapshot. Sensor and triggers all ask here, so they agree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from airflow_lake_provider.contracts.argument_validation import number
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot, TableFacts, ancestors
from airflow_lake_provider.contracts.table_properties import CONSUMER_PREFIX
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.watermark import Since, is_numbered

_CONSUMER_SNAPSHOT = ".snapshot"


class Ancestry(str, Enum):
    """Descent of the head from where the reader stood."""

    FIRST_LOOK = "first-look"
    LINEAR = "linear"
    ROLLED_BACK = "rolled-back"
    REPLACED = "replaced"
    START_EXPIRED = "start-expired"
    HISTORY_EXPIRED = "history-expired"


class SkipReason(str, Enum):
    """Reason to skip a head."""

    NO_SNAPSHOTS = "no-snapshots"
    NOTHING_COMMITTED = "nothing-committed"
    ONLY_MAINTENANCE = "only-maintenance"
    TOO_FEW_ROWS = "too-few-rows"
    TOO_SOON = "too-soon"


@dataclass(frozen=True, kw_only=True)
class NewSnapshot:
    """Rows changed, or may have.

    :param previous_id: where the reader stood; None on a first look.
    :param operation: of the newest commit that changed rows; None where none is known, as after a rollback.
    :param commits: how many commits changed rows since then.
    :param counts: of these commits together; a lower bound where part of the history was expired.
    """

    snapshot_id: str
    previous_id: str | None
    ancestry: Ancestry
    operation: str | None
    commits: int
    counts: Mapping[str, int]
    committed_at: datetime

    def to_payload(self, table: str, branch: str) -> dict[str, Any]:
        """Return the payload of an event: JSON, the keys of Airflow's own Iceberg trigger and more."""
        return {
            "table": table,
            "branch": branch,
            "snapshot_id": self.snapshot_id,
            "previous_snapshot_id": self.previous_id,
            "ancestry": self.ancestry.value,
            "operation": self.operation,
            "commits": self.commits,
            "counts": dict(self.counts),
            "committed_at": self.committed_at.isoformat(),
        }


@dataclass(frozen=True, kw_only=True)
class NoNewSnapshot:
    """Nobody is to be woken.

    :param seen: the reader may move here without an event; None where it must stay.
    """

    reason: SkipReason
    seen: str | None = None


@dataclass(frozen=True, kw_only=True)
class EventThreshold:
    """Least change and least time that make a new snapshot worth an event.

    :param min_added_rows: commits are collected until they added this many rows together.
    :param min_interval: least time between two events.
    """

    min_added_rows: int = 0
    min_interval: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if number(self.min_added_rows, "min_added_rows") < 0 or isinstance(self.min_added_rows, str):
            raise InvalidSpecError(f"min_added_rows must be a number, 0 or more, got {self.min_added_rows!r}")
        if self.min_interval < timedelta(0):
            raise InvalidSpecError(f"min_interval must be 0 or more, got {self.min_interval}")


@dataclass(frozen=True)
class Lineage:
    """Known snapshots from one snapshot back towards the first.

    :param records: newest first.
    :param end: id at which the walk ended and which is not in ``records``: the wanted one, or one that is not known
        any more; None where the oldest record names no parent.
    """

    records: tuple[Snapshot, ...]
    end: str | None

    @property
    def complete(self) -> bool:
        """True where the walk got to the table's first snapshot.

        PyIceberg's expiry erases the parent id of what it leaves behind, so more has to agree.
        """
        if self.end is not None or not self.records:
            return False
        return self.records[-1].sequence_number == 1 or self.records[-1].begins_history


@dataclass(frozen=True, kw_only=True)
class TableHead:
    """Metadata of a table about one branch at one moment.

    :param head: snapshot the branch points at; None without table, branch or snapshot.
    :param snapshots: all snapshots of the table by id, other branches' too.
    :param log: when the branch came to point at which snapshot, oldest first, in epoch milliseconds; only main has one.
    :param consumers: last snapshot each named consumer says it has read.
    :param numbered: whether ids of its snapshots are whole numbers.
    """

    head: str | None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    log: Sequence[tuple[int, str]] = ()
    consumers: Mapping[str, str] = field(default_factory=dict)
    numbered: bool = False

    @classmethod
    def of(cls, facts: TableFacts, branch: str = MAIN, *, numbered: bool = False) -> TableHead:
        """Return that of a branch or tag; one that does not exist has no head.

        :param numbered: see ``numbers_snapshots`` of the table's format.
        """
        return cls(
            head=facts.head(branch),
            snapshots=facts.snapshots,
            log=facts.main_log if branch == MAIN else (),
            consumers={name: id_ for name, id_ in _consumers(facts).items() if not numbered or is_numbered(id_)},
            numbered=numbered,
        )

    @classmethod
    def of_table(cls, table: LoadedTable, branch: str = MAIN) -> TableHead:
        """Return that of a branch or tag of a loaded table, whose format says what an id is."""
        return cls.of(table.facts, branch, numbered=table.capabilities.numbers_snapshots)

    def lineage(self, start: str | None = None, *, stop: Collection[str] = ()) -> Lineage:
        """Walk back from ``start`` (the head when None) until a snapshot of ``stop`` or the end of what is known.

        :raises BrokenMetadataError: a snapshot is its own ancestor.
        """
        start = self.head if start is None else start
        records = tuple(ancestors(self.snapshots, start, stop))
        return Lineage(records, records[-1].parent if records else start)


def decide(
    head: TableHead,
    since: Since,
    *,
    threshold: EventThreshold | None = None,
    last_event_at: datetime | None = None,
    now: datetime | None = None,
) -> NewSnapshot | NoNewSnapshot:
    """Decide whether the head of a branch is a new snapshot to a reader.

    Commits that change no rows are none, wherever they come from. What cannot be known, because the history between
    was expired, counts as new: a reader that wakes for nothing loses less than one that sleeps.

    :param threshold: when a new snapshot is worth an event; None means always.
    :param last_event_at: when the reader was last woken.
    :param now: needed with ``last_event_at``.
    :raises InvalidSpecError: the reader stands at what can be no snapshot of the table.
    """
    if since.snapshot_id is not None and head.numbered and not is_numbered(since.snapshot_id):
        raise InvalidSpecError(
            f"since={shown(since.snapshot_id)} can be no snapshot of this table, whose ids are whole numbers; give an "
            "id of its metadata, or a time with a zone"
        )
    if head.head is None:
        return NoNewSnapshot(reason=SkipReason.NO_SNAPSHOTS)
    change = _change(head, since)
    if not change.may_show:
        at_head = change.previous_id == head.head
        return NoNewSnapshot(
            reason=SkipReason.NOTHING_COMMITTED if at_head else SkipReason.ONLY_MAINTENANCE, seen=head.head
        )
    new_snapshot = _new_snapshot(head.snapshots[head.head], change)
    threshold = threshold or EventThreshold()
    if change.countable and new_snapshot.counts.get("added-records", 0) < threshold.min_added_rows:
        return NoNewSnapshot(reason=SkipReason.TOO_FEW_ROWS)
    if last_event_at is not None and now is not None and now - last_event_at < threshold.min_interval:
        return NoNewSnapshot(reason=SkipReason.TOO_SOON)
    return new_snapshot


@dataclass(frozen=True, kw_only=True)
class _Change:
    """Commits between a reader and the head.

    :param records: on the head's side, newest first.
    :param abandoned: on the reader's side, after a rollback.
    :param known: nothing is missing between the two.
    """

    previous_id: str | None
    ancestry: Ancestry
    records: tuple[Snapshot, ...]
    abandoned: tuple[Snapshot, ...] = ()
    known: bool = True

    @property
    def may_show(self) -> bool:
        return not self.known or any(record.changes_rows for record in (*self.records, *self.abandoned))

    @property
    def countable(self) -> bool:
        """True where added rows measure the change: not where rows went that were counted before."""
        return self.known and self.ancestry not in (Ancestry.ROLLED_BACK, Ancestry.REPLACED)


def _change(head: TableHead, since: Since) -> _Change:
    if since.time is not None:
        return _change_since_time(head, since.time)
    start = head.consumers.get(since.consumer) if since.consumer is not None else since.snapshot_id
    if start is None:
        lineage = head.lineage()
        return _Change(previous_id=None, ancestry=Ancestry.FIRST_LOOK, records=lineage.records, known=lineage.complete)
    return _change_since_snapshot(head, start)


def _change_since_snapshot(head: TableHead, start: str) -> _Change:
    lineage = head.lineage(stop=frozenset({start}))
    # Iceberg's own expiry leaves the parent id, so a start that is gone can still be met at the end of the walk.
    if lineage.end == start:
        ancestry = Ancestry.LINEAR if start in head.snapshots else Ancestry.START_EXPIRED
        return _Change(previous_id=start, ancestry=ancestry, records=lineage.records)
    if start not in head.snapshots:
        return _Change(previous_id=start, ancestry=Ancestry.START_EXPIRED, records=lineage.records, known=False)
    if _may_continue(lineage, head.snapshots[start]):
        return _Change(previous_id=start, ancestry=Ancestry.HISTORY_EXPIRED, records=lineage.records, known=False)
    return _rolled_back(head, start, lineage)


def _may_continue(lineage: Lineage, start: Snapshot) -> bool:
    """Tell whether ``start`` may be an ancestor beyond the point where expiry cut the walk."""
    return not lineage.complete and start.order < lineage.records[-1].order


def _rolled_back(head: TableHead, start: str, lineage: Lineage) -> _Change:
    ids = frozenset(record.id for record in lineage.records)
    abandoned = head.lineage(start, stop=ids)
    shared = abandoned.end if abandoned.end in ids else None
    is_shared = shared is not None
    is_older = lineage.complete and head.snapshots[start].order < lineage.records[-1].order
    return _Change(
        previous_id=start,
        ancestry=Ancestry.REPLACED if is_older else Ancestry.ROLLED_BACK,
        records=head.lineage(stop=frozenset({shared})).records if shared is not None else lineage.records,
        abandoned=abandoned.records,
        known=is_shared,
    )


def _change_since_time(head: TableHead, time: datetime) -> _Change:
    # Rounded up: commits have whole milliseconds.
    since_ms = -(-(time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    # A snapshot may be made on another branch long before it gets to this one: the log knows, its own time does not.
    logged = [snapshot_id for at, snapshot_id in head.log if at < since_ms and snapshot_id in head.snapshots]
    lineage = head.lineage()
    older = [record.id for record in lineage.records if record.at < since_ms]
    if logged or older:
        return _change_since_snapshot(head, logged[-1] if logged else older[0])
    ancestry = Ancestry.FIRST_LOOK if lineage.complete else Ancestry.START_EXPIRED
    return _Change(previous_id=None, ancestry=ancestry, records=lineage.records, known=lineage.complete)


def _new_snapshot(newest: Snapshot, change: _Change) -> NewSnapshot:
    data = [record for record in change.records if record.changes_rows]
    return NewSnapshot(
        snapshot_id=newest.id,
        previous_id=change.previous_id,
        ancestry=change.ancestry,
        operation=data[0].operation if data else None,
        commits=len(data),
        counts=_sum_counts(data),
        committed_at=newest.committed_at,
    )


def _sum_counts(records: Iterable[Snapshot]) -> dict[str, int]:
    total: dict[str, int] = {}
    for record in records:
        for key, count in record.counts.items():
            total[key] = total.get(key, 0) + count
    return total


def _consumers(facts: TableFacts) -> dict[str, str]:
    """Return the cursors of consumers; a tag, where there is one, is newer than or as new as the property."""
    by_property = {
        name.removeprefix(CONSUMER_PREFIX).removesuffix(_CONSUMER_SNAPSHOT): value
        for name, value in facts.properties.items()
        if value and name.startswith(CONSUMER_PREFIX) and name.endswith(_CONSUMER_SNAPSHOT)
    }
    tags = {n: ref.snapshot for n, ref in facts.references.items() if n.startswith(CONSUMER_PREFIX)}
    return by_property | {name.removeprefix(CONSUMER_PREFIX): snapshot for name, snapshot in tags.items()}
