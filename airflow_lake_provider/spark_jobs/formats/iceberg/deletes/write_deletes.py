"""The delete files that take rows, given by position, out of a table, in the form of its version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.commits.row_delta_commit import RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.deletion_vectors import write_vectors
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.position_delete_files import write_position_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import (
    scan_tasks,
    tasks_of_files,
    tasks_without_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def write_deletes(
    table: IcebergTable,
    base: str | None,
    positions: Positions,
    rows: Sequence[Any],
    outdated: Positions | None = None,
    planned: Any = None,
) -> RowDelta:
    """Write the delete files and return them with the rows that take their place.

    :param base: snapshot that the positions are of; None for a table without rows.
    :param rows: ``org.apache.iceberg.DataFile`` objects.
    :param outdated: positions in those that are deleted by the commit which adds them.
    :param planned: Java list of the ``org.apache.iceberg.FileScanTask`` of the snapshot's data files, of those with
        positions at least; None where nobody has planned them.
    :raises CommitConflictError: a data file is not in the snapshot.
    """
    paths = list(positions)
    files = _tasks(table, int(base), paths, planned) if base is not None and paths else {}
    delta = RowDelta(rows=rows, referenced=paths)
    if outdated:
        added = [file for file in rows if str(file.location()) in outdated]
        files |= {str(task.file().location()): task for task in tasks_without_deletes(table, added)}
        positions = {**positions, **outdated}
    if table.format_version >= 3:
        vectors, replaced = write_vectors(table, files, positions)
        return replace(delta, deletes=vectors, replaced=replaced)
    return replace(delta, deletes=write_position_deletes(table, files, positions))


def _tasks(table: IcebergTable, snapshot: int, paths: Sequence[str], planned: Any) -> dict[str, Any]:
    if planned is None:
        return scan_tasks(table, snapshot, paths)
    return tasks_of_files(table, snapshot, planned, paths)
