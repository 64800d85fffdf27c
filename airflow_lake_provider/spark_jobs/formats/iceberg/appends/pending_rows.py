"""Rows as they are, on their way into a table: written once, in one pass over the input, and committed as files.

When another commit is made in between, the same files are committed on the new head. What else the commit takes away,
and when the batch starts over, is up to the subclass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, RowsCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.audit_before_publish import AuditedRoute
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_route import CommitRoute
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import (
    on_new_head,
    reading_base,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import (
    checked_texts,
    checked_values,
    fit_rows,
    write_defaults,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable

# A partition is split into some such shares of a batch, in none of fewer bytes.
_LEAST_SHARES, _LEAST_SPLIT = 4, 16 << 20
_SIZE_OF_TABLE = "write.spark.advisory-partition-size-bytes"
_SIZE_OF_SESSION = "spark.sql.iceberg.advisory-partition-size"

C = TypeVar("C", bound=RowsCommit)


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
