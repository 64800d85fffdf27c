"""Planned data files and their deletes, brought over from the JVM some columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import PositionDelete
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava, texts_of

NONE = "null"
# Pairs of a data file and a delete file, which a job has as objects of Python.
_MOST_DELETES = 100_000


@dataclass(frozen=True)
class PlannedFiles:
    """Files of a table that a scan has planned."""

    table: IcebergTable

    @property
    def functions(self) -> Any:
        """Functions of Java that ask tasks and files."""
        return java_functions(self.table.spark)

    def obstacles_of(self, tasks: Any, files: TableFiles) -> Iterator[str]:
        """Yield why Arrow does not read files as Iceberg reads them.

        :param tasks: a collection of ``FileScanTask``.
        :param files: how Python workers open files.
        """
        functions = self.functions
        if sum(map(int, self.texts(tasks, functions.delete_count_of_task))) > _MOST_DELETES:
            # Of a partition, each delete file lies on each data file.
            yield f"more than {_MOST_DELETES:,} times a delete file lies on a file"
        formats = {*self.texts(tasks, functions.of_task("format", "org.apache.iceberg.FileFormat"))}
        if others := formats - {"PARQUET"}:
            yield f"files are {', '.join(sorted(others)).lower()}"
        if self.kinds_of_deletes(tasks) - {"POSITION_DELETES"}:
            yield "equality deletes lie on files"
        deletes = self.deletes(tasks)
        kinds = {*self.texts(deletes, functions.of_file("format", "org.apache.iceberg.FileFormat"))}
        if kinds - {"PARQUET", "PUFFIN"}:
            yield "delete files are neither Parquet nor vectors"
        locations = [*self.texts(tasks, functions.location_of_task), *self.texts(deletes, functions.location)]
        if not all(map(files.opens, locations)):
            yield "files are in a store that Python workers do not open"

    def parts(self, tasks: Any) -> tuple[FilePart, ...]:
        """Return parts of its files.

        :param tasks: a collection of ``FileScanTask``.
        """
        functions = self.functions
        deletes = iter(self._position_deletes(tasks))
        counts = map(int, self.texts(tasks, functions.delete_count_of_task))
        columns = zip(
            self.texts(tasks, functions.location_of_task),
            self.texts(tasks, functions.of_part("start")),
            self.texts(tasks, functions.of_part("length")),
            self.texts(tasks, functions.of_task("firstRowId", "java.lang.Long")),
            self.texts(tasks, functions.sequence_number_of_task),
            counts,
            strict=True,
        )
        return tuple(
            FilePart(
                path=path,
                start=int(start),
                length=int(length),
                first_row_id=None if first == NONE else int(first),
                sequence_number=int(number),
                deletes=tuple(islice(deletes, count)),
            )
            for path, start, length, first, number, count in columns
        )

    def _position_deletes(self, tasks: Any) -> list[PositionDelete]:
        deletes, functions = self.deletes(tasks), self.functions
        columns = zip(
            self.texts(deletes, functions.location),
            self.texts(deletes, functions.of_file("recordCount", "long")),
            self.texts(deletes, functions.of_delete("contentOffset")),
            self.texts(deletes, functions.of_delete("contentSizeInBytes")),
            strict=True,
        )
        return [
            PositionDelete(
                location=location,
                rows=int(rows),
                offset=None if offset == NONE else int(offset),
                size=0 if size == NONE else int(size),
            )
            for location, rows, offset, size in columns
        ]

    def kinds_of_deletes(self, tasks: Any) -> set[str]:
        """Return the names of ``FileContent`` of the delete files of tasks."""
        content = self.functions.of_file("content", "org.apache.iceberg.FileContent")
        return set(self.texts(self.deletes(tasks), content))

    def deletes(self, tasks: Any) -> Any:
        """Return the delete files of tasks, one after the other; a Java list."""
        listed = getattr(guava(self.table.spark).collect.FluentIterable, "from")(tasks)
        return listed.transformAndConcat(self.functions.listed_deletes_of_task).toList()

    def texts(self, items: Any, function: Any) -> list[str]:
        """Return what a function of Java says of each item."""
        return texts_of(self.table.spark, guava(self.table.spark).collect.Lists.newArrayList(items), function)
