"""Lives of tables whose loads bring rows as they are: appends, and overwrites of partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import AppendReport, JobReport, OverwritePartitionsReport
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.actions.overwrite_batch import overwrite_partitions
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.load_life import NAN, Batch, LoadLife

Row = tuple[Any, ...]
Rows = list[Row]
NUMBERS: tuple[int | None, ...] = (None, 0, 1, 7, 12)
DOUBLES = (None, NAN, 0.0, -0.0, 2.5)


class RowLoad(LoadLife[Rows]):
    """Rows of a typed value, which may be NULL, a number that partitions tell, and a floating one."""

    partitions: ClassVar[Sequence[tuple[str, ...]]] = ((), ("p",))
    columns = ("k", "p", "w")
    phases = ("write", "commit", "commit")

    @classmethod
    def nothing(cls) -> Rows:
        return []

    def rows_of_model(self) -> Rows:
        return self.model

    def with_foreign(self, row: Row) -> Rows:
        return [*self.model, row]

    def foreign_row(self) -> Row:
        return (self.any_of(*self.kind.values), self.any_of(*NUMBERS), 9.5)

    def some_rows(self, most: int, numbers: Sequence[int | None] = NUMBERS, *, nulls: bool = True) -> Rows:
        keys = [None if nulls and self.random.random() < 0.03 else key for key in self.some_values(most)]
        return [(key, self.any_of(*numbers), self.any_of(*DOUBLES)) for key in keys]


class Appends(RowLoad):
    """Files of new rows, early ones and late ones, some without rows, and some that are changed later."""

    load_name = "append"

    def draw(self) -> None:
        # By name: files whose rows are in the table, and those that the next batch has.
        self.consumed: dict[str, Rows] = {}
        self.waiting: dict[str, Rows] = {}
        keys: dict[str, Any] = {"deduplicate_by": ("k",)}
        self.arguments: dict[str, Any] = self.any_of({}, keys, *2 * [{**keys, "deduplicate_against": "P1D"}])

    def load(self, batch: Batch[Rows], progress: Progress) -> JobReport:
        return append_batch(self.flow.spark, AppendSpec(**self.frame(batch)), progress)

    def arrive(self) -> Batch[Rows]:
        run = f"run {self.batches}"
        for _ in range(self.any_of(0, 1, 1, 2, 3)):
            self._write(f"{self.random.randrange(10**6):06}.parquet", self.random.randrange(10**6))
        if self.consumed and self.random.random() < 0.2:
            self._write(self.any_of(*sorted(self.consumed)), 10**6 + self.batches)
        if any(key is None for key, *_ in self._rows()) and self.arguments:
            return Batch(run, self.arguments, list, BadInputError)
        arguments = self.arguments
        if self.consumed.keys() & self.waiting.keys():
            if self.random.random() < 0.5:
                return Batch(run, arguments, list, BadInputError)
            arguments = {**arguments, "on_changed_input": "append"}
        self.arrived = [row for row in self._rows() if row[0] is not None]
        batch = Batch(run, arguments, partial(self._appended, self._rows()))
        # Nothing is committed of a batch without rows, so that its files come again.
        if self._rows():
            self.consumed, self.waiting = {**self.consumed, **self.waiting}, {}
        return batch

    def foreign_row(self) -> Row:
        # One that the batch has, too, which is a duplicate where the table is compared.
        return (self.any_of(*self.arrived)[0], 7, 9.5) if self.arrived else super().foreign_row()

    def mend(self, batch: Batch[Rows]) -> None:
        for name, rows in self.waiting.items() if self.arguments else ():
            self.waiting[name] = [row for row in rows if row[0] is not None]
            self.put(name, self.waiting[name], 2 * 10**6 + self.batches)

    def _write(self, name: str, at: int) -> None:
        self.waiting[name] = self.some_rows(8)
        self.put(name, self.waiting[name], at)

    def _rows(self) -> Rows:
        """Return the rows of the next batch in the order of their arrival."""
        return [row for name in sorted(self.waiting) for row in self.waiting[name]]

    def _appended(self, rows: Rows, before: Rows) -> Rows:
        if not self.arguments:
            return [*before, *rows]
        after = list(before)
        seen = {key for key, *_ in before} if "deduplicate_against" in self.arguments else set()
        for row in rows:
            if row[0] not in seen:
                after.append(row)
            seen.add(row[0])
        return after

    def check_report(self, report: JobReport, before: Rows) -> None:
        assert isinstance(report, AppendReport)
        assert report.rows_appended == len(self.model) - len(before)


class Overwrites(RowLoad):
    """Batches of some partitions, told by the rows or by ``where``; rows of a value come to other partitions."""

    load_name = "overwrite"
    partitions = (("p",), ("p",), ("truncate(8, p)",), ("p", "bucket(2, k)"))

    def draw(self) -> None:
        if self.kind.name == "BOOLEAN" and len(self.layout.partition_by) > 1:
            self.layout = replace(self.layout, partition_by=("p",))
        # Predicates of whole partitions, and the same in Python.
        self.predicates: list[tuple[str | None, Callable[[Row], bool]]] = [("true", lambda _: True)]
        if self.layout.partition_by[0] == "p":
            self.predicates += [("p = 1", lambda row: row[1] == 1), ("p IS NULL", lambda row: row[1] is None)]
            self.predicates += [("p IN (0, 7)", lambda row: row[1] in (0, 7))]
        if self.layout.partition_by[0] == "truncate(8, p)":
            self.predicates += [("p >= 0 AND p < 8", lambda row: row[1] is not None and 0 <= row[1] < 8)]

    def load(self, batch: Batch[Rows], progress: Progress) -> JobReport:
        spec = OverwritePartitionsSpec(**self.frame(batch, f"{batch.run.partition(',')[0]}.parquet"))
        return overwrite_partitions(self.flow.spark, spec, progress)

    def arrive(self) -> Batch[Rows]:
        run, rows = f"run {self.batches}", self.some_rows(12)
        arguments: dict[str, Any] = {}
        where, is_replaced = self.any_of((None, None), *self.predicates, *self.predicates[1:])
        if where is not None:
            arguments = {"where": where, "empty": self.any_of("keep", "delete")}
            if self.random.random() < 0.3:
                whole = is_replaced
                arguments |= {"where": f"({where}) AND w = 2.5", "allow_rows": True}
                is_replaced = lambda row: whole(row) and row[2] == 2.5  # noqa: E731
            if self.layout.properties["format-version"] == "3" and self.random.random() < 0.5:
                arguments["keys"] = ("k",)
            if self.random.random() < 0.8:
                rows = [row for row in rows if is_replaced(row)]
        self.put(f"{run}.parquet", rows, self.batches)
        refused = BadInputError if where is not None and not all(map(is_replaced, rows)) else None
        keeps = not rows and arguments.get("empty") != "delete"
        return Batch(run, arguments, list if keeps else partial(self._replaced, rows, is_replaced), refused)

    def replaces_again(self, batch: Batch[Rows]) -> bool:
        return True

    def _replaced(self, rows: Rows, is_replaced: Callable[[Row], bool] | None, before: Rows) -> Rows:
        if is_replaced is None and not rows:
            return before
        if is_replaced is None:
            partition = self._partitions()
            replaced = set(map(partition, rows))
            return [row for row in before if partition(row) not in replaced] + rows
        return [row for row in before if not is_replaced(row)] + rows

    def _partitions(self) -> Callable[[Row], tuple[Any, ...]]:
        """Return what tells the partition of a row: PyIceberg's transforms of the table."""
        table = self.flow.loaded()
        schema = table.schema()
        columns = {schema.find_field(name).field_id: place for place, name in enumerate(self.columns)}
        transforms = [
            (columns[each.source_id], each.transform.transform(schema.find_type(each.source_id)))
            for each in table.spec().fields
        ]
        return lambda row: tuple(transform(_stored(row[place])) for place, transform in transforms)

    def check_report(self, report: JobReport, before: Rows) -> None:
        assert isinstance(report, OverwritePartitionsReport)
        assert report.rows_written is not None
        assert report.rows_replaced is not None
        gone = len(before) - (len(self.model) - report.rows_written)
        # Rows of removed files count that were deleted before.
        deleted = report.before.deleted_rows or 0 if report.before else 0
        assert gone <= report.rows_replaced <= gone + deleted


def _stored(value: Any) -> Any:
    """Return a value as Iceberg stores it: days or microseconds since 1970."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value
