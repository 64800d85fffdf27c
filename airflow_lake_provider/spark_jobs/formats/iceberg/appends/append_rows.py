"""Add the rows of a batch, but for those that the table has of late.

The table's recent rows are in the data files that were added lately, which their data sequence numbers tell. Only where
rows were compared with those of the table does a commit that adds rows make the batch start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit, AppliedCommit, RecentRows
from airflow_lake_provider.spark_jobs.formats.iceberg.appends.pending_rows import PendingRows
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import on_new_head
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import planned_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# Of snapshots that add no row.
_ADD_NOTHING = {"replace", "delete"}


def append_rows(table: IcebergTable, commit: AppendCommit, progress: Progress) -> AppliedCommit | None:
    """Commit once; None where there is nothing to commit.

    :raises BadInputError: a required column is NULL, or the input cannot be read.
    :raises InvalidSpecError: an assertion is no query that can be resolved.
    :raises AuditFailedError: rows offend an assertion; main is as it was.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won; main has nothing of it.
    :raises UnknownOutcomeError: the catalog's answer was lost and the run key is not on the table.
    """
    return _PendingAppend(table, commit, progress).apply()


class _PendingAppend(PendingRows[AppendCommit]):
    """Files that add rows."""

    def new_rows(self, stored: DataFrame) -> AbstractContextManager[DataFrame]:
        return _without_recent_rows(self.table, self.commit, stored)

    def on_new_head(self, commit: AppendCommit) -> AppendCommit:
        pending, operations = on_new_head(self.table, commit)
        if commit.unless_among is not None and set(operations) - _ADD_NOTHING:
            raise CommitConflictError(f"{self.table.name}: rows were added since the batch was compared with the table")
        return pending


@contextmanager
def _without_recent_rows(table: IcebergTable, commit: AppendCommit, rows: DataFrame) -> Iterator[DataFrame]:
    """Lend the rows of a commit that are not among the recent ones of its base; no job is run.

    :param rows: in the columns of the table.
    """
    tasks = _recent_tasks(table, commit)
    if not tasks or commit.unless_among is None:
        yield rows
        return
    names = [name for name in rows.columns if name.lower() in {each.lower() for each in commit.keys}]
    with closing(FileScan(table.spark, table.java, tasks)) as scan:
        present = scan.dataframe.select(*map(quoted, names))
        new = rows.join(present, on=names, how="left_anti")
        yield new.select(*map(quoted, rows.columns))


def _recent_tasks(table: IcebergTable, commit: AppendCommit) -> list[Any]:
    if commit.unless_among is None or commit.base is None:
        return []
    tasks = planned_tasks(table, int(commit.base), "", whole=True)
    if table.format_version == 1:
        # Its files have no sequence numbers.
        return list(tasks)
    numbers = as_number_list(table.spark, tasks, java_functions(table.spark).sequence_number_of_task)
    history = table.ancestors(table.origin_of(commit.branch))
    least = least_number(commit.unless_among, numbers, history, datetime.now(UTC))
    return [tasks.get(place) for place, number in enumerate(numbers) if number >= least]


def least_number(recent: RecentRows, numbers: Sequence[int], history: Iterable[Snapshot], now: datetime) -> int:
    """Return the least data sequence number of a recent file.

    A compaction gives its files the number of the snapshot that it began at, which is none of an older one. Where it
    cannot be told which files are recent, more are: those before the oldest snapshot that is known, and all of the same
    number.

    :param numbers: of the live data files.
    :param history: of the branch, newest first.
    """
    if recent.within is None:
        ranked = sorted(numbers, reverse=True)
        return ranked[recent.files - 1] if recent.files <= len(ranked) else 0
    cut = (now - recent.within - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1)
    before = next((snapshot for snapshot in history if snapshot.at < cut), None)
    # Version 1 gave no numbers: a table that was upgraded has files of any age with 0.
    return 0 if before is None or before.sequence_number == 0 else before.sequence_number + 1
