"""Lives of tables whose loads compare rows by key: whole tables, and histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, History
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import JobReport, UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.history_flow import moment
from tests.spark.history_model import CITIES, Event, Version, after, faults
from tests.spark.load_life import Batch, LoadLife
from tests.spark.row_loads import DOUBLES, NUMBERS

STRATEGIES = ("auto", "positions", "copy-on-write", "merge")
# Of a key: number, floating number, and whether it is flagged as deleted.
Values = tuple[Any, ...]
Whole = dict[Any, Values]


class Wholes(LoadLife[Whole]):
    """Deliveries of a whole table, some of them late, too small, or with a key that is NULL."""

    load_name = "complete"
    partitions: ClassVar[Sequence[tuple[str, ...]]] = ((), ("p",))
    columns = ("k", "p", "w")

    @classmethod
    def nothing(cls) -> Whole:
        return {}

    def draw(self) -> None:
        self.newest = 0
        self.is_soft = self.any_of(True, False)
        if self.is_soft:
            self.names.append("is_deleted")
        self.arguments: dict[str, Any] = {
            "keys": ("k",),
            "is_complete": True,
            "strategy": self.any_of(*STRATEGIES),
            "merge_engine": Deduplicate(deletes="soft" if self.is_soft else "hard"),
        }

    def rows_of_model(self) -> list[tuple[Any, ...]]:
        return [(key, *values) for key, values in self.model.items()]

    def foreign_row(self) -> tuple[Any, ...]:
        fresh = [key for key in self.kind.values if key not in self.model]
        # The batch lacks one more key of the table by it, which may be too many.
        row = (self.any_of(*fresh), 7, 9.5) if fresh and self.share == 1 else ()
        return (*row, False) if row and self.is_soft else row

    def with_foreign(self, row: tuple[Any, ...]) -> Whole:
        return {**self.model, row[0]: row[1:]} if row else self.model

    def insert(self, row: tuple[Any, ...]) -> None:
        if row:
            super().insert(row)

    def load(self, batch: Batch[Whole], progress: Progress) -> JobReport:
        path = f"{batch.run.partition(',')[0]}/*.parquet"
        return upsert_batch(self.flow.spark, UpsertSpec(**self.frame(batch, path)), progress)

    def arrive(self) -> Batch[Whole]:
        run = f"run {self.batches}"
        at = 10 * self.batches - (15 if self.newest and self.random.random() < 0.2 else 0)
        source = {key: values[:2] for key, values in self.model.items() if self.random.random() < 0.6}
        lines = [(key, *values) for key, values in source.items()]
        lines += [(key, self.any_of(*NUMBERS), self.any_of(*DOUBLES)) for key in self.some_values(8)]
        half = self.random.randint(0, len(lines))
        is_bad = self.random.random() < 0.1
        self.put(f"{run}/1.parquet", [*lines[:half], *([(None, 1, 1.0)] if is_bad else [])], at)
        self.put(f"{run}/2.parquet", lines[half:], at)
        self.share = self.any_of(1.0, 1.0, 0.2)
        arguments = {**self.arguments, "max_deleted_share": self.share}
        if at < self.newest:
            return Batch(run, arguments, dict)
        whole = {key: values for key, *values in lines}
        live = {key for key in self.model if not self._is_flagged(self.model[key])}
        is_refused = is_bad or len(live - whole.keys()) > self.share * len(live)
        if not is_refused:
            self.newest = at
        return Batch(run, arguments, partial(self._whole, whole), BadInputError if is_refused else None)

    def _whole(self, whole: Mapping[Any, Sequence[Any]], before: Whole) -> Whole:
        flag = (False,) if self.is_soft else ()
        gone = {key: (*values[:2], True) for key, values in before.items() if self.is_soft and key not in whole}
        return {**gone, **{key: (*values, *flag) for key, values in whole.items()}}

    def _is_flagged(self, values: Values) -> bool:
        return self.is_soft and bool(values[2])

    def check_report(self, report: JobReport, before: Whole) -> None:
        assert isinstance(report, UpsertReport)
        old, new = ({str(key): str(values) for key, values in each.items()} for each in (before, self.model))
        assert report.rows_inserted == len(new.keys() - old.keys())


class Histories(LoadLife[list[Version]]):
    """Batches of events: late ones, repeated ones and deletes, and keys that are NULL."""

    load_name = "history"
    partitions: ClassVar[Sequence[tuple[str, ...]]] = ((), ("is_current",), ("is_current", "months(valid_from)"))
    columns = ("k", "valid_from", "valid_to", "is_current", "city", "note", "at", "seq")
    columns_of_files: ClassVar[Mapping[str, pa.DataType]] = {
        "at": pa.timestamp("us", "UTC"),
        "seq": pa.int32(),
        **dict.fromkeys(("op", "city", "note"), pa.string()),
    }
    takes_foreign_rows = False

    @classmethod
    def nothing(cls) -> list[Version]:
        return []

    def draw(self) -> None:
        self.arguments: dict[str, Any] = {
            "keys": ("k",),
            "order_by": ("at", "seq"),
            "delete_when": "op = 'd'",
            "schema_contract": SchemaContract(exclude_columns=("op",)),
            "strategy": self.any_of(*STRATEGIES),
            "merge_engine": History(track=["city"]),
        }
        # Events of batches that were refused: their files come with the next one.
        self.waiting: list[Event] = []
        # One event for each key, time and number: which of two is the last nobody could tell.
        self.pool = [
            Event(key, at, seq, self.any_of(*CITIES), f"{key}.{at}.{seq}", self.random.random() < 0.2)
            for key in range(len(self.kind.values))
            for at in range(6)
            for seq in (1, 2)
        ]

    def rows_of_model(self) -> list[tuple[Any, ...]]:
        assert not faults(self.model)
        return [
            (self.kind.values[r.key], moment(r.since), moment(r.until), r.until is None, r.city, r.note, moment(r.at),
             r.seq) for r in self.model
        ]  # fmt: skip

    def load(self, batch: Batch[list[Version]], progress: Progress) -> JobReport:
        return upsert_batch(self.flow.spark, UpsertSpec(**self.frame(batch)), progress)

    def arrive(self) -> Batch[list[Version]]:
        run = f"run {self.batches}"
        events = self.random.sample(self.pool, self.random.randint(0, 12))
        lines = [self._line(event) for event in events]
        is_bad = self.random.random() < 0.1
        self._put(run, [*lines, *([(None, *lines[0][1:])] if is_bad and lines else [])])
        refused = BadInputError if is_bad and lines else None
        self.refused = lines
        batch = Batch(run, self.arguments, partial(after, batch=[*self.waiting, *events]), refused)
        self.waiting = [*self.waiting, *events] if refused else []
        return batch

    def mend(self, batch: Batch[list[Version]]) -> None:
        self._put(batch.run, self.refused)

    def _put(self, run: str, lines: Sequence[tuple[Any, ...]]) -> None:
        self.put(f"{run}.parquet", lines, self.batches)

    def _line(self, event: Event) -> tuple[Any, ...]:
        op = "d" if event.deletes else "u"
        return (self.kind.values[event.key], moment(event.at), event.seq, op, event.city, event.note)


class Snapshots(LoadLife[list[Version]]):
    """Deliveries of a whole table with the time of each, whose versions are kept."""

    load_name = "history of whole tables"
    partitions = ((), ("valid_from",))
    columns = ("k", "valid_from", "valid_to", "city", "note")
    columns_of_files: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys(("city", "note"), pa.string())
    takes_foreign_rows = False

    @classmethod
    def nothing(cls) -> list[Version]:
        return []

    def draw(self) -> None:
        self.strategy = self.any_of(*STRATEGIES)
        self.whole: dict[int, tuple[str, str]] = {}
        self.latest = -1

    def rows_of_model(self) -> list[tuple[Any, ...]]:
        assert not faults(self.model)
        return [(self.kind.values[r.key], moment(r.since), moment(r.until), r.city, r.note) for r in self.model]

    def load(self, batch: Batch[list[Version]], progress: Progress) -> JobReport:
        path = f"{batch.run.partition(',')[0]}.parquet"
        return upsert_batch(self.flow.spark, UpsertSpec(**self.frame(batch, path)), progress)

    def arrive(self) -> Batch[list[Version]]:
        run, at = f"run {self.batches}", self.batches
        if self.latest > 0 and self.random.random() < 0.2:
            at = self.random.randrange(self.latest)
        whole = {key: values for key, values in self.whole.items() if self.random.random() < 0.8}
        new = self.random.sample(range(len(self.kind.values)), self.random.randint(0, 2))
        whole |= {key: (self.any_of(*CITIES), self.any_of("a", "b")) for key in new}
        rows = [(self.kind.values[key], *values) for key, values in whole.items()]
        self.put(f"{run}.parquet", rows, self.batches)
        engine = History(track=["city"], current=None, at=_text(moment(at)))
        arguments = {"keys": ("k",), "is_complete": True, "max_deleted_share": 1.0, "strategy": self.strategy}
        is_late = at < self.latest
        gone = [Event(key, at, 1, deletes=True) for key in sorted(self.whole.keys() - whole.keys())]
        events = [Event(key, at, 1, *values) for key, values in whole.items() if self.whole.get(key) != values]
        if not is_late:
            self.whole, self.latest = whole, at
        refused = BadInputError if is_late else None
        return Batch(run, {**arguments, "merge_engine": engine}, partial(after, batch=[*gone, *events]), refused)


def _text(time: datetime | None) -> str:
    assert time is not None
    return time.isoformat()
