"""Add the rows of a batch as they are: written once, in one pass over the input, and committed as files.

When another commit is made in between, the same files are committed on the new head. What else the commit takes away,
and when the batch starts over, is up to the subclass.

An append leaves out rows that the table has of late. These are in the data files that were added lately, which their
data sequence numbers tell. Only where rows were compared with those of the table does a commit that adds rows make the
batch start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit, AppliedCommit, RecentRows, RowsCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.audit_before_publish import AuditedRoute
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import (
    on_new_head,
    reading_base,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import CommitRoute, RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import (
    checked_texts,
    checked_values,
    fit_rows,
    write_defaults,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import planned_tasks, tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable

# A partition is split into some such shares of a batch, in none of fewer bytes.
_LEAST_SHARES, _LEAST_SPLIT = 4, 16 << 20
_SIZE_OF_TABLE = "write.spark.advisory-partition-size-bytes"
_SIZE_OF_SESSION = "spark.sql.iceberg.advisory-partition-size"

C = TypeVar("C", bound=RowsCommit)
# Of snapshots that add no row.
_ADD_NOTHING = {"replace", "delete"}


def stored_rows(table: IcebergTable, commit: RowsCommit) -> DataFrame:
    """Return the rows in the table's columns and types; a column that they lack has NULL, or its write default."""
    checked, schema = checked_values(table, fit_rows(table, commit).rows, commit.keys), table.schema()
    rows = checked_texts(table, checked, commit.keys)
    given = {name.lower(): name for name in rows.columns}
    defaults = write_defaults(schema) if commit.missing_columns is MissingColumns.KEEP else {}
    columns = []
    for column in schema:
        name = given.get(column.name.lower())
        value = sf.expr(defaults.get(column.name.lower(), "NULL")) if name is None else quoted(name)
        # The writer sees to what is required: a cast of a struct refuses what may be NULL, whether or not it is.
        columns.append(value.cast(nullable(column.dataType)).alias(column.name))
    return rows.select(*columns)


