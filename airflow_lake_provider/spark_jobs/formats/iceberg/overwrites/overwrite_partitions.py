"""Put the rows of a batch in place of whole partitions: those that its files are in, or those of a predicate.

Iceberg takes the old files away, and the deletes on them. Another commit in between is no conflict, in whatever
partition. What it has put there is replaced, as if it had come a moment earlier.

With keys, a row that the table has already keeps its row id, so that readers of changes do not see it. A row with the
key of another one keeps its id, and counts as updated. Rows of one key are taken in pairs, equal ones first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    InvalidSpecError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.commit_counts import counts_in_summary, counts_to_summary
from airflow_lake_provider.contracts.reports.job import OverwritePartitionsReport
from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.iceberg.table_obstacles import without_row_lineage
from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.formats.commits import (
    AppliedCommit,
    MatchedCommit,
    OverwriteCommit,
    RowMatch,
    seen_after_commit,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.appends import PendingRows
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import (
    CommitRoute,
    PartitionOverwrite,
    RowDelta,
    refuse_other_names,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.whole_partitions import (
    files_outside,
    partition_filter,
    refuse_older_specs,
    refuse_outside,
    selected_files,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.change_rows import (
    FilesByMatch,
    refuse_unchangeable,
    rows_in_other_files,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, texts_of
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

_IS_NEW, _NUMBER, _IS_EQUAL, _LEFT_OVER = "_lake_is_new", "_lake_number", "_lake_is_equal", "_lake_left_over"
_DIGEST = "_lake_digest"


def overwrite_partitions(table: IcebergTable, commit: OverwriteCommit, progress: Progress) -> AppliedCommit | None:
    """Commit once, as ``formats.base.FormatTable`` says; None where there is nothing to commit.

    :raises UnsupportedError: files of an earlier partition spec may have rows of the partitions.
    """
    table.refresh()
    if commit.where is None:
        if not table.java.spec().isPartitioned():
            raise InvalidSpecError(f"{table.name}: the table has no partitions; where='true' replaces all of its rows")
        return _PendingOverwrite(table, commit, progress).apply()
    if commit.allow_rows:
        refuse_unchangeable(table)
    if commit.keys and (why := without_row_lineage(table.format_version)) is not None:
        raise UnsupportedError(f"{table.name}: keys let rows that are the same keep their ids: {why}")
    pending = _PendingOverwrite(table, commit, progress)
    pending.selection = partition_filter(table, commit.where, allow_rows=commit.allow_rows)
    # Before anything is read or written, though the commit looks again.
    pending.refuse_split(commit)
    return pending.apply()


@dataclass
class _PendingOverwrite(PendingRows[OverwriteCommit]):
    """Files that come in place of partitions.

    :param selection: ``org.apache.iceberg.expressions.Expression`` of the partitions; None where rows alone can tell.
    :param spec_id: of the table's partition spec that the rows are written by.
    :param compared: files whose rows those of the batch were compared with.
    """

    selection: Any = None
    spec_id: int = -1
    compared: frozenset[tuple[str, str]] = frozenset()

    def refuse_split(self, commit: OverwriteCommit) -> None:
        """Refuse a predicate that selects some rows of a partition."""
        if commit.where is not None and commit.base is not None and not commit.allow_rows:
            selected_files(self.table, commit.base, self.selection).refuse_split(self.table, commit.where)

    def new_rows(self, stored: DataFrame) -> AbstractContextManager[DataFrame]:
        commit, self.spec_id = self.commit, int(self.table.java.spec().specId())
        if not commit.keys or commit.base is None:
            return nullcontext(stored)
        tasks = selected_files(self.table, commit.base, self.selection).all(self.table)
        self.compared = _identities(self.table, tasks)
        return _with_row_ids(self.table, stored, commit.keys, tasks, commit.where if commit.allow_rows else None)

    def on_new_head(self, commit: OverwriteCommit) -> OverwriteCommit:
        pending = super().on_new_head(commit)
        refuse_other_names(self.table, commit)
        if int(self.table.java.spec().specId()) != self.spec_id:
            raise CommitConflictError(f"{self.table.name}: the partition spec has changed since the batch was written")
        if commit.keys and pending.base is not None and pending.base != commit.base:
            selected = selected_files(self.table, pending.base, self.selection)
            present = _identities(self.table, selected.all(self.table))
            if present != self.compared:
                raise CommitConflictError(f"{self.table.name}: rows that the batch was compared with have changed")
        return pending

    def check(self) -> None:
        where = self.commit.where
        if where is None:
            return
        if not self.commit.allow_rows:
            refuse_outside(self.table, self.files, self.selection, where)
            return
        outside = self.files if self.selection is None else files_outside(self.table, self.files, self.selection)
        if outside:
            _refuse_rows_outside(self.table, outside, where)

    def has_changes(self) -> bool:
        if self.files or self.commit.base is None:
            return bool(self.files)
        selected = selected_files(self.table, self.commit.base, self.selection)
        return not (selected.whole.isEmpty() and selected.split.isEmpty())

    @contextmanager
    def delta(self, commit: OverwriteCommit, route: CommitRoute) -> Iterator[tuple[OverwriteCommit, RowDelta]]:
        table = self.table
        if commit.where is None:
            refuse_older_specs(table, commit.base, self.files)
            yield commit, PartitionOverwrite(rows=self.files, spec_id=self.spec_id)
            return
        files, whole = FilesByMatch(), JavaItems(table.spark, [])
        if commit.base is not None and self.selection is not None:
            selected = selected_files(table, commit.base, self.selection)
            if not commit.allow_rows:
                selected.refuse_split(table, commit.where)
            whole = JavaItems(table.spark, selected.whole)
            files = FilesByMatch(whole=whole, partial=selected.split)
        if commit.base is None or (files.partial is not None and files.partial.isEmpty()):
            yield commit, PartitionOverwrite(rows=self.files, spec_id=self.spec_id, where=self.selection)
            return
        match = RowMatch(where=commit.where)
        matched = rows_in_other_files(
            table, MatchedCommit(action=commit.action, run_key=commit.run_key, base=commit.base, match=match), files
        )
        # They were looked for by the names of now.
        refuse_other_names(table, commit)
        lost = matched.deleted + sum(map(int, whole.texts(java_functions(table.spark).rows_of_task)))
        delta = replace(write_deletes(table, commit.base, matched.positions, self.files), removed=whole)
        with discarded_on_failure(table, delta.deletes, route.discard):
            yield replace(commit, summary={**commit.summary, **counts_to_summary(rows_replaced=lost)}), delta

    def counted(self, applied: AppliedCommit) -> AppliedCommit:
        summary, warnings = seen_after_commit(
            "the number of rows that were replaced", lambda: self.table.refresh().summary(applied.snapshot)
        )
        counts = counts_in_summary(OverwritePartitionsReport, summary or {})
        # A snapshot does not say what it has none of.
        missing = None if summary is None else 0
        return replace(
            applied,
            rows_replaced=counts["rows_replaced"] or missing,
            partitions_replaced=counts["partitions_replaced"] or missing,
            warnings=(*applied.warnings, *warnings),
        )


def _refuse_rows_outside(table: IcebergTable, files: list[Any], where: str) -> None:
    """Refuse rows of new files that a predicate is not true for; they are read again.

    :raises BadInputError: with their number and one of them.
    """
    with closing(FileScan(table.spark, table.java, tasks_without_deletes(table, files))) as scan:
        outside = scan.dataframe.filter(~sf.coalesce(sf.expr(where), sf.lit(False)))
        count = outside.count()
        if count:
            example = outside.select(*map(quoted, table.schema().names)).first()
            values = {} if example is None else example.asDict()
            raise BadInputError(
                f"{table.name}: where={shown(where)} is not true for {count:,} rows of the batch, such as "
                f"{shown(str(values))}. They would come anew with each run: leave them out in a Query, or give a "
                "where of all rows"
            )


@contextmanager
def _with_row_ids(
    table: IcebergTable, rows: DataFrame, keys: Sequence[str], tasks: Any, where: str | None
) -> Iterator[DataFrame]:
    """Lend the rows with the columns of row lineage, filled where the replaced rows have such a row.

    :param rows: in the columns of the table.
    :param tasks: Java list of the ``org.apache.iceberg.FileScanTask`` of files with rows that are replaced.
    :param where: SQL predicate of these rows; None where all of them are.
    """
    if tasks.isEmpty():
        yield rows
        return
    with closing(FileScan(table.spark, table.java, tasks)) as scan:
        columns = [field.name for field in rows.schema]
        names = [name for name in columns if name.lower() in {key.lower() for key in keys}]
        replaced = scan.dataframe.select(*map(quoted, columns), ROW_ID, LAST_UPDATED)
        replaced = replaced if where is None else replaced.filter(sf.expr(where))
        rest = [(quoted_name(field.name), field.dataType) for field in rows.schema if field.name not in names]
        yield _paired(_with_digest(rows, rest), _with_digest(replaced, rest), names).select(
            *map(quoted, columns), ROW_ID, LAST_UPDATED
        )


def _identities(table: IcebergTable, tasks: Any) -> frozenset[tuple[str, str]]:
    """Return what tells the rows of files from those of others: their locations, and their deletes.

    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``.
    """
    java = java_functions(table.spark)
    parts = (texts_of(table.spark, tasks, function) for function in (java.location_of_task, java.deletes_of_task))
    return frozenset(zip(*parts, strict=True))


def _with_digest(rows: DataFrame, rest: Sequence[tuple[str, DataType]]) -> DataFrame:
    return rows.withColumn(_DIGEST, content_digest(rest))


def _paired(new: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return new rows with the row id of an old one of their key, and with its last change where both are equal.

    Equal rows are paired first, in whatever order they come; what is left of a key is paired by number.
    """
    by_key = [*map(quoted, keys)]
    old = old.select(*by_key, _DIGEST, ROW_ID, LAST_UPDATED, sf.lit(False).alias(_IS_NEW))
    both = new.withColumn(_IS_NEW, sf.lit(True)).unionByName(old, allowMissingColumns=True)
    both = both.withColumn(_NUMBER, _number(*by_key, _DIGEST, _IS_NEW))
    pair = Window.partitionBy(*by_key, _DIGEST, _NUMBER)
    both = both.withColumn(_IS_EQUAL, sf.count(sf.lit(1)).over(pair) > 1)
    left_over = _number(*by_key, _IS_EQUAL, _IS_NEW)
    both = both.withColumn(_LEFT_OVER, sf.when(~sf.col(_IS_EQUAL), left_over))
    of_pair = [sf.when(sf.col(_IS_EQUAL), sf.col(name)) for name in (_DIGEST, _NUMBER)]
    pair = Window.partitionBy(*by_key, _IS_EQUAL, _LEFT_OVER, *of_pair)
    return both.withColumns(
        {
            ROW_ID: sf.max(ROW_ID).over(pair),
            LAST_UPDATED: sf.when(sf.col(_IS_EQUAL), sf.max(LAST_UPDATED).over(pair)),
        }
    ).filter(_IS_NEW)


def _number(*columns: Any) -> Column:
    return sf.row_number().over(Window.partitionBy(*columns).orderBy(_DIGEST))
