"""A table whose commits are simulated, and which the tasks of real plans change.

Health, groups of files and expiry are worked out by the package. Simulated are the bytes that a writer, or a rewrite,
leaves: a rewrite leaves as many files as Iceberg's planner would, and no deleted row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.capabilities import ICEBERG, FormatCapabilities
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, TableShape, TableState
from airflow_lake_provider.contracts.table_properties import ACTION
from airflow_lake_provider.iceberg.compaction_rules import DEFAULT_TARGET_BYTES, RewriteRules, rules_for
from airflow_lake_provider.iceberg.snapshot_retention import expirable_snapshots
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.head_files import FEWEST_MERGED, HeadFiles
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, plan_groups
from airflow_lake_provider.tables.iceberg.head_files import ManifestRecord, count_head
from airflow_lake_provider.tables.iceberg.live_files import DeleteRecord, LiveFiles

MIB = 1024**2
# Bytes of deleted rows that cost a reader as much as a file (decision 37), and bytes of a row.
OPEN_FILE_BYTES, ROW_BYTES = 4 * MIB, 100
_DELETE_BYTES, _MANIFEST_BYTES, _MANIFEST_TARGET = 20_000, 8_000, 8 * MIB
# Iceberg merges manifests itself from so many on.
_MOST_MANIFESTS = 100


@dataclass
class SimulatedFile:
    """A live data file.

    :param deleted: rows that a vector deletes.
    :param deletes: ids of the delete files on it.
    """

    path: str
    partition: str
    bytes: int
    snapshot: str
    deleted: int = 0
    deletes: set[str] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """Rows of it, deleted ones among them."""
        return max(1, self.bytes // ROW_BYTES)


@dataclass
class SimulatedDelete:
    """A live delete file: a vector on one data file, or position deletes on those of a partition.

    :param files: paths of the data files that it lies on.
    """

    id: str
    partition: str
    rows: int
    snapshot: str
    is_vector: bool
    files: set[str]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a writer commits.

    :param added: bytes of each new file, by partition.
    :param deleted: rows that it deletes, by the path of a file.
    """

    at: datetime
    added: Mapping[str, Sequence[int]] = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)


