"""Files of a file group and their deletes, brought over from the JVM some columns at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.deleted_positions import PositionDelete
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, as_number_list, guava, texts_of

_NONE = "null"
# Iceberg's JSON of a data file does not hold them.
_NOT_NUMBERS = {"NaN", "Infinity", "-Infinity"}
# Pairs of a data file and a delete file, which a job has as objects of Python.
_MOST_DELETES = 100_000


@dataclass(frozen=True)
class GroupFiles:
    """Files of a group.

    :param group: ``org.apache.iceberg.actions.RewriteFileGroup``.
    """

    table: IcebergTable
    group: Any

    @property
    def partition(self) -> Any:
        """The partition of its files, of their spec."""
        return self.group.fileScanTasks().get(0).file().partition()

    @cached_property
    def constants(self) -> dict[int, str | None]:
        """Values of columns that the partition is, by field id; as texts of what Iceberg's JSON has."""
        task = self.group.fileScanTasks().get(0)
        spec = task.spec()
        if not spec.isPartitioned():
            return {}
        values = json.loads(self.table.iceberg.ContentFileParser.toJson(task.file(), spec))["partition"]
        fields = zip(JavaItems(self.table.spark, spec.fields()), map(_text, values), strict=True)
        return {int(each.sourceId()): text for each, text in fields if each.transform().isIdentity()}

    @cached_property
    def rows(self) -> int:
        """Rows of its files, the deleted ones included."""
        return sum(as_number_list(self.table.spark, self.group.fileScanTasks(), self._functions.rows_of_task))

    @property
    def _functions(self) -> Any:
        return java_functions(self.table.spark)

    def obstacle(self, files: TableFiles) -> str | None:
        """Return why Arrow does not rewrite the group; None where it may."""
        return next(self._obstacles(files), None)

    def _obstacles(self, files: TableFiles) -> Iterator[str]:
        tasks, functions = self.group.fileScanTasks(), self._functions
        if sum(map(int, self._texts(tasks, functions.delete_count_of_task))) > _MOST_DELETES:
            # Of a partition, each delete file lies on each data file.
            yield f"more than {_MOST_DELETES:,} times a delete file lies on a file"
        if set(self._texts(tasks, functions.of_task("specId", "int"))) != {str(self.group.outputSpecId())}:
            yield "files are of an older partition spec"
        formats = {*self._texts(tasks, functions.of_task("format", "org.apache.iceberg.FileFormat"))}
        if formats != {"PARQUET"}:
            yield f"files are {', '.join(sorted(formats - {'PARQUET'})).lower()}"
        if self.kinds_of_deletes(tasks) - {"POSITION_DELETES"}:
            yield "equality deletes lie on files"
        deletes = self.deletes(tasks)
        kinds = {*self._texts(deletes, functions.of_file("format", "org.apache.iceberg.FileFormat"))}
        if kinds - {"PARQUET", "PUFFIN"}:
            yield "delete files are neither Parquet nor vectors"
        columns = {int(each.fieldId()) for each in JavaItems(self.table.spark, self.table.java.schema().columns())}
        if self.constants.keys() - columns:
            yield "a partition is a column within a struct"
        if not_numbers := _NOT_NUMBERS & set(self.constants.values()):
            yield f"a partition is {', '.join(sorted(map(str, not_numbers)))}"
        if self.table.format_version >= 3 and _NONE in self._texts(
            tasks, functions.of_task("firstRowId", "java.lang.Long")
        ):
            yield "files have no row ids yet"
        locations = [*self._texts(tasks, functions.location_of_task), *self._texts(deletes, functions.location)]
        if not all(map(files.opens, locations)):
            yield "files are in a store that Python workers do not open"

    def parts(self, tasks: Any) -> tuple[FilePart, ...]:
        """Return parts of its files.

        :param tasks: a collection of ``FileScanTask``.
        """
        functions = self._functions
        deletes = iter(self._position_deletes(tasks))
        counts = map(int, self._texts(tasks, functions.delete_count_of_task))
        columns = zip(
            self._texts(tasks, functions.location_of_task),
            self._texts(tasks, functions.of_part("start")),
            self._texts(tasks, functions.of_part("length")),
            self._texts(tasks, functions.of_task("firstRowId", "java.lang.Long")),
            self._texts(tasks, functions.sequence_number_of_task),
            counts,
            strict=True,
        )
        return tuple(
            FilePart(
                path=path,
                start=int(start),
                length=int(length),
                first_row_id=None if first == _NONE else int(first),
                sequence_number=int(number),
                deletes=tuple(islice(deletes, count)),
            )
            for path, start, length, first, number, count in columns
        )

    def _position_deletes(self, tasks: Any) -> list[PositionDelete]:
        deletes, functions = self.deletes(tasks), self._functions
        columns = zip(
            self._texts(deletes, functions.location),
            self._texts(deletes, functions.of_file("recordCount", "long")),
            self._texts(deletes, functions.of_delete("contentOffset")),
            self._texts(deletes, functions.of_delete("contentSizeInBytes")),
            strict=True,
        )
        return [
            PositionDelete(
                location=location,
                rows=int(rows),
                offset=None if offset == _NONE else int(offset),
                size=0 if size == _NONE else int(size),
            )
            for location, rows, offset, size in columns
        ]

    def kinds_of_deletes(self, tasks: Any) -> set[str]:
        """Return the names of ``FileContent`` of the delete files of tasks."""
        content = self._functions.of_file("content", "org.apache.iceberg.FileContent")
        return set(self._texts(self.deletes(tasks), content))

    def deletes(self, tasks: Any) -> Any:
        """Return the delete files of tasks, one after the other; a Java list."""
        listed = getattr(guava(self.table.spark).collect.FluentIterable, "from")(tasks)
        return listed.transformAndConcat(self._functions.listed_deletes_of_task).toList()

    def _texts(self, items: Any, function: Any) -> list[str]:
        return texts_of(self.table.spark, guava(self.table.spark).collect.Lists.newArrayList(items), function)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