def split_of_skewed_partitions(table: IcebergTable, input_bytes: int | None) -> dict[str, str]:
    """Return options of Iceberg's writer by which several tasks write a partition that has most of the rows.

    The writer brings the rows of a partition to one task. Spark splits what is above an advisory size. Iceberg takes
    what fills a data file for that, often a gigabyte. Here it is a share of the batch. It is below that of a skewed
    partition, and above that of one of many, which would be split into small files. What a row takes in a shuffle is
    between a quarter of its bytes in a file and eight times as many.

    :param input_bytes: of the files that are read; None where nobody knows.
    """
    spark = table.spark
    is_set = _SIZE_OF_TABLE in table.properties() or spark.conf.get(_SIZE_OF_SESSION, None) is not None
    shares = int(spark.conf.get("spark.sql.shuffle.partitions") or 0) // 8
    if is_set or input_bytes is None or shares < _LEAST_SHARES:
        return {}
    tasks = min(shares, max(_LEAST_SHARES, 2 * spark.sparkContext.defaultParallelism))
    return {"advisory-partition-size": str(max(_LEAST_SPLIT, input_bytes // tasks))}


def _with_lineage(table: IcebergTable, rows: DataFrame) -> DataFrame:
    """Return the rows with the columns that the writer of a table with row lineage takes; Iceberg fills them."""
    if table.format_version < 3:
        return rows
    names = [name for name in (ROW_ID, LAST_UPDATED) if name not in rows.columns]
    return rows.withColumns({name: sf.lit(None).cast("bigint") for name in names})


@dataclass
class PendingRows(Generic[C]):
    """Files that a commit adds, and how it is made."""

    table: IcebergTable
    commit: C
    progress: Progress
    files: list[Any] = field(default_factory=list)
    audit: BatchAudit | None = None

    def apply(self) -> AppliedCommit | None:
        """Write the rows and commit once, after the audit where one was asked for; None for nothing to commit."""
        table = self.table
        refuse_expired_base(table, self.commit)
        self.commit = commit = replace(self.commit, made_for=table.shape_id)
        with reading_base(table, commit), self.progress.phase("write") as facts:
            stored = stored_rows(table, commit)
            self._plan_audit(stored)
            with self.new_rows(stored) as rows, commit.reading():
                options = split_of_skewed_partitions(table, commit.input_bytes)
                self.files += write_staged(table, _with_lineage(table, rows), options)
            written = sum(int(file.recordCount()) for file in self.files)
            facts.update(rows=written, files=len(self.files))
        with discarded_on_failure(table, self.files):
            self.check()
            counts = commit.counts(written)
        if counts is None or not self.has_changes():
            return None
        self.commit = replace(commit, summary={**commit.summary, **counts})
        with self.progress.phase("commit") as facts:
            snapshot = self._make()
            facts["snapshot"] = str(snapshot)
        audits, audit = commit.audits, self.audit
        applied = AppliedCommit(
            snapshot=str(snapshot),
            rows_inserted=written,
            audits_passed=tuple(audits.queries) if audits is not None else (),
            audit_runs=audit.runs if audit is not None else 0,
        )
        return self.counted(applied)

    def new_rows(self, stored: DataFrame) -> AbstractContextManager[DataFrame]:
        """Lend those of the rows that are written; all of them."""
        return nullcontext(stored)

    def check(self) -> None:
        """Refuse files that may not be committed."""

    def has_changes(self) -> bool:
        """Tell whether there is something to commit."""
        return True

    @contextmanager
    def delta(self, commit: C, route: CommitRoute) -> Iterator[tuple[C, RowDelta]]:  # noqa: ARG002  # others ask it
        """Lend what is committed on a base, and the commit with what its summary says of that."""
        yield commit, RowDelta(rows=self.files)

    def on_new_head(self, commit: C) -> C:
        """Return the commit on the branch's head.

        :raises CommitConflictError: the batch has to be decided on, or read, again.
        """
        return on_new_head(self.table, commit)[0]

    def counted(self, applied: AppliedCommit) -> AppliedCommit:
        """Return the result with what is counted after the commit."""
        return applied

    def _plan_audit(self, rows: DataFrame) -> None:
        """Resolve the assertions, before anything is written."""
        if self.commit.audits is not None:
            table = self.table
            self.audit = BatchAudit(table.spark, str(table.name), self.commit.audits, rows.limit(0))
            self.audit.resolve(table.spark.table(table.sql_name))

    def _make(self) -> int:
        if self.audit is None:
            with discarded_on_failure(self.table, self.files):
                return self._commit(CommitRoute())
        route = AuditedRoute(self.audit, self.progress)
        with (
            self._staged_rows(self.audit),
            route.given_up_on_failure(self.table),
            discarded_on_failure(self.table, self.files, route.discard),
        ):
            return self._commit(route)

    @contextmanager
    def _staged_rows(self, audit: BatchAudit) -> Iterator[None]:
        """Let the audit see the rows as they were written: the input is not read again."""
        table = self.table
        scan = FileScan(table.spark, table.java, tasks_without_deletes(table, self.files)) if self.files else None
        with nullcontext() if scan is None else closing(scan):
            if scan is not None:
                audit.batch = scan.dataframe.select(*map(quoted, table.schema().names))
            yield

    def _commit(self, route: CommitRoute) -> int:
        retries = CommitRetries.of(str(self.table.name), self.table.properties(), route.tries)
        with position_properties(self.table, self.commit) as position:

            def commit_once(commit: C) -> int:
                with self.delta(commit, route) as (counted, delta):
                    return route.commit_delta(self.table, counted, delta, position)

            return rebase_conflicts(commit_once, self.on_new_head, self.commit, retries, self.progress, route.may_go_on)


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
