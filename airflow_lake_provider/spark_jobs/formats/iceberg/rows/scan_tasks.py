"""Plan scan tasks of data files, each with the deletes that are on it, and read the rows of such tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import (
    FILE,
    POSITION,
    FileScan,
    table_at_snapshot,
    table_with_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import always_true, converted
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava, list_of, list_of_texts
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS


def scan_tasks(table: IcebergTable, snapshot: int, paths: Collection[str]) -> dict[str, Any]:
    """Return the ``org.apache.iceberg.FileScanTask`` of each path; the snapshot is planned in the JVM.

    :raises CommitConflictError: a file is not live in the snapshot.
    """
    with closing(table.java.newScan().useSnapshot(snapshot).planFiles()) as tasks:
        return tasks_of_files(table, snapshot, tasks, paths)


def planned_tasks(table: IcebergTable, snapshot: int, where: str, *, whole: bool = False) -> Any:
    """Return the tasks of the data files of a snapshot that may hold rows that satisfy ``where``, each file once.

    :param where: SQL over the table's columns; taken for true where Iceberg has no expression for it.
    :param whole: read every row of the files; else row groups that hold no such row are left out.
    :return: a Java list of ``org.apache.iceberg.FileScanTask``.
    """
    scan = scan_by_newest_schema(table, snapshot).filter(_expression(table, where))
    with closing((scan.ignoreResiduals() if whole else scan).planFiles()) as tasks:
        return guava(table.spark).collect.Lists.newArrayList(tasks)


def tasks_of_files(table: IcebergTable, snapshot: int, tasks: Any, paths: Collection[str]) -> dict[str, Any]:
    """Return the task of each path.

    :param tasks: a Java iterable of ``org.apache.iceberg.FileScanTask``, of the snapshot.
    :raises CommitConflictError: a path has none.
    """
    collect, java = guava(table.spark).collect, java_functions(table.spark)
    # A file that was added twice is planned twice.
    by_location = collect.Multimaps.index(tasks, java.location_of_task)
    task_of = java.value_in(collect.Maps.transformValues(by_location.asMap(), java.first_of_collection))
    by_path = {path: task_of.apply(path) for path in paths}
    gone = sorted(path for path, task in by_path.items() if task is None)
    if gone:
        raise CommitConflictError(
            f"{table.name}: {len(gone)} data files with rows of the batch are not in snapshot {snapshot}: {gone[:3]}"
        )
    return by_path


def live_tasks(table: IcebergTable, snapshot: int, paths: Collection[str], where: str) -> Any:
    """Return the tasks of those of the files that are live in a snapshot and may hold rows that satisfy ``where``.

    :param where: SQL over the table's columns; taken for true where Iceberg has no expression for it.
    :return: a Java list of ``org.apache.iceberg.FileScanTask``.
    """
    package = guava(table.spark)
    chosen = package.collect.Sets.newHashSet(list_of_texts(table.spark, paths))
    is_chosen = getattr(package.base.Predicates, "in")(chosen)
    on_tasks = package.base.Predicates.compose(is_chosen, java_functions(table.spark).location_of_task)
    scan = scan_by_newest_schema(table, snapshot)
    with closing(scan.filter(_expression(table, where)).planFiles()) as tasks:
        return package.collect.Lists.newArrayList(package.collect.Iterables.filter(tasks, on_tasks))


def tasks_without_deletes(table: IcebergTable, files: Collection[Any]) -> Any:
    """Return an ``org.apache.iceberg.FileScanTask`` of each data file that reads all of its rows, deleted or not.

    :param files: ``org.apache.iceberg.DataFile`` objects, of a commit or of none.
    :return: a Java list.
    """
    return list_of(table.spark, map(whole_file_task(table), files))


def whole_file_task(table: IcebergTable) -> Callable[..., Any]:
    """Return what makes an ``org.apache.iceberg.FileScanTask`` of a data file, its deletes, and the JSON of its spec.

    Without deletes all rows are read, and without a spec it is that of the file.
    """
    iceberg, spark = table.iceberg, table.spark
    every = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
    schema = iceberg.SchemaParser.toJson(table.java.schema())
    specs = {id_: iceberg.PartitionSpecParser.toJson(spec) for id_, spec in dict(table.java.specs()).items()}
    task = internal(spark, Internal.FILE_SCAN_TASK)
    none = java_array(spark, "org.apache.iceberg.DeleteFile", [])

    def make(file: Any, deletes: Sequence[Any] = (), spec: str | None = None) -> Any:
        on_file = java_array(spark, "org.apache.iceberg.DeleteFile", deletes) if deletes else none
        return task(file, on_file, schema, spec or specs[file.specId()], every)

    return make


def scan_by_newest_schema(table: IcebergTable, snapshot: int) -> Any:
    """Return a scan whose filter means the columns that have their names now."""
    table.prepare_to_read(snapshot)
    if table.has_new_schema(snapshot):
        scan = table_at_snapshot(table.spark, table.java, snapshot).newScan()
    else:
        scan = table.java.newScan().useSnapshot(snapshot)
    # As Spark compares names.
    return scan.caseSensitive(False)


def _expression(table: IcebergTable, where: str) -> Any:
    try:
        return converted(table, where) if where else always_true(table)
    except SPARK_ERRORS:
        return always_true(table)


@contextmanager
def rows_of_files(table: IcebergTable, tasks: Any) -> Iterator[DataFrame | None]:
    """Lend the live rows, with ``_file`` and ``_pos``; None where one of the files is ORC.

    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``, not empty.
    """
    if guava(table.spark).collect.Iterables.any(tasks, java_functions(table.spark).is_task_of_orc):
        yield None
        return
    with closing(FileScan(table.spark, table_with_positions(table.spark, table.java), tasks)) as scan:
        yield scan.dataframe.withColumnsRenamed({FILE: "_file", POSITION: "_pos"})
