"""Files of a file group, and why Arrow does not rewrite it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.planned_files import NONE, PlannedFiles
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, as_number_list

# Iceberg's JSON of a data file does not hold them.
_NOT_NUMBERS = {"NaN", "Infinity", "-Infinity"}


@dataclass(frozen=True)
class GroupFiles(PlannedFiles):
    """Files of a group.

    :param group: ``org.apache.iceberg.actions.RewriteFileGroup``.
    """

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
        return sum(as_number_list(self.table.spark, self.group.fileScanTasks(), self.functions.rows_of_task))

    def obstacle(self, files: TableFiles) -> str | None:
        """Return why Arrow does not rewrite the group; None where it may."""
        return next(self._obstacles(files), None)

    def _obstacles(self, files: TableFiles) -> Iterator[str]:
        tasks, functions = self.group.fileScanTasks(), self.functions
        if set(self.texts(tasks, functions.of_task("specId", "int"))) != {str(self.group.outputSpecId())}:
            yield "files are of an older partition spec"
        columns = {int(each.fieldId()) for each in JavaItems(self.table.spark, self.table.java.schema().columns())}
        if self.constants.keys() - columns:
            yield "a partition is a column within a struct"
        if not_numbers := _NOT_NUMBERS & set(self.constants.values()):
            yield f"a partition is {', '.join(sorted(map(str, not_numbers)))}"
        if self.table.format_version >= 3 and NONE in self.texts(
            tasks, functions.of_task("firstRowId", "java.lang.Long")
        ):
            yield "files have no row ids yet"
        yield from self.obstacles_of(tasks, files)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
