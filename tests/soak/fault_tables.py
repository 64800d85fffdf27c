"""Tables that ``scripts/soak faults`` works on, and the plain-Python rows that each step has to leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    FirstRow,
    History,
    MergeEngine,
    PartialUpdate,
)
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from tests.soak.batches import Change, Inbox, Model, random_changes
from tests.soak.lake import CATALOG, Lake

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
class Loads(FaultTable):
    """Batches of files, one a step; the first one creates the table."""

    version: int = 3
    arguments: Mapping[str, Any] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @property
    def begins_empty(self) -> bool:
        """True: the first batch creates it."""
        return True


@dataclass
class Upserts(Loads):
    """Batches of changes, one a step."""

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
class Wholes(FaultTable):
    """Deliveries of the whole table, one a step: rows stay, differ, come and go."""

    version: int = 3

    @property
    def begins_empty(self) -> bool:
        """True: the first delivery creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        inbox, name = Inbox(self.lake.home / "inbox" / self.table), f"s{self.steps}"
        rows = {id_: row for id_, row in self.model.items() if self.random.random() < 0.8}
        differ = [id_ for id_ in rows if self.random.random() < 0.3]
        rows |= dict.fromkeys([*differ, *self._free_ids(6)], (name, self.steps))
        delivered = [Change(id_, str(said), n, gone=False) for id_, (said, n) in rows.items()]
        inbox.arrive(f"{self.steps:03}", delivered)
        spec = UpsertSpec(
            **frame,
            source=inbox.source(f"{self.steps:03}"),
            keys=("id",),
            is_complete=True,
            max_deleted_share=1.0,
            schema_contract=SchemaContract(exclude_columns=("op",)),
            create=TableLayout(properties={"format-version": str(self.version)}),
        )
        return Step(spec, rows)


@dataclass
class Versions(FaultTable):
    """A history of few names, one batch a step. Each version is a row with an id of its own."""

    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begins_empty(self) -> bool:
        """True: the first upsert creates it."""
        return True

    def _next(self, frame: Mapping[str, Any]) -> Step:
        inbox = Inbox(self.lake.home / "inbox" / self.table)
        picked = self.random.sample(range(12), self.random.randint(1, 6))
        changes = [
            Change(1000 * self.steps + number, f"name {number}", self.steps, self.random.random() < 0.2)
            for number in picked
        ]
        inbox.arrive(f"{self.steps:03}", changes)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.steps)
        spec = UpsertSpec(
            **frame,
            source=inbox.source(f"{self.steps:03}"),
            keys=("name",),
            delete_when="op = 'd'",
            schema_contract=SchemaContract(exclude_columns=("op",)),
            merge_engine=History(at=at.isoformat()),
            **self.arguments,
        )
        begun = {change.key: (change.name, change.n) for change in changes if not change.gone}
        return Step(spec, {**self.model, **begun})

    def verify(self, *, is_done: bool = False) -> None:
        """Check that versions of a name do not overlap, and that one at most is current.

        :raises AssertionError: they do.
        """
        if not is_done:
            return
        rows = self.lake.catalog().load_table(self.table).scan().to_arrow().to_pylist() if self.model else []
        by_time = sorted(rows, key=lambda row: (row["name"], row["valid_from"]))
        for one, next_one in pairwise(by_time):
            if one["name"] == next_one["name"]:
                assert one["valid_to"] is not None, f"{one} and {next_one} overlap"
                assert one["valid_to"] <= next_one["valid_from"], f"{one} and {next_one} overlap"
        assert all(row["is_current"] == (row["valid_to"] is None) for row in rows), rows


@dataclass
class Appends(Loads):
    """Batches of new rows, one a step; a row that was added twice would be a key that is there twice."""

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
