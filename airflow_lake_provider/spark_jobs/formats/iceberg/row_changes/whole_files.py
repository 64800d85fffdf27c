"""Files whose rows all match a predicate, by their partition or their bounds: they go without being read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.find_rows import matched_rows, matching_of_files
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import WINS, ResolvedRows, collect_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import rows_of_files, scan_by_newest_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import bounds_are_sure, converted
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import (
    JavaItems,
    as_number_list,
    guava,
    list_of_texts,
    texts_of,
)


@dataclass(frozen=True, kw_only=True)
class FilesByMatch:
    """Data files of a snapshot that have rows which match.

    :param whole: ``org.apache.iceberg.FileScanTask`` of those of which every row does.
    :param rows: live ones in these; with equality deletes, or deletes that several files share, at most.
    :param partial: of the others, a Java list; None where nothing was asked.
    """

    whole: Sequence[Any] = ()
    rows: int = 0
    partial: Any | None = None


def files_by_match(table: IcebergTable, commit: MatchedCommit) -> FilesByMatch:
    """Tell the files of which every row matches, at ``commit.base``; none where bounds cannot tell.

    :raises JavaError: the predicate is no expression of Iceberg's.
    """
    where = commit.match.where
    if commit.whole_files_by is None or commit.base is None or where is None or not bounds_are_sure(table, where):
        return FilesByMatch()
    expression = converted(table, where)
    # What a predicate was simplified to proves nothing of a file.
    if str(expression.op()) == "TRUE":
        return FilesByMatch()
    column = list_of_texts(table.spark, [commit.whole_files_by])
    scan = scan_by_newest_schema(table, int(commit.base)).filter(expression).includeColumnStats(column)
    with closing(scan.planFiles()) as planned:
        tasks = guava(table.spark).collect.Lists.newArrayList(planned)
    package = guava(table.spark)
    strict = table.iceberg.expressions.StrictMetricsEvaluator(table.java.schema(), expression, False)
    field = table.java.schema().findField(commit.whole_files_by)
    is_whole = java_functions(table.spark).is_task_within(strict, int(field.fieldId()))
    collect, predicates = package.collect, package.base.Predicates
    whole = collect.Lists.newArrayList(collect.Iterables.filter(tasks, is_whole))
    partial = collect.Lists.newArrayList(collect.Iterables.filter(tasks, getattr(predicates, "not")(is_whole)))
    listed = JavaItems(table.spark, whole)
    records = sum(as_number_list(table.spark, whole, java_functions(table.spark).rows_of_task))
    deleted = sum(delete.recordCount() for task in listed for delete in file_scoped_deletes(table, task))
    return FilesByMatch(whole=listed, rows=max(0, records - deleted), partial=partial)


def file_scoped_deletes(table: IcebergTable, task: Any) -> list[Any]:
    """Return the position deletes and vectors of a task that are on its file alone."""
    is_file_scoped = table.iceberg.util.ContentFileUtil.isFileScoped
    return [delete for delete in task.deletes() if is_file_scoped(delete)]


def rows_in_other_files(table: IcebergTable, commit: MatchedCommit, files: FilesByMatch) -> ResolvedRows:
    """Find the rows that match in the files of which not every row does, where files were told apart, or in all."""
    if files.partial is None:
        return matched_rows(table, commit)
    if files.partial.isEmpty():
        return ResolvedRows()
    with rows_of_files(table, files.partial) as rows:
        if rows is not None:
            matched = matching_of_files(rows, commit.match).select("_file", "_pos")
            changed = matched.withColumns({WINS: sf.lit(True), DELETED: sf.lit(True)})
            return ResolvedRows(place=collect_positions(changed, keys=None))
    # Of ORC no chosen files can be read with positions.
    resolved = matched_rows(table, commit)
    paths = texts_of(table.spark, files.partial, java_functions(table.spark).location_of_task)
    return ResolvedRows(place=resolved.place.of_files(set(paths)))