class SimulatedTable(LoadedTable):
    """A table of simulated files.

    :param version: 2 has position delete files, 3 has vectors.
    """

    capabilities: ClassVar[FormatCapabilities] = ICEBERG

    def __init__(self, name: str, *, version: int = 3, is_partitioned: bool = False) -> None:
        self.version, self.metadata_bytes = version, None
        self.files: dict[str, SimulatedFile] = {}
        self.deletes: dict[str, SimulatedDelete] = {}
        self.manifests: list[bool] = []
        self._name, self._fields = name, [_DAY] if is_partitioned else []
        self._snapshots: dict[str, Snapshot] = {}
        self._numbers = self._bytes = self._rows = 0
        self._facts: TableFacts | None = None

    @property
    def facts(self) -> TableFacts:
        """Facts of the newest version."""
        if self._facts is None:
            self._facts = self._newest_facts()
        return self._facts

    def _newest_facts(self) -> TableFacts:
        given: dict[str, Any] = {"format_version": self.version, "properties": {}}
        shape = TableShape(
            **given, schemas={0: {"fields": [_COLUMN]}}, schema_id=0, partition_specs={0: self._fields}, spec_id=0
        )
        head = next(reversed(self._snapshots), None)
        refs = {MAIN: Reference(name=MAIN, snapshot=head, is_branch=True)} if head else {}
        return TableFacts(
            name=self._name,
            uuid=self._name,
            location=f"file:///{self._name}",
            snapshots=dict(self._snapshots),
            references=refs,
            read_shape=lambda: shape,
            **given,
        )

    def state(self) -> TableState:
        """Return the counts of the head."""
        return self.facts.state(lambda _: len(self.manifests))

    @property
    def target_bytes(self) -> int:
        """Iceberg's default."""
        return DEFAULT_TARGET_BYTES

    def expirable(self, now: datetime, older_than: timedelta | None = None, retain_last: int | None = None) -> int:
        """Return how many snapshots an expiry would remove."""
        return expirable_snapshots(self.facts, now, older_than, retain_last)

    def head_files(self, recent: Collection[str], target: int | None = None, fewest: int = FEWEST_MERGED) -> HeadFiles:
        """Count the files of the head, as of manifests."""
        manifests = [
            ManifestRecord(
                bytes=_MANIFEST_BYTES, is_of_deletes=is_of_deletes, is_of_current_spec=True, spec_id=0, files=1
            )
            for is_of_deletes in self.manifests
        ]
        return count_head(
            manifests,
            lambda: LiveFiles(
                data=[self._record(each) for each in self.files.values()], deletes=self._delete_records()
            ),
            lambda _, partition: partition[0],  # type: ignore[index]  # of this table, a tuple
            recent,
            target=target or DEFAULT_TARGET_BYTES,
            manifest_target=_MANIFEST_TARGET,
            fewest=fewest,
        )

    def _record(self, file: SimulatedFile) -> FileRecord:
        return FileRecord(
            path=file.path,
            spec_id=0,
            partition=(file.partition,) if self._fields else (),
            bytes=file.bytes,
            records=file.rows,
            delete_files=frozenset(file.deletes),
            # Those of position deletes on several files cannot be counted by file.
            deleted_records=file.deleted if self.version > 2 else 0,
            snapshot=file.snapshot,
        )

    def _delete_records(self) -> list[DeleteRecord]:
        return [
            DeleteRecord(
                id=each.id,
                spec_id=0,
                partition=(each.partition,) if self._fields else (),
                bytes=_DELETE_BYTES,
                records=each.rows,
                sequence=1,
                target=next(iter(each.files)) if each.is_vector else None,
                is_equality=False,
                is_vector=each.is_vector,
                snapshot=each.snapshot,
            )
            for each in self.deletes.values()
        ]

    @property
    def read_debt(self) -> float:
        """Files that one scan of the table opens beside those that its rows would fill, or what costs as much."""
        sizes: dict[str, list[int]] = defaultdict(list)
        for file in self.files.values():
            sizes[file.partition].append(file.bytes)
        extra = sum(max(0, len(each) - -(-sum(each) // DEFAULT_TARGET_BYTES)) for each in sizes.values())
        wasted = ROW_BYTES * sum(each.rows for each in self.deletes.values())
        return extra + len(self.deletes) + wasted / OPEN_FILE_BYTES

    def commit(self, change: Commit) -> None:  # type: ignore[override]  # of a writer, not of metadata
        """Apply what a writer commits."""
        snapshot = self._next()
        self._add(change.added, snapshot)
        deletes = self._delete(change.deleted, snapshot)
        self.manifests = [*self.manifests, False, *([True] if deletes else [])]
        if len(self.manifests) > _MOST_MANIFESTS:
            self.manifests = [False, True]
        sizes = [size for each in change.added.values() for size in each]
        self._snapshot(
            snapshot,
            change.at,
            "overwrite" if deletes else "append",
            {
                "added-data-files": len(sizes),
                "added-files-size": sum(sizes) + _DELETE_BYTES * deletes,
                "added-records": sum(sizes) // ROW_BYTES,
                "added-delete-files": deletes,
                "added-position-deletes": sum(change.deleted.values()),
                "changed-partition-count": len(change.added),
            },
        )

    def _add(self, added: Mapping[str, Sequence[int]], snapshot: str) -> None:
        for partition, sizes in added.items():
            for number, size in enumerate(sizes):
                path = f"{partition}/{snapshot}-{number}"
                file = self.files[path] = SimulatedFile(path, partition, size, snapshot)
                self._bytes, self._rows = self._bytes + size, self._rows + file.rows

    def _delete(self, deleted: Mapping[str, int], snapshot: str) -> int:
        """Write deletes, and return how many files of them."""
        written = {self._vector(self.files[path], rows, snapshot) for path, rows in deleted.items()}
        return len(written)

    def _vector(self, file: SimulatedFile, rows: int, snapshot: str) -> str:
        rows = min(rows, file.rows - file.deleted)
        is_vector = self.version > 2
        id_ = f"vector-{file.path}" if is_vector else f"{snapshot}-{file.partition}"
        delete = self.deletes.setdefault(id_, SimulatedDelete(id_, file.partition, 0, snapshot, is_vector, set()))
        delete.rows, delete.snapshot = delete.rows + rows, snapshot
        delete.files.add(file.path)
        file.deletes.add(id_)
        file.deleted += rows
        return id_

    def carry_out(self, task: Mapping[str, Any], now: datetime) -> int:
        """Carry out a task of a plan, and return the bytes of the data files that it reads and writes anew."""
        if task["action"] == "compaction":
            spec = written_task(task, "task")
            assert isinstance(spec, CompactionSpec)
            return self._compact(spec, now)
        if task["action"] == "snapshot-expiry":
            self._expire(now)
        elif task["action"] == "rewrite-manifests":
            self.manifests = sorted(set(self.manifests))
            self._snapshot(self._next(), now, "replace", {}, task["action"])
        return 0

    def _compact(self, spec: CompactionSpec, now: datetime) -> int:
        rules = rules_for(spec, CompactionLevel(spec.level), None)
        left = [each for each in self.files.values() if each.partition not in spec.skip_partitions]
        groups = plan_groups(map(self._record, left), rules, 0)
        if not groups:
            return 0
        snapshot, before = self._next(), (len(self.files), len(self.deletes))
        read = [self.files[record.path] for group in groups for record in group]
        size = sum(each.bytes for each in read)
        removed = len(read)
        written: list[int] = []
        for number, group in enumerate(groups):
            written += self._rewrite([self.files[record.path] for record in group], rules, f"{snapshot}-{number}")
        self.manifests = sorted(set(self.manifests))
        self._snapshot(
            snapshot,
            now,
            "replace",
            {
                "added-data-files": len(written),
                "deleted-data-files": removed,
                "added-files-size": sum(written),
                "removed-delete-files": before[1] - len(self.deletes),
            },
            "compaction",
        )
        return size

    def _rewrite(self, group: Sequence[SimulatedFile], rules: RewriteRules, snapshot: str) -> list[int]:
        """Put new files in place of a group, and return their bytes."""
        live = sum(each.bytes * (each.rows - each.deleted) // each.rows for each in group)
        for file in group:
            del self.files[file.path]
            self._bytes, self._rows = self._bytes - file.bytes, self._rows - file.rows
            for id_ in file.deletes:
                delete = self.deletes[id_]
                delete.files.remove(file.path)
                # Of position deletes each file of the partition has its share.
                delete.rows -= min(delete.rows, file.deleted)
                if not delete.files:
                    del self.deletes[id_]
        if not live:
            return []
        sizes = sizes_of(live, rules.target_bytes)
        self._add({group[0].partition: sizes}, snapshot)
        return sizes

    def _expire(self, now: datetime) -> None:
        before = round((now - timedelta(days=5)).timestamp() * 1000)
        head = next(reversed(self._snapshots))
        self._snapshots = {id_: each for id_, each in self._snapshots.items() if each.at >= before or id_ == head}
        self._facts = None

    def _next(self) -> str:
        self._numbers += 1
        return str(self._numbers)

    def _snapshot(
        self, id_: str, at: datetime, operation: str, counts: Mapping[str, int], action: str | None = None
    ) -> None:
        totals = {
            "total-data-files": len(self.files),
            "total-files-size": self._bytes + _DELETE_BYTES * len(self.deletes),
            "total-records": self._rows,
            "total-delete-files": len(self.deletes),
            "total-position-deletes": sum(each.rows for each in self.deletes.values()),
            "total-equality-deletes": 0,
        }
        said = {name: str(count) for name, count in {**counts, **totals}.items()}
        self._snapshots[id_] = Snapshot(
            id=id_,
            parent=next(reversed(self._snapshots), None),
            at=round(at.timestamp() * 1000),
            sequence_number=int(id_),
            summary={"operation": operation, **said, **({ACTION: action} if action else {})},
        )
        self._facts = None


def sizes_of(size: int, target: int) -> list[int]:
    """Return the files that Iceberg writes for some bytes: full ones and a rest, or larger ones that share the rest.

    SizeBasedFileRewritePlanner does so: a rest is spread where files are less than a tenth larger for it.
    """
    full, rest = divmod(size, target)
    if full and rest <= 0.75 * target and size / full < 1.1 * target:
        return [size // full] * full
    return [target] * full + ([rest] if rest else [])


_COLUMN = {"id": 1, "name": "day", "type": "string", "required": False}
_DAY = {"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"}


def initial(table: SimulatedTable, at: datetime, files: Iterable[tuple[str, int]]) -> None:
    """Commit files that were there before, as one that has been maintained has them.

    :param files: partition and bytes of each.
    """
    added: dict[str, list[int]] = defaultdict(list)
    for partition, size in files:
        added[partition].append(size)
    table.commit(Commit(at=at, added=added))
