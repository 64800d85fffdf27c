"""The strategy ``equality``: stage the rows, write the keys as deletes, commit once; no row of the table is looked for.

Equality deletes reach only rows of lower sequence numbers (table spec, "Scan Planning"), so not those of their own
commit. It can be rebased onto a later head as it is: whatever another writer put there under a key of the batch is
older.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.commit_counts import counts_to_summary
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.spark_jobs.failures.after_commit import seen_after_commit
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.row_delta_commit import RowDelta, commit_row_delta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality.equality_delete_files import (
    write_equality_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality.equality_scope import (
    refuse_unfit,
    refuse_unreached,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.rebase_commit import (
    on_new_head,
    reading_base,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.stage_rows import stage_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts
from airflow_lake_provider.spark_jobs.sql.older_pyspark import table_at

# Each costs one commit: nothing is read or written again.
_TRIES = 20


def upsert_by_equality(table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedCommit:
    """Apply the batch at a cost that does not depend on the table.

    :raises UnsupportedError: equality deletes cannot be written for this table or these keys.
    :raises BadInputError: readers could take a key for another.
    :raises CommitConflictError: the batch has to be decided on again, or other writers won every try; nothing changed.
    :raises UnknownOutcomeError: the commit's answer was lost and the run key is not on the table.
    """
    refuse_expired_base(table, commit)
    with reading_base(table, commit):
        refuse_unfit(table, commit)
    written: list[Any] = []
    with discarded_on_failure(table, written), reading_base(table, commit), progress.phase("stage") as facts:
        # A table without rows has none to delete; should it get one meanwhile, the batch is decided on again.
        deletes = write_equality_deletes(table, commit) if commit.base is not None else []
        written += deletes
        rows = stage_rows(table, commit, ResolvedRows())
        written += rows
        staged = sum(int(file.recordCount()) for file in rows)
        facts.update(rows=staged, files=len(written))
    # Rows that are replaced are not looked for.
    counts = {} if deletes else counts_to_summary(rows_inserted=staged, rows_updated=0, rows_deleted=0)
    commit = replace(commit, summary={**commit.summary, **counts})
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, written):
            snapshot = _commit(table, commit, RowDelta(rows=rows, deletes=deletes), progress)
        facts["snapshot"] = str(snapshot)
    applied = AppliedCommit(
        snapshot=str(snapshot), strategy="equality", strategy_reason="the table has no rows", rows_inserted=staged
    )
    return _indebted(table, snapshot, applied) if deletes else applied


def _commit(table: IcebergTable, commit: PlannedUpsert, delta: RowDelta, progress: Progress) -> int:
    def attempt(on_head: PlannedUpsert, position: dict[str, str]) -> int:
        refuse_expired_base(table, on_head)
        with reading_base(table, on_head):
            refuse_unreached(table, on_head, delta.deletes)
        return commit_row_delta(table, on_head, delta, position)

    with position_properties(table, commit) as position:
        return rebase_conflicts(
            lambda on_head: attempt(on_head, position),
            lambda behind: on_new_head(table, behind)[0],
            commit,
            CommitRetries.of(str(table.name), table.properties(), _TRIES),
            progress,
        )


def _indebted(table: IcebergTable, snapshot: int, applied: AppliedCommit) -> AppliedCommit:
    """Add what the table's readers carry from now on."""
    # Not before the commit: what other writers have left meanwhile counts, too.
    debt, unseen = seen_after_commit(
        "how many equality deletes the table carries", lambda: _equality_deletes(table, snapshot)
    )
    carried = "equality deletes" if debt is None else f"{debt[0]:,} equality deletes in {debt[1]:,} files"
    warning = (
        f"the table carries {carried}, and every read compares them with the rows "
        "that are older. PyIceberg, Snowflake and Databricks cannot read it until a compaction has removed them"
    )
    return replace(
        applied,
        strategy_reason="no row was looked for",
        rows_inserted=0,
        counted=False,
        equality_delete_files=None if debt is None else debt[1],
        warnings=(warning, *unseen),
    )


def _equality_deletes(table: IcebergTable, snapshot: int) -> tuple[int, int]:
    """Return the number of keys and of files."""
    keys = count_of(table.summary(snapshot), "total-equality-deletes")
    files = table_at(table.spark, f"{table.sql_name}.delete_files", str(snapshot))
    return keys, int(files.filter("content = 2").count())
