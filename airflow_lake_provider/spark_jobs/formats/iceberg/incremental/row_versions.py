"""The rows that can differ between two snapshots, with the lineage that says whether they do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import RangeUnavailableError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import (
    FILE,
    IS_DELETED,
    POSITION,
    FileScan,
    table_with_deleted_rows,
    table_with_schema,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED
from airflow_lake_provider.spark_jobs.formats.iceberg.table.added_milliseconds import VECTORIZATION
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable, unpruned
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava

# Text of Java for what is not there.
_NULL = "null"


@dataclass(frozen=True)
class LiveFile:
    """A data file of a snapshot.

    :param identity: path, data sequence number and first row id: a path that is added again is another file.
    :param deletes: digest of the delete files and vectors on it; empty for none.
    :param rows: number of its rows, deleted or not.
    :param deleted_rows: number of entries of its delete files; a row may be in more than one.
    :param planned: all tasks of the snapshot; that which reads it is at ``place``.
    """

    identity: tuple[str, int, int | None]
    deletes: str
    rows: int = field(compare=False)
    deleted_rows: int = field(compare=False)
    is_parquet: bool = field(compare=False)
    planned: JavaItems = field(compare=False, repr=False)
    place: int = field(compare=False, repr=False)

    @property
    def data_sequence_number(self) -> int:
        """No row of the file was changed by a later commit than this one."""
        return self.identity[1]

    @property
    def task(self) -> Any:
        """The ``FileScanTask`` that reads it; it comes over when it is asked for."""
        return self.planned[self.place]


@dataclass(frozen=True, kw_only=True)
class ChangedFiles:
    """The files that can differ between two snapshots.

    :param before: live at the first snapshot, and not live with the same deletes at the second.
    :param after: the other way round.
    """

    before: tuple[LiveFile, ...]
    after: tuple[LiveFile, ...]

    @cached_property
    def added(self) -> tuple[LiveFile, ...]:
        """Of ``after``, those that were not live at the first snapshot with whatever deletes."""
        identities = {file.identity for file in self.before}
        return tuple(file for file in self.after if file.identity not in identities)

    @cached_property
    def removed(self) -> tuple[LiveFile, ...]:
        """Of ``before``, those that are not live at the second snapshot with whatever deletes."""
        identities = {file.identity for file in self.after}
        return tuple(file for file in self.before if file.identity not in identities)

    @cached_property
    def with_other_deletes(self) -> tuple[tuple[LiveFile, LiveFile], ...]:
        """The files of both snapshots, as each has them."""
        last = {file.identity: file for file in self.after}
        return tuple((file, last[file.identity]) for file in self.before if file.identity in last)


def live_files(table: IcebergTable, snapshot_id: int) -> list[LiveFile]:
    """Plan a snapshot in the JVM, and bring over some hundred bytes for each data file, however many deletes it has."""
    table.prepare_to_read(snapshot_id)
    with closing(table.java.newScan().useSnapshot(snapshot_id).planFiles()) as tasks:
        planned = JavaItems(table.spark, guava(table.spark).collect.Lists.newArrayList(tasks))
    java = java_functions(table.spark)
    functions = (
        java.location_of_task,
        java.sequence_number_of_task,
        java.first_row_id_of_task,
        java.delete_count_of_task,
        java.digest_of_deletes,
        java.rows_of_task,
        java.deleted_rows_of_task,
        java.format_of_task,
    )
    facts = zip(*(planned.texts(function) for function in functions), strict=True)
    return [
        LiveFile(
            identity=(location, int(number), None if first_row_id == _NULL else int(first_row_id)),
            deletes=digest if int(deletes) else "",
            rows=int(rows),
            deleted_rows=int(deleted_rows),
            is_parquet=format_ == "PARQUET",
            planned=planned,
            place=place,
        )
        for place, (location, number, first_row_id, deletes, digest, rows, deleted_rows, format_) in enumerate(facts)
    ]


def changed_files(before: Iterable[LiveFile], after: Iterable[LiveFile]) -> ChangedFiles:
    """Leave out what both snapshots have with the same deletes: no row of it differs.

    :param before: all live files of the first snapshot.
    :param after: all live files of the second.
    """
    before, after = tuple(before), tuple(after)
    same = set(before) & set(after)
    return ChangedFiles(
        before=tuple(file for file in before if file not in same),
        after=tuple(file for file in after if file not in same),
    )


logger = logging.getLogger(__name__)

# Rows with a new place, or none. Beyond it only keys are joined and stored, and a second read brings the values.
_MOST_WITH_VALUES = 1_000_000


class RowVersions(Protocol):
    """Rows with all columns of the later snapshot's schema, ``_row_id`` and ``_last_updated_sequence_number``.

    Each is a DataFrame that reads nothing until it runs, or None for no rows.
    """

    def before(self) -> DataFrame | None:
        """Return the rows live at the first snapshot, without those of files that are the same at both."""

    def after(self) -> DataFrame | None:
        """Return the rows live at the second snapshot, likewise."""

    def added(self) -> DataFrame | None:
        """Return, of ``after``, at least the rows that were written after the first snapshot."""

    def left_and_arrived(self, read: Iterable[str], /) -> tuple[DataFrame | None, DataFrame | None]:
        """Return rows that may have gone, and those that may be the same rows at another place.

        A row of the first that shares its row id with none of the second is not live at the second snapshot. Both have
        what differs, and of a file that stays only what it lost, where the reader can tell.

        :param read: columns that will be read of the first; others may be there and may not be asked for.
        """

    def values_come_along(self, read: Sequence[str], /) -> bool:
        """Tell whether one read of the rows that may have gone should bring all values, and not the keys alone.

        It should where some surely went: their values are read anyway, and in the same files.

        :param read: the columns that such a read brings.
        """

    def close(self) -> None:
        """Forget the choice of files; no DataFrame can run any more."""


def row_versions(table: IcebergTable, before: Any, after: Any, *, from_sequence_number: int | None) -> RowVersions:
    """Choose the files that differ between two snapshots.

    :param before: ``org.apache.iceberg.Snapshot``; likewise ``after``.
    :param from_sequence_number: of ``before`` when it is an ancestor of ``after``; None when nobody knows.
    :raises UnsupportedError: when the files cannot be chosen and the schemas differ.
    :raises RangeUnavailableError: rows of a file have no row ids.
    """
    missing = missing_internals(table.spark)
    if missing:
        logger.warning(
            "%s: this Iceberg runtime has no %s; both snapshots are read whole instead of the files that differ",
            table.name,
            ", ".join(missing),
        )
        return _WholeSnapshots(table, before, after)
    changed = changed_files(live_files(table, before.snapshotId()), live_files(table, after.snapshotId()))
    _refuse_without_row_ids(table, changed)
    return _DifferingFiles(table, changed, before, after, from_sequence_number)


def _refuse_without_row_ids(table: IcebergTable, changed: ChangedFiles) -> None:
    """Refuse files of a writer that keeps no row lineage: all of their rows would be left out of the changes.

    Table spec, "First Row ID Assignment": a data file without one has rows whose ids are NULL.
    """
    without = [file.identity[0] for file in (*changed.before, *changed.after) if file.identity[2] is None]
    if without:
        raise RangeUnavailableError(
            f"{table.name}: {len(without)} data files of the range, such as {without[0]}, have no row ids, though the "
            "table has format version 3: their writer keeps no row lineage. The next commit of Spark gives them ids. "
            "Rebuild once after it with full_refresh=True, or let on_gap='full' do so; with read_changes, read from "
            "None"
        )


@dataclass
class _DifferingFiles:
    table: IcebergTable
    changed: ChangedFiles
    first: Any
    last: Any
    floor: int | None
    scans: list[FileScan] = field(default_factory=list)

    def before(self) -> DataFrame | None:
        return self._rows(self.changed.before)

    def after(self) -> DataFrame | None:
        return self._rows(self.changed.after)

    def added(self) -> DataFrame | None:
        floor = -1 if self.floor is None else self.floor
        return self._rows(tuple(file for file in self.changed.added if file.data_sequence_number > floor))

    def left_and_arrived(self, read: Iterable[str], /) -> tuple[DataFrame | None, DataFrame | None]:
        if self.floor is None:
            return self.before(), self.after()
        pairs = self.changed.with_other_deletes
        removed, added = self._rows(self.changed.removed), self._rows(self.changed.added)
        # Along one line of history no deleted row comes back to its old place.
        if not pairs:
            return removed, added
        if not can_mark(self.table, self._schema_id, pairs, set(read)):
            return self.before(), self.after()
        deleted, scans = newly_deleted_rows(self.table, self._schema_id, pairs)
        self.scans += scans
        return deleted if removed is None else deleted.unionByName(removed), added

    def values_come_along(self, read: Sequence[str], /) -> bool:
        pairs = self.changed.with_other_deletes
        # Of whole files that were replaced, nearly all rows arrived in others: they are joined, and keys are narrower.
        if self.floor is None or self.changed.removed or not pairs:
            return False
        if not can_mark(self.table, self._schema_id, pairs, set(read)):
            return False
        lost = sum(last.deleted_rows - first.deleted_rows for first, last in pairs)
        if not 0 < lost <= _MOST_WITH_VALUES:
            return False
        return lost > sum(file.rows for file in self.changed.added) or lost > self._moved()

    def _moved(self) -> int:
        """Return how many rows of the first snapshot were written anew."""
        added = self._rows(self.changed.added)
        next_row_id = int(self.first.firstRowId()) + int(self.first.addedRows())
        return 0 if added is None else added.where(sf.col(ROW_ID) < next_row_id).count()

    def close(self) -> None:
        while self.scans:
            self.scans.pop().close()

    def _rows(self, files: tuple[LiveFile, ...]) -> DataFrame | None:
        if not files:
            return None
        self.scans.append(FileScan(self.table.spark, self._java_table, [file.task for file in files]))
        return self.scans[-1].dataframe

    @cached_property
    def _java_table(self) -> Any:
        table = self.table
        if self._schema_id == table.java.schema().schemaId():
            return table.java
        return table_with_schema(table.spark, table.java, self._schema_id)

    @cached_property
    def _schema_id(self) -> int:
        return int(self.table.schema_at(self.last.snapshotId()).schemaId())


class _WholeSnapshots:
    def __init__(self, table: IcebergTable, before: Any, after: Any) -> None:
        if not table.schema_at(before.snapshotId()).sameSchema(table.schema_at(after.snapshotId())):
            raise UnsupportedError(
                f"{table.name}: the schema changed between snapshots {before.snapshotId()} and {after.snapshotId()}, "
                "and this Iceberg runtime cannot read the first with the schema of the second; use "
                "iceberg-spark-runtime-4.1_2.13 1.12.0, or read from None"
            )
        self._table, self._before, self._after = table, before, after

    def before(self) -> DataFrame:
        return self._rows(self._before)

    def after(self) -> DataFrame:
        return self._rows(self._after)

    def added(self) -> DataFrame:
        return self.after()

    def left_and_arrived(self, _read: Iterable[str], /) -> tuple[DataFrame, DataFrame]:
        return self.before(), self.after()

    def values_come_along(self, _read: Sequence[str], /) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _rows(self, snapshot: Any) -> DataFrame:
        return unpruned(self._table.rows_at(snapshot.snapshotId()).select("*", ROW_ID, LAST_UPDATED))


# Of a broadcast; above it Spark chooses by size.
_MOST_BROADCAST = 1_000_000
# The mark is only filled by this reader.
_IN_VECTORS = {"vectorization-enabled": "true"}
# Whose owners turn it off may have files that it does not take.
_OF_TABLE = "read.parquet.vectorization.enabled"


def newly_deleted_rows(
    table: IcebergTable, schema_id: int, pairs: Sequence[tuple[LiveFile, LiveFile]]
) -> tuple[DataFrame, list[FileScan]]:
    """Return the rows, of files that :func:`can_mark` holds for, and the scans to be closed.

    :param schema_id: of the schema to read the files with.
    :param pairs: each file as the first snapshot has it, and as the second. The second has all deletes of the first, as
        along one line of history.
    """
    kept = table_with_deleted_rows(table.spark, table.java, schema_id)

    def deleted(files: Sequence[LiveFile]) -> FileScan:
        return FileScan(table.spark, kept, [file.task for file in files], _IN_VECTORS)

    scans = [deleted([last for _, last in pairs])]
    rows = scans[0].dataframe.where(IS_DELETED)
    earlier = [first for first, _ in pairs if first.deletes]
    if earlier:
        scans.append(deleted(earlier))
        deleted_before = scans[1].dataframe.where(IS_DELETED).select(FILE, POSITION)
        if sum(file.deleted_rows for file in earlier) <= _MOST_BROADCAST:
            deleted_before = sf.broadcast(deleted_before)
        # Not by row id: the place that a row was updated from has the id of the place it went to.
        rows = rows.join(deleted_before, [FILE, POSITION], "left_anti")
    return rows.drop(FILE, POSITION, IS_DELETED), scans


def can_mark(table: IcebergTable, schema_id: int, pairs: Sequence[tuple[LiveFile, LiveFile]], read: Set[str]) -> bool:
    """Tell whether Iceberg reads these columns of these files in vectors (its ``SparkBatch.useParquetBatchReads``).

    :param schema_id: as of :func:`newly_deleted_rows`; likewise ``pairs``.
    :param read: the columns that will be asked for.
    """
    asked = (table.properties().get(_OF_TABLE, "true"), table.spark.conf.get(VECTORIZATION, "true"))
    if any(str(each).lower() != "true" for each in asked):
        return False
    schema: Any = table.java.schemas().get(schema_id)
    types = (schema.findType(f"{name}") for name in read)
    return all(type_ is None or _is_plain(type_) for type_ in types) and all(last.is_parquet for _, last in pairs)


def _is_plain(type_: Any) -> bool:
    return bool(type_.isPrimitiveType()) and str(type_.typeId()) not in ("GEOMETRY", "GEOGRAPHY")
