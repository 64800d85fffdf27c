"""``MERGE INTO`` that commits together with table properties: on a branch of its own, then published at once.

A ``MERGE`` commits by itself and cannot set properties. So it runs on a branch ``lake_stage_<run key>_<attempt>`` made
at the base, where nobody else writes. One compare-and-swap of the metadata then moves main to it, removes the branch
and sets position and run keys. The swap goes through only while main still is at the base. So two drivers of one run
cannot both win, nor can two writers of one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.reports.commit_counts import counts_to_summary
from airflow_lake_provider.iceberg.snapshot_retention import FOREVER
from airflow_lake_provider.iceberg.table_obstacles import MERGE_MODE
from airflow_lake_provider.spark_jobs.batch.row_merge import RowMerge
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    drop_branch,
    publish,
    stage_branch_name,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import commit_summary
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_conflict
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import refusing_nulls
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import (
    AppliedUpsert,
    PlannedUpsert,
    row_merge,
)
from airflow_lake_provider.spark_jobs.jvm.gateway import has_class, java_session, load_class
from airflow_lake_provider.spark_jobs.jvm.java_errors import first_line
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# Before Spark 4.1 a MERGE does not tell how many rows it changed.
_MERGE_SUMMARY = "org.apache.spark.sql.connector.write.MergeSummary"
_SOURCE_VIEW = "lake_batch"
_IS_IN_TABLE = "t._lake_held"


def merge_and_publish(table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
    """Merge on a stage branch and publish it."""
    stage = stage_branch_name(commit.run_key)
    try:
        _create_branch(table, stage, commit.base)
        with progress.phase("merge") as facts:
            reason, counts = _merge(table, stage, commit)
            staged = _head_of(table, stage)
            applied = _applied(table, staged, reason, counts)
            facts["snapshot"] = str(staged)
        with progress.phase("publish"), position_properties(table, commit) as position:
            publish(table, commit, stage, staged, position)
    except CommitConflictError:
        drop_branch(table, stage)
        raise
    except Exception as error:
        if is_conflict(error):
            drop_branch(table, stage)
            raise CommitConflictError(f"{table.name}: another writer got in between: {first_line(error)}") from error
        # Of no use, whatever came of the MERGE; its files are Iceberg's to delete.
        if not isinstance(error, UnknownOutcomeError):
            with suppress(Exception):
                drop_branch(table, stage)
        raise
    return applied


def _create_branch(table: IcebergTable, stage: str, base: str | None) -> None:
    manage = table.refresh().java.manageSnapshots()
    if base is None:
        # On a table without snapshots Iceberg puts an empty snapshot on the branch, not on main.
        manage.createBranch(stage).commit()
    else:
        table.prepare_to_read(int(base))
        # Else it has the table's age of refs, counted from the base: an expiry would take it from a MERGE that runs.
        manage.createBranch(stage, int(base)).setMaxRefAgeMs(stage, FOREVER).commit()
    table.refresh()


def _head_of(table: IcebergTable, stage: str) -> int:
    head = table.refresh().head(stage)
    if head is None:
        raise CommitConflictError(f"{table.name}: another job removed the branch {stage} while it was written")
    return head


def _merge(table: IcebergTable, stage: str, commit: PlannedUpsert) -> tuple[str, dict[str, int] | None]:
    """Merge, and return how the read was pruned and the counts of rows; None where the summary has them."""
    statement = merge_into(table, stage, commit)
    counted = None if has_class(table.spark, _MERGE_SUMMARY) else table.spark.sql(statement.counts).head()
    counts = None if counted is None else counted.asDict()
    with refusing_nulls(table, lambda: table.spark.sql(statement.written)):
        summary = {} if counts is None else counts_to_summary(**{f"rows_{change}": n for change, n in counts.items()})
        run_with_summary(table.spark, statement.text, {**commit_summary(commit), **summary})
    return statement.pruning, counts


def _applied(table: IcebergTable, staged: int, reason: str, counts: dict[str, int] | None) -> AppliedUpsert:
    summary = table.summary(staged)
    counts = counts or {
        name: count_of(summary, f"spark.merge-into.num-target-rows-{name}")
        for name in ("inserted", "updated", "deleted")
    }
    return AppliedUpsert(
        snapshot=str(staged),
        strategy="merge",
        strategy_reason=reason,
        rows_inserted=counts["inserted"],
        rows_updated=counts["updated"],
        rows_deleted=counts["deleted"],
    )


@dataclass(frozen=True, kw_only=True)
class MergeStatement:
    """A ``MERGE INTO``.

    :param counts: query for what it will do: ``inserted``, ``updated`` and ``deleted`` in one row.
    :param written: query for the rows that it will write.
    :param pruning: how the read is bounded, a sentence.
    """

    text: str
    counts: str
    written: str
    pruning: str


def merge_into(table: IcebergTable, branch: str, commit: PlannedUpsert) -> MergeStatement:
    """Return the statement, which writes to a branch and reads from it."""
    commit = _readable(table, commit)
    commit.rows.createOrReplaceTempView(_SOURCE_VIEW)
    pruning, reason = key_pruning(table, commit.batch_keys, "t")
    merge = row_merge(table, commit, ("t", "s"))
    on = " AND ".join([*(f"{merge.old(key)} = {merge.new(key)}" for key in commit.keys), *pruning])
    and_wins = f" AND {merge.wins}" if merge.wins else ""
    removal = f"WHEN MATCHED AND {merge.removes}{and_wins} THEN DELETE" if merge.removes else ""
    values = ", ".join(f"{merge.old(name)} = {merge.value(name)}" for name in merge.table)
    target = f"{table.name.quoted(table.catalog)}.`branch_{branch}`"
    text = f"""
        MERGE INTO {target} AS t USING {_SOURCE_VIEW} AS s ON {on}
        {removal}
        WHEN MATCHED{and_wins} THEN UPDATE SET {values}
        WHEN NOT MATCHED AND {merge.adds} THEN
        INSERT ({", ".join(map(quoted_name, merge.table))}) VALUES ({", ".join(map(merge.added, merge.table))})
    """
    return MergeStatement(
        text=text, counts=_counts(merge, target, on), written=_written(merge, target, on), pruning=reason
    )


def _counts(merge: RowMerge, target: str, on: str) -> str:
    wins = f"{_IS_IN_TABLE} AND coalesce({merge.wins or 'true'}, false)"
    removes = f"coalesce({merge.removes or 'false'}, false)"
    return f"""
        SELECT count_if({_IS_IN_TABLE} IS NULL AND {merge.adds}) AS inserted,
        count_if({wins} AND NOT {removes}) AS updated, count_if({wins} AND {removes}) AS deleted
        {_joined(target, on)}
    """


def _written(merge: RowMerge, target: str, on: str) -> str:
    values = (
        f"CASE WHEN {_IS_IN_TABLE} THEN {merge.value(name)} ELSE {merge.added(name)} END AS {quoted_name(name)}"
        for name in merge.table
    )
    is_updated = f"coalesce({_IS_IN_TABLE} AND {merge.wins or 'true'} AND NOT {merge.removes or 'false'}, false)"
    return f"""
        SELECT {", ".join(values)} {_joined(target, on)}
        WHERE {is_updated} OR ({_IS_IN_TABLE} IS NULL AND {merge.adds})
    """


def _joined(target: str, on: str) -> str:
    return f"FROM {_SOURCE_VIEW} AS s LEFT JOIN (SELECT *, true AS _lake_held FROM {target}) AS t ON {on}"


def _readable(table: IcebergTable, commit: PlannedUpsert) -> PlannedUpsert:
    if table.format_version > 1 and table.properties().get(MERGE_MODE) == "merge-on-read":
        return commit
    # Copy-on-write puts the source into a subquery, where Spark refuses a plan that numbers rows, cached or not.
    return commit.with_rows(commit.rows.localCheckpoint())


def run_with_summary(spark: SparkSession, statement: str, summary: Mapping[str, str]) -> None:
    """Run a statement in this thread of the JVM, for which Iceberg keeps the properties of its snapshots."""
    handles = method_handles(spark)
    # By its name and parameters, as what it returns has another class in each version.
    run = handles.given(handles.of_object(java_session(spark), "sql", "java.lang.String"), 0, statement)
    internal(spark, Internal.COMMIT_METADATA).withCommitProperties(
        dict(summary), handles.instance("java.util.concurrent.Callable", run), load_class(spark, "java.lang.Exception")
    )
