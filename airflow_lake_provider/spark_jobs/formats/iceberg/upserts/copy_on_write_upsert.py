"""The strategy ``copy-on-write``: resolve the keys, write the files that hold them anew, commit once.

Nothing is left for readers to apply. The commit is rebased over others in between when they append other keys. After
anything else the files were read too early, and the batch starts over.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.spark_jobs.batch.row_merge import ALWAYS
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import reading_base, refuse_expired_base
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import FileOverwrite, commit_overwrite
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import tasks_of_files
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import (
    AppliedUpsert,
    PlannedUpsert,
    row_merge,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.rebase_commit import rebase_over_appends
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.resolve_keys import deciding_columns, resolve_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.write_upserted_rows import rows_of_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# Each costs a commit; the rewritten files are kept.
_TRIES = 20


def upsert_by_copy(table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
    """Apply the batch; the table's cost is the data files with a row that it changes, read and written.

    :raises CommitConflictError: something else than appends of other keys was committed; nothing changed.
    """
    refuse_expired_base(table, commit)
    with reading_base(table, commit), progress.phase("resolve") as facts:
        resolved = resolve_rows(table, commit)
        facts.update(rows=resolved.updated + resolved.deleted, files=len(resolved.positions))
    with reading_base(table, commit), progress.phase("stage") as facts:
        replaced = _changed_tasks(table, commit, resolved)
        inserted = _inserted(table, commit, resolved)
        staged = _stage(table, commit, resolved, replaced)
        facts.update(files=len(staged))
    counts = counts_to_summary(rows_inserted=inserted, rows_updated=resolved.updated, rows_deleted=resolved.deleted)
    commit = replace(commit, summary={**commit.summary, **counts})
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, staged):
            snapshot = _commit(table, commit, FileOverwrite(replaced=replaced, added=staged), progress)
        facts["snapshot"] = str(snapshot)
    return AppliedUpsert(
        snapshot=str(snapshot),
        strategy="copy-on-write",
        strategy_reason=f"{resolved.pruning}, {len(replaced)} data files written anew",
        rows_inserted=inserted,
        rows_updated=resolved.updated,
        rows_deleted=resolved.deleted,
    )


def _changed_tasks(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> list[Any]:
    """Return the ``org.apache.iceberg.FileScanTask`` of each data file with a row that the batch changes."""
    if commit.base is None or not resolved.positions:
        return []
    candidates = commit.planned_candidates(table)
    planned = None if candidates is None else candidates.whole_tasks(table)
    return list(tasks_of_files(table, int(commit.base), planned, list(resolved.positions)).values())


def _inserted(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> int:
    place, adds = resolved.place, row_merge(table, commit).adds
    if commit.upserts is not None and not place.may_repeat and adds != ALWAYS:
        return commit.upserts - sum(place.upserted.values())
    new = commit.rows.filter(sf.expr(adds))
    if resolved.rows is not None:
        new = new.join(resolved.rows.select(*map(quoted, commit.keys)), on=list(commit.keys), how="left_anti")
    return new.count()


def _stage(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows, replaced: Sequence[Any]) -> list[Any]:
    rows = rows_of_batch(table, commit, resolved)
    if not replaced:
        return write_staged(table, rows)
    with closing(FileScan(table.spark, table.java, replaced, spread=False)) as scan:
        kept = _kept(table, commit, scan.dataframe).select(*(quoted(name) for name in rows.columns))
        return write_staged(table, kept.unionByName(rows))


def _kept(table: IcebergTable, commit: PlannedUpsert, table_rows: DataFrame) -> DataFrame:
    """Return the rows that the batch leaves as they are.

    Told by the same condition as when the keys were resolved: not every scan of chosen files has ``_pos``.
    """
    merge = row_merge(table, commit, ("t", "s"))
    names = (*commit.keys, *deciding_columns(commit))
    changes = sf.broadcast(commit.rows.select(*map(quoted, names))).alias("s")
    same_key = [f"{merge.old(key)} = {merge.new(key)}" for key in commit.keys]
    changed = " AND ".join([*same_key, *([merge.wins] if merge.wins else [])])
    return table_rows.alias("t").join(changes, on=sf.expr(changed), how="left_anti")


def _commit(table: IcebergTable, commit: PlannedUpsert, overwrite: FileOverwrite, progress: Progress) -> int:
    with position_properties(table, commit) as position:
        return rebase_conflicts(
            lambda on_head: commit_overwrite(table, on_head, overwrite, position),
            lambda behind: rebase_over_appends(table, behind),
            commit,
            CommitRetries.of(str(table.name), table.properties(), _TRIES),
            progress,
        )
