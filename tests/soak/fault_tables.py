"""Tables that ``scripts/soak faults`` works on, and the plain-Python rows that each step has to leave."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pyiceberg.manifest import ManifestContent

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    FirstRow,
    MergeEngine,
    PartialUpdate,
)
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.row_age import Clock
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.compaction import CompactionLevel, CompactionSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.orphan_files import OrphanFilesSpec, RemovalMode
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.rewrite_manifests import RewriteManifestsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.row_expiry import RowExpirySpec
from airflow_lake_provider.contracts.specs.snapshot_expiry import SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.statistics import StatisticsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.orphan_files import QUARANTINE
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.batches import Change, Inbox, Model, random_changes
from tests.soak.fault_checks import is_hidden
from tests.soak.lake import CATALOG, NAMESPACE, Lake

RunSql = Callable[[str], None]
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
MODES = ", ".join(f"'write.{action}.mode'='merge-on-read'" for action in ("delete", "update", "merge"))


@dataclass(frozen=True)
class Step:
    """A job that is due.

    :param after: rows once it is applied.
    """

    spec: JobSpec
    after: Model

    def tried(self, number: int) -> JobSpec:
        """Return the spec of a try."""
        return replace(self.spec, run=replace(self.spec.run, try_number=number))


@dataclass
class FaultTable(ABC):
    """A table with steps of one action.

    :param sql: runs a statement where nothing fails.
    :param model: its rows: id to (name, n).
    """

    lake: Lake
    table: str
    sql: RunSql
    random: Random
    model: Model = field(default_factory=dict)
    steps: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables that the action may change, the target first."""
        return (self.table,)

    @property
    def begins_empty(self) -> bool:
        """True where the first step creates the table."""
        return False

    @abstractmethod
    def _next(self, frame: Mapping[str, Any]) -> Step: ...

    def step(self) -> Step:
        """Make the next job due."""
        self.steps += 1
        run = RunIdentity.of("faults", f"{self.table} {self.steps}", "task", "-1")
        return self._next({"catalog": CATALOG, "table": self.table, "run": run})

    def verify(self, *, is_done: bool = False) -> None:  # noqa: B027  # for those with files beside their rows
        """Check what rows do not show, after each try.

        :param is_done: after the last one of a step.
        :raises AssertionError: it does not hold.
        """

    def _create(self, version: int, partition: str = "", table: str = "") -> None:
        self.sql(
            f"CREATE TABLE {table or self.table} (id BIGINT NOT NULL, name STRING, n INT) USING iceberg {partition} "
            f"TBLPROPERTIES ('format-version'='{version}', {MODES})"
        )

    def _insert(self, ids: Iterable[int], table: str = "", files: int = 1) -> None:
        """Insert rows that no other step has had."""
        rows = {id_: (f"s{self.steps}", self.steps * 1000 + id_) for id_ in ids}
        values = ", ".join(f"({id_}L, '{name}', {n})" for id_, (name, n) in rows.items())
        self.sql(f"INSERT INTO {table or self.table} SELECT /*+ REPARTITION({files}) */ * FROM VALUES {values}")
        self.model |= rows

    def _free_ids(self, count: int) -> list[int]:
        return self.random.sample([id_ for id_ in range(200) if id_ not in self.model], count)

    def _delete(self, ids: Iterable[int], table: str = "") -> None:
        listed = sorted(ids)
        self.sql(f"DELETE FROM {table or self.table} WHERE id IN ({', '.join(map(str, listed))})")
        for id_ in listed:
            del self.model[id_]


@dataclass
class Upserts(FaultTable):
    """Batches of changes, one a step."""

    version: int = 3
    arguments: Mapping[str, Any] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @property
    def begins_empty(self) -> bool:
        """True: the first upsert creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        inbox = Inbox(self.lake.home / "inbox" / self.table)
        engine = self.arguments.get("merge_engine", Deduplicate())
        changes = random_changes(self.random, f"s{self.steps}", self.steps)
        if isinstance(engine, PartialUpdate):
            changes = [replace(c, n=None) if self.random.random() < 0.4 else c for c in changes]
        inbox.arrive(f"{self.steps:03}", changes)
        after = dict(self.model)
        for change in changes:
            _apply(engine, change, after)
        spec = UpsertSpec(
            **frame,
            source=inbox.source(),
            keys=("id",),
            delete_when="op = 'd'",
            schema_contract=SchemaContract(exclude_columns=("op",)),
            create=TableLayout(partition_by=self.partition_by, properties={"format-version": str(self.version)}),
            **self.arguments,
        )
        return Step(spec, after)


@dataclass
class Appends(FaultTable):
    """Batches of new rows, one a step; a row that was added twice would be a key that is there twice."""

    version: int = 3
    arguments: Mapping[str, Any] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @property
    def begins_empty(self) -> bool:
        """True: the first append creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        inbox, name = Inbox(self.lake.home / "inbox" / self.table), f"s{self.steps}"
        ids = range(100 * self.steps, 100 * self.steps + self.random.randint(1, 20))
        inbox.arrive(f"{self.steps:03}", (Change(id_, name, self.steps, gone=False) for id_ in ids))
        spec = AppendSpec(
            **frame,
            source=inbox.source(),
            schema_contract=SchemaContract(exclude_columns=("op",)),
            create=TableLayout(partition_by=self.partition_by, properties={"format-version": str(self.version)}),
            **self.arguments,
        )
        return Step(spec, {**self.model, **dict.fromkeys(ids, (name, self.steps))})


