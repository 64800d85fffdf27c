"""The data files that hold the rows of a batch, each with the deletes that are on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.java_functions import JavaFunctions
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable


def touched_files(table: IcebergTable, snapshot: int, paths: Collection[str]) -> dict[str, Any]:
    """Return the ``org.apache.iceberg.FileScanTask`` of each path; the snapshot is planned in the JVM.

    :raises CommitConflictError: a file is not live in the snapshot.
    """
    jvm: Any = table.spark._jvm
    location = JavaFunctions(table.spark).location_of_task()
    tasks = table.java.newScan().useSnapshot(snapshot).planFiles()
    try:
        # A file that was added twice is planned twice.
        by_location = jvm.com.google.common.collect.Multimaps.index(tasks, location)
    finally:
        tasks.close()
    found = {path: by_location.get(path) for path in paths}
    gone = sorted(path for path, planned in found.items() if planned.isEmpty())
    if gone:
        raise CommitConflictError(
            f"{table.name}: {len(gone)} data files with rows of the batch are not in snapshot {snapshot}: {gone[:3]}"
        )
    return {path: planned.get(0) for path, planned in found.items()}


def discard_files(table: IcebergTable, files: Collection[Any]) -> None:
    """Delete files that no commit names; only for those whose commit was surely refused.

    A file that cannot be deleted is left: nothing reads it, and maintenance finds it.
    """
    # Vectors share a Puffin file.
    delete_locations(table, {str(file.location()) for file in files})


def delete_locations(table: IcebergTable, locations: Collection[str]) -> None:
    """Delete files by location; see :func:`discard_files`."""
    jvm: Any = table.spark._jvm
    listed = jvm.java.util.ArrayList()
    for location in locations:
        listed.add(location)
    jvm.org.apache.iceberg.CatalogUtil.deleteFiles(table.java.io(), listed, "uncommitted")


Discard = Callable[[IcebergTable, Collection[Any]], None]


@contextmanager
def discarded_on_conflict(table: IcebergTable, files: list[Any], discard: Discard = discard_files) -> Iterator[None]:
    """Delete the files when their commit was refused; after any other error they may be part of the table."""
    try:
        yield
    except CommitConflictError:
        discard(table, files)
        raise
