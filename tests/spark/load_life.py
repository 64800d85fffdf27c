"""A random life of a table that one load fills, and the plain-Python model that it has to equal after each batch."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.key_types import KEY_TYPES, KeyType, plain
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, kill

M = TypeVar("M")
NAN = float("nan")
BEGIN = 1_700_000_000
# Spark has no such type: the table would have to be made by somebody else.
KINDS = [kind for name, kind in sorted(KEY_TYPES.items()) if name != "UUID"]


@dataclass(frozen=True)
class Batch(Generic[M]):
    """Input that has arrived.

    :param run: that loads it.
    :param arguments: of its spec.
    :param after: from the model as it is then to the one afterwards.
    :param refused: what it has to be refused with.
    """

    run: str
    arguments: Mapping[str, Any]
    after: Callable[[M], M]
    refused: type[Exception] | None = None


@dataclass
class LoadLife(ABC, Generic[M]):
    """One table.

    :param kind: of its column ``k``.
    :param names: of the columns that are compared.
    :param steps: what was done, for a failure.
    """

    load_name: ClassVar[str]
    partitions: ClassVar[Sequence[tuple[str, ...]]]
    columns: ClassVar[Sequence[str]]
    # After the key.
    columns_of_files: ClassVar[Mapping[str, pa.DataType]] = {"p": pa.int32(), "w": pa.float64()}
    # Of progress. Which of them a load has may depend on its strategy.
    phases: ClassVar[Sequence[str]] = ("commit", "publish", "stage", "choose", "resolve")
    # Another writer may add rows between the reading of a batch and its commit.
    takes_foreign_rows: ClassVar[bool] = True
    flow: Flow
    random: Random
    kind: KeyType
    layout: TableLayout
    model: M
    names: list[str]
    steps: list[str] = field(default_factory=list)
    batches: int = 0

    @classmethod
    def drawn(cls, spark: SparkSession, folder: Path, seed: object) -> LoadLife[M]:
        """Draw a table."""
        random = Random(f"{cls.load_name} {seed}")
        kind = random.choice(KINDS)
        terms = [*cls.partitions, (random.choice(kind.transforms).format("k"),)]
        layout = TableLayout(partition_by=random.choice(terms), properties={"format-version": random.choice("23")})
        flow = Flow(spark, f"loads.t_{uuid.uuid4().hex[:8]}", folder / uuid.uuid4().hex[:8])
        life = cls(flow, random, kind, layout, cls.nothing(), [*cls.columns])
        life.draw()
        life.steps.append(f"{cls.load_name} {seed}: {kind.name}, {dict(layout.properties)}, {layout.partition_by}")
        return life

    @classmethod
    @abstractmethod
    def nothing(cls) -> M:
        """Return the model of a table without rows."""

    def draw(self) -> None:  # not every load has arguments to draw
        """Draw the arguments that all batches have."""

    @abstractmethod
    def arrive(self) -> Batch[M]:
        """Let a batch arrive."""

    @abstractmethod
    def load(self, batch: Batch[M], progress: Progress) -> JobReport:
        """Load a batch as a driver does."""

    @abstractmethod
    def rows_of_model(self) -> list[tuple[Any, ...]]:
        """Return all rows that the table should have, in any order."""

    def with_foreign(self, row: tuple[Any, ...]) -> M:
        """Return the model with a row of another writer."""
        raise NotImplementedError

    def foreign_row(self) -> tuple[Any, ...]:
        """Draw a row that another writer may add."""
        raise NotImplementedError

    def mend(self, batch: Batch[M]) -> None:  # where the input of a refused batch may stay
        """Take away what a batch was refused for."""

    def check_report(self, report: JobReport, before: M) -> None:  # not every report counts against a model
        """Compare the counts of a batch that was applied."""

    def play(self, steps: int) -> None:
        """Play so many batches and compare after each."""
        try:
            for _ in range(steps):
                self._step()
        except Exception as error:
            error.add_note("\n".join(self.steps))
            raise

    def _step(self) -> None:
        batch = self.arrive()
        self.batches += 1
        if batch.refused is not None:
            self._refused(batch)
            return
        before = self.model
        ways = [self._plainly, self._killed, self._twice_at_once, self._by_two_runs_at_once]
        ways += 2 * [self._beside_another_writer] if self.takes_foreign_rows else []
        way = self.random.choice(ways)
        self.steps.append(f"{way.__name__} {batch.run} {batch.arguments}")
        report = way(batch)
        self.steps.append(f"{report}")
        self.model = batch.after(self.model)
        self.check()
        if way == self._plainly and report.outcome is Outcome.APPLIED:
            self.check_report(report, before)
        if self.random.random() < 0.5:
            self._again(batch)

    def _refused(self, batch: Batch[M]) -> None:
        self.steps.append(f"refused {batch.run}: {batch.refused}")
        assert batch.refused
        try:
            report = self.load(batch, Progress())
        except batch.refused:
            self.check()
        else:
            raise AssertionError(f"was not refused: {report}")
        self.mend(batch)

    def _plainly(self, batch: Batch[M]) -> JobReport:
        return self.load(batch, Progress())

    def _killed(self, batch: Batch[M]) -> JobReport:
        at = self.random.choice(self.phases)
        try:
            return self.load(batch, InterruptedProgress(at=at, then=kill))
        except Killed:
            self.steps.append(f"killed at {at}")
            self.check()
            return self.load(batch, Progress())

    def _twice_at_once(self, batch: Batch[M]) -> JobReport:
        """A driver that outlived its task meets the retry."""
        return self._interrupted(lambda: self.load(batch, Progress()), batch)

    def _by_two_runs_at_once(self, batch: Batch[M]) -> JobReport:
        other = replace(batch, run=f"{batch.run}, other")
        return self._interrupted(lambda: self.load(other, Progress()), batch)

    def _beside_another_writer(self, batch: Batch[M]) -> JobReport:
        def insert() -> None:
            row = self.foreign_row()
            self.model = self.with_foreign(row)
            self.steps.append(f"foreign {row}")
            self.insert(row)

        return self._interrupted(insert, batch) if self.batches > 1 else self._plainly(batch)

    def _interrupted(self, then: Callable[[], Any], batch: Batch[M]) -> JobReport:
        return self.load(batch, InterruptedProgress(at=self.random.choice(self.phases), then=then))

    def _again(self, batch: Batch[M]) -> None:
        """Nothing is new to a retry, nor to a next run over the same input."""
        self.steps.append(f"again {batch.run}")
        if not self.is_there():
            return
        head = self.flow.loaded().metadata.current_snapshot_id
        self.load(batch, Progress())
        assert self.flow.loaded().metadata.current_snapshot_id == head, "a retry has committed"
        self.load(replace(batch, run=f"{batch.run}, again"), Progress())
        self.model = batch.after(self.model) if self.replaces_again(batch) else self.model
        self.check()

    def replaces_again(self, batch: Batch[M]) -> bool:  # others ask it
        """Tell whether another run over the same input applies it again."""
        return False

    def check(self) -> None:
        """Compare all rows, as PyIceberg reads them."""
        rows = self.flow.records() if self.is_there() else []
        # NULL and NaN have no order, and NaN no equal.
        assert sorted(map(str, map(self.row, rows))) == sorted(map(str, map(shown, self.rows_of_model())))

    def row(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a row that was read, as the model has it."""
        return shown(tuple(plain(record[name]) for name in self.names))

    def is_there(self) -> bool:
        """Tell whether the table has a snapshot."""
        catalog = self.flow.catalog()
        return catalog.table_exists(self.flow.table) and self.flow.loaded().metadata.current_snapshot_id is not None

    def insert(self, row: tuple[Any, ...]) -> None:
        """Add a row as another writer does."""
        literals = ["NULL" if value is None else str(value) for value in row[1:]]
        values = ", ".join([self.kind.literal(row[0]), *literals])
        self.flow.spark.sql(f"INSERT INTO {self.flow.table} ({', '.join(self.names)}) VALUES ({values})")

    def put(self, path: str, rows: Sequence[tuple[Any, ...]], at: int) -> None:
        """Write a file of the inbox, and its time."""
        types = {"k": self.kind.arrow, **self.columns_of_files}
        arrays = [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types.values())]
        file = self.flow.inbox / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(arrays, names=list(types)), file)
        os.utime(file, (BEGIN + at, BEGIN + at))
        self.steps.append(f"{path} of {at}: {list(rows)}")

    def frame(self, batch: Batch[M], path: str = "*.parquet") -> dict[str, Any]:
        """Return the arguments that every spec has."""
        return {
            "catalog": "lake_default",
            "table": self.flow.table,
            "run": RunIdentity.of("loads", batch.run, "task", "-1"),
            "source": Files(path=f"{self.flow.inbox}/{path}", format="parquet", name="inbox"),
            "create": self.layout,
            **batch.arguments,
        }

    def any_of(self, *choices: Any) -> Any:
        """Draw one."""
        return self.random.choice(choices)

    def some_values(self, most: int) -> list[Any]:
        """Draw values of ``k``, one or the other of them twice."""
        return [self.random.choice(self.kind.values) for _ in range(self.random.randint(0, most))]


def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row by which equal values are equal texts: -0.0 is 0.0."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in row)