@dataclass
class Overwrites(FaultTable):
    """Days that are loaded again and again, each from a file of its own; ``n`` is the day."""

    version: int = 3
    arguments: Mapping[str, Any] = field(default_factory=dict)
    days: int = 3

    @property
    def begins_empty(self) -> bool:
        """True: the first overwrite creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        day, name = self.random.randrange(self.days), f"s{self.steps // 2}"
        inbox = Inbox(self.lake.home / "inbox" / self.table)
        ids = self.random.sample(range(100 * day, 100 * day + 30), self.random.randint(1, 20))
        inbox.arrive(f"{self.steps:03}", (Change(id_, name, day, gone=False) for id_ in ids))
        spec = OverwritePartitionsSpec(
            **frame,
            source=inbox.source(f"{self.steps:03}"),
            where=self.random.choice((None, f"n = {day}")) if not self.arguments else f"n = {day}",
            schema_contract=SchemaContract(exclude_columns=("op",)),
            create=TableLayout(partition_by=("n",), properties={"format-version": str(self.version)}),
            **self.arguments,
        )
        others = {id_: row for id_, row in self.model.items() if row[1] != day}
        return Step(spec, {**others, **dict.fromkeys(ids, (name, day))})


def _apply(engine: MergeEngine, change: Change, rows: Model) -> None:
    """Do to a dict what a merge engine does with one change."""
    _, n = rows.get(change.key, (None, None))
    if change.gone:
        rows.pop(change.key, None)
    elif isinstance(engine, FirstRow):
        rows.setdefault(change.key, (change.name, change.n))
    elif isinstance(engine, PartialUpdate):
        rows[change.key] = (change.name, n if change.n is None else change.n)
    elif isinstance(engine, Aggregation):
        rows[change.key] = (change.name, (n or 0) + (change.n or 0))
    else:
        rows[change.key] = (change.name, change.n)


@dataclass
class RowChanges(FaultTable):
    """Deletions, or updates that would show if one was applied twice."""

    version: int = 3
    deletes: bool = True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version)
        if len(self.model) < 12:
            self._insert(self._free_ids(12), files=2)
        picked = sorted(self.random.sample(sorted(self.model), 3))
        where = f"id IN ({', '.join(map(str, picked))})"
        if self.deletes:
            proof = self.random.random() < 0.3
            after = {id_: row for id_, row in self.model.items() if id_ not in picked}
            return Step(DeleteRowsSpec(**frame, where=where, proof=proof), after)
        changed = {id_: (self.model[id_][0], (self.model[id_][1] or 0) + 1) for id_ in picked}
        return Step(UpdateRowsSpec(**frame, assignments={"n": "n + 1"}, where=where), {**self.model, **changed})


@dataclass
class IncrementalRuns(FaultTable):
    """A source that Spark changes between the runs; the target has its rows, with ten times their number."""

    @property
    def source(self) -> str:
        """Table that is read."""
        return f"{self.table}_source"

    @property
    def tables(self) -> tuple[str, ...]:
        """The target, and the source, which gets a tag."""
        return (self.table, self.source)

    @property
    def begins_empty(self) -> bool:
        """True: the first run creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self.held: Model = {}
            self._create(3, table=self.source)
        target, self.model = self.model, self.held
        if len(self.model) > 10:
            self._delete(self.random.sample(sorted(self.model), 4), self.source)
        self._insert(self._free_ids(6), self.source)
        self.held, self.model = self.model, target
        head = self.lake.catalog().load_table(f"{self.source}").metadata.current_snapshot_id
        spec = IncrementalSpec(
            **frame,
            source=self.source,
            consumer="faults",
            keys=("id",),
            source_keys=("id",),
            to_snapshot=str(head),
            query="SELECT id, name, n * 10 AS n, _change_type FROM changes",
            create=TableLayout(properties={"format-version": "3"}),
        )
        return Step(spec, {id_: (name, n * 10) for id_, (name, n) in self.held.items() if n is not None})


