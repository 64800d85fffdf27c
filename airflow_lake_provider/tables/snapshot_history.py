"""Head of one branch in a table's metadata, and the walk along its ancestry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_lake_provider.contracts.applied_history import begins_history
from airflow_lake_provider.contracts.history_checks import circular_history
from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.table_properties import ACTION

# Keys of a snapshot summary, in the words of the Iceberg specification (appendix F), that say how rows came and went.
COUNT_KEYS = (
    "added-records",
    "deleted-records",
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
)
# Writers that count put one of these into every summary, also where nothing changed.
_COUNTED_KEYS = ("total-records", "total-data-files", "changed-partition-count")
MAINTENANCE_ACTIONS = frozenset({"compaction", "snapshot-expiry"})


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """One snapshot.

    :param parent_id: None for a first snapshot, and where PyIceberg's expiry erased it.
    :param sequence_number: 0 in format version 1.
    :param operation: ``append | overwrite | delete | replace``; None where the writer wrote no summary.
    :param counts: the ``COUNT_KEYS`` of the summary that are above 0.
    :param counted: the writer counts, so that a missing count means 0.
    :param action: ``lake.action`` of the summary.
    :param begins_history: nothing was there before: a new table, or one that replaced another.
    """

    snapshot_id: int
    parent_id: int | None
    committed_at: datetime
    sequence_number: int = 0
    operation: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    counted: bool = True
    action: str | None = None
    begins_history: bool = False

    @classmethod
    def from_summary(
        cls,
        snapshot_id: int,
        parent_id: int | None,
        committed_at: datetime,
        sequence_number: int,
        summary: Mapping[str, str] | None,
    ) -> SnapshotRecord:
        """Read a snapshot's summary.

        :param summary: all of it as text, ``operation`` included; None where there is none.
        """
        given = summary or {}
        counts = {key: whole_number(given.get(key)) for key in COUNT_KEYS}
        return cls(
            snapshot_id=snapshot_id,
            parent_id=parent_id,
            committed_at=committed_at,
            sequence_number=sequence_number,
            operation=given.get("operation"),
            counts={key: count for key, count in counts.items() if count},
            counted=any(key in given for key in _COUNTED_KEYS),
            action=given.get(ACTION),
            begins_history=begins_history(parent_id, sequence_number, given),
        )

    @property
    def changes_rows(self) -> bool:
        """True where a reader of rows can see a difference; where the summary cannot tell, yes.

        The operation alone does not tell: a row delta that deletes nothing is an ``overwrite``.
        """
        if self.operation == "replace" or self.action in MAINTENANCE_ACTIONS:
            return False
        return bool(self.counts) or not self.counted

    @property
    def order(self) -> tuple[int, datetime]:
        """Sorts snapshots of one table by the order of their commits."""
        return self.sequence_number, self.committed_at


@dataclass(frozen=True)
class Lineage:
    """Known snapshots from one snapshot back towards the first.

    :param records: newest first.
    :param end: id at which the walk ended and which is not in ``records``: the wanted one, or one that is not known
        any more; None where the oldest record names no parent.
    """

    records: tuple[SnapshotRecord, ...]
    end: int | None

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
    :param log: when the branch came to point at which snapshot, oldest first; only main has one.
    :param consumers: last snapshot each named consumer says it has read.
    """

    head: int | None
    snapshots: Mapping[int, SnapshotRecord] = field(default_factory=dict)
    log: tuple[tuple[datetime, int], ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)

    def lineage(self, start: int | None = None, *, stop: frozenset[int] = frozenset()) -> Lineage:
        """Walk back from ``start`` (the head when None) until a snapshot of ``stop`` or the end of what is known.

        :raises BrokenMetadataError: a snapshot is its own ancestor.
        """
        records: list[SnapshotRecord] = []
        current = self.head if start is None else start
        while current is not None and current not in stop and current in self.snapshots:
            if len(records) == len(self.snapshots):
                raise circular_history("", current)
            records.append(self.snapshots[current])
            current = self.snapshots[current].parent_id
        return Lineage(tuple(records), current)