@dataclass
class Compactions(FaultTable):
    """Small files and deletes, which a compaction rewrites."""

    version: int = 3
    level: CompactionLevel = CompactionLevel.MAJOR
    partition: str = ""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, self.partition)
        if len(self.model) > 60:
            self._delete(self.random.sample(sorted(self.model), 40))
        self._insert(self._free_ids(15), files=5)
        self._delete(self.random.sample(sorted(self.model), 4))
        spec = CompactionSpec(**frame, level=self.level, min_input_files=2)
        return Step(spec, dict(self.model))


@dataclass
class ManifestRewrites(FaultTable):
    """Many small manifests of two partition specs, which a rewrite merges."""

    version: int = 2

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, _BUCKETS)
            self.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
            self._insert(self._free_ids(3))
            self._insert(self._free_ids(3))
            self.sql(f"ALTER TABLE {self.table} ADD PARTITION FIELD truncate(1, name)")
        for _ in range(3):
            self._insert(self._free_ids(3))
        self._delete(self.random.sample(sorted(self.model), 3))
        return Step(RewriteManifestsSpec(**frame), dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that each partition spec has one manifest of data files at the end."""
        table = self.lake.catalog().load_table(self.table)
        head = table.current_snapshot()
        manifests = [] if head is None else head.manifests(table.io)
        by_spec = Counter(each.partition_spec_id for each in manifests if each.content is ManifestContent.DATA)
        assert not is_done or set(by_spec.values()) == {1}, f"manifests by spec: {by_spec}"


@dataclass
class Statistics(FaultTable):
    """A new head in each step, whose statistics are computed."""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(2, _BUCKETS)
        self._insert(self._free_ids(3))
        self._delete(self.random.sample(sorted(self.model), 2))
        return Step(StatisticsSpec(**frame), dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that the head has statistics at the end."""
        metadata = self.lake.catalog().load_table(self.table).metadata
        has = {each.snapshot_id for each in metadata.statistics}
        assert not is_done or metadata.current_snapshot_id in has, "the head has no statistics"


@dataclass
class RowExpiries(FaultTable):
    """Old and young rows, in files of their own and in files of both."""

    version: int = 3
    partition: str = ""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, self.partition)
            self.sql(f"ALTER TABLE {self.table} ADD COLUMN day DATE")
            if self.partition:
                self.sql(f"ALTER TABLE {self.table} ADD PARTITION FIELD months(day)")
        if len(self.model) > 60:
            self._delete(self.random.sample(sorted(self.model), 30))
        kept = dict(self.model)
        for ages in ((90,), (90, 1), (1,)):
            values = []
            for place, id_ in enumerate(self._free_ids(3)):
                name, n, age = f"s{self.steps}", self.steps * 1000 + id_, ages[place % len(ages)]
                self.model[id_] = (name, n)
                kept |= {id_: (name, n)} if age == 1 else {}
                values.append(f"({id_}L, '{name}', {n}, current_date() - {age})")
            self.sql(f"INSERT INTO {self.table} SELECT /*+ REPARTITION(1) */ * FROM VALUES {', '.join(values)}")
        spec = RowExpirySpec(
            **frame,
            column="day",
            keep=timedelta(days=30),
            clock=Clock.NOW,
            max_share=1.0,
            asked_at=datetime.now(UTC),
        )
        return Step(spec, kept)


@dataclass
class Expiries(FaultTable):
    """Rows that are overwritten, so that an expiry has files to delete."""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.random.choice((2, 3)))
        # The first expiry, too, has something to delete.
        for _ in range(2 if self.steps == 1 else 1):
            if self.model:
                self.sql(f"DELETE FROM {self.table} WHERE true")
                self.model.clear()
            self._insert(self._free_ids(6), files=2)
            self._delete(self.random.sample(sorted(self.model), 2))
        soon = datetime.now(UTC) + timedelta(minutes=1)
        spec = SnapshotExpirySpec(
            **frame,
            expire_before=soon,
            expire_stage_branches_before=soon,
            retain_last=self.random.choice((1, 2)),
        )
        return Step(spec, dict(self.model))


@dataclass
class OrphanRemovals(FaultTable):
    """Files that nothing names, which go for good, to the quarantine or back, beside files that live.

    :param planted: content by path; of the last step, and what that one has restored.
    :param live: files that the metadata reaches.
    """

    planted: dict[Path, bytes] = field(default_factory=dict)
    live: frozenset[Path] = frozenset()
    mode: RemovalMode = RemovalMode.DELETE

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.random.choice((2, 3)))
        if self.mode is RemovalMode.QUARANTINE and self.random.random() < 0.6:
            self.mode = RemovalMode.RESTORE
        else:
            self._plant(self.planted if self.mode is RemovalMode.RESTORE else {})
            self.mode = self.random.choice((RemovalMode.DELETE, RemovalMode.QUARANTINE))
        spec = OrphanFilesSpec(**frame, mode=self.mode, max_share=1.0, tables_checked=1, asked_at=datetime.now(UTC))
        return Step(spec, dict(self.model))

    def _plant(self, restored: Mapping[Path, bytes]) -> None:
        self._insert(self._free_ids(6), files=2)
        self._delete(self.random.sample(sorted(self.model), 2))
        names = [f"data/s{self.steps}-{number}.parquet" for number in range(3)]
        planted = {
            self.folder / name: f"orphan {name}".encode() for name in (*names, f"metadata/s{self.steps}-m0.avro")
        }
        there = {path for path in self.folder.rglob("*") if path.is_file()}
        self.live = frozenset(path for path in there if not is_hidden(str(path))) - restored.keys()
        for path, content in planted.items():
            path.write_bytes(content)
        for path in (*there, *planted):
            os.utime(path, (LONG_AGO, LONG_AGO))
        self.planted = {**restored, **planted}

    @property
    def folder(self) -> Path:
        """Its location."""
        location = self.lake.catalog().load_table(self.table).location()
        return Path("/" + location.removeprefix("file:").lstrip("/"))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that orphans are gone or back at the end, and that neither a quarantine nor a live file is lost."""
        gone = [path for path in self.live if not path.exists()]
        assert not gone, f"files are lost that the metadata reaches: {gone}"
        there = {path for path, content in self.planted.items() if path.exists() and path.read_bytes() == content}
        if self.mode is RemovalMode.RESTORE:
            assert not is_done or there == self.planted.keys(), f"not restored: {sorted(self.planted.keys() - there)}"
        else:
            assert not is_done or not there, f"orphans are left: {sorted(there)}"
        if self.mode is not RemovalMode.DELETE:
            aside = {path.read_bytes() for path in (self.folder / QUARANTINE).rglob("*") if path.is_file()}
            lost = [path for path, content in self.planted.items() if path not in there and content not in aside]
            assert not lost, f"neither in their place nor in the quarantine: {lost}"


def _upserts(strategy: UpsertStrategy = UpsertStrategy.AUTO, version: int = 3, *terms: str, **arguments: Any) -> Any:
    return partial(Upserts, version=version, partition_by=terms, arguments={"strategy": strategy, **arguments})


_POSITIVE = Audits(queries={"no negative id": "SELECT * FROM audited WHERE id < 0"})
_BUCKETS = "PARTITIONED BY (bucket(2, id))"
# Makes the table of (lake, name, sql, random).
KINDS: dict[str, Callable[[Lake, str, RunSql, Random], FaultTable]] = {
    "upsert by position": _upserts(UpsertStrategy.POSITIONS),
    "upsert by copy": _upserts(UpsertStrategy.COPY_ON_WRITE, 2, "bucket(2, id)"),
    "upsert by merge": _upserts(UpsertStrategy.MERGE),
    "upsert by equality": _upserts(UpsertStrategy.EQUALITY, 2),
    "append": partial(Appends, partition_by=("bucket(2, id)",)),
    "append of what is new": partial(
        Appends, version=2, arguments={"deduplicate_by": ("id",), "deduplicate_against": "P1D"}
    ),
    "audited append": partial(Appends, arguments={"audits": _POSITIVE}),
    "overwrite": partial(Overwrites, version=2),
    "overwrite with keys": partial(Overwrites, arguments={"keys": ("id",)}),
    "audited overwrite": partial(Overwrites, arguments={"audits": _POSITIVE}),
    "delete rows": RowChanges,
    "incremental": IncrementalRuns,
    "compaction": partial(Compactions, partition=_BUCKETS),
    "expiry": Expiries,
    "orphan files": OrphanRemovals,
    "audited upsert": _upserts(UpsertStrategy.POSITIONS, audits=_POSITIVE),
    "audited upsert by copy": _upserts(UpsertStrategy.COPY_ON_WRITE, audits=_POSITIVE),
    "upsert of format version 2": _upserts(UpsertStrategy.POSITIONS, 2, "bucket(2, id)"),
    "aggregation": _upserts(merge_engine=Aggregation({"n": "sum"})),
    "first row": _upserts(merge_engine=FirstRow()),
    "partial update": _upserts(merge_engine=PartialUpdate()),
    "update rows": partial(RowChanges, deletes=False),
    "update rows of format version 2": partial(RowChanges, version=2, deletes=False),
    "rewrite of manifests": ManifestRewrites,
    "statistics": Statistics,
    "row expiry": RowExpiries,
    "row expiry of format version 2": partial(RowExpiries, version=2, partition=_BUCKETS),
    "full compaction of format version 2": partial(Compactions, version=2, level=CompactionLevel.FULL),
}


def made(kind: str, lake: Lake, name: str, sql: RunSql, random: Random) -> FaultTable:
    """Return a table of a kind; nothing is made in the catalog before its first step."""
    return KINDS[kind](lake, f"{NAMESPACE}.{name}", sql, random)
