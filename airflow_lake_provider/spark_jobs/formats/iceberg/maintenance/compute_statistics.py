"""Statistics of main's head, by Iceberg's own actions: distinct values of columns, and counts of partitions."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.reports.job import Outcome, StatisticsReport
from airflow_lake_provider.contracts.specs.maintenance import StatisticsSpec
from airflow_lake_provider.iceberg.statistics_rules import HAS_ALL, SKETCH, columns_to_count
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import execute
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.progress import Progress

_OPERATIONS, _METADATA = (f"org.apache.iceberg.{name}" for name in ("TableOperations", "TableMetadata"))


def compute_statistics(table: IcebergTable, spec: StatisticsSpec, progress: Progress) -> StatisticsReport:
    """Compute what main's head lacks, and report what the table's metadata has then.

    A commit that is made while they are computed is no conflict: they are those of the snapshot that was the head.

    :raises UnknownOutcomeError: the answer to a commit was lost; the next run looks again.
    """
    before, head = table.state(), table.head()
    columns, warnings = ([], ()) if head is None else _columns(table, spec, head)
    done = False
    refusals: list[str] = []
    if head is not None:
        lacks_partitions = table.facts.shape.was_partitioned and _partition_file(table, head) is None
        for phase, is_due, compute in (
            ("table statistics", bool(columns), lambda: _of_table(table, columns, head).execute()),
            ("partition statistics", lacks_partitions, lambda: _of_partitions(table, head).execute()),
        ):
            if is_due:
                with progress.phase(phase):
                    refusal = execute(table, compute, "statistics, so it may have been made")
                done, refusals = done or refusal is None, [*refusals, *filter(None, (refusal,))]
    of_table = None if head is None else _table_file(table, head)
    of_partitions = None if head is None else _partition_file(table, head)
    reason = f"statistics of snapshot {head} were computed" if done else HAS_ALL
    return StatisticsReport(
        table=spec.table,
        outcome=Outcome.CONFLICT if refusals else Outcome.DONE if done else Outcome.NOTHING_DUE,
        reason=f"a writer was in the way: {'; '.join(refusals)}" if refusals else reason,
        before=before,
        after=table.state(),
        seconds=dict(progress.seconds),
        warnings=warnings,
        of_snapshot=None if head is None else str(head),
        distinct_counts={} if of_table is None else _distinct_counts(table, of_table),
        table_file=None if of_table is None else str(of_table.path()),
        partition_file=None if of_partitions is None else str(of_partitions.path()),
    )


def _columns(table: IcebergTable, spec: StatisticsSpec, head: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns to count, by their names at a snapshot, and a warning that names those left out."""
    file = _table_file(table, head)
    sketches = [] if file is None else [blob for blob in file.blobMetadata() if blob.type() == SKETCH]
    counted = {int(id_) for blob in sketches for id_ in blob.fields()}
    columns = columns_to_count(table.facts, spec.of_columns, counted)
    if columns.has_no_schema:
        return [], (f"{table.name}: snapshot {head} does not name its schema, so no distinct values were counted",)
    why = "the snapshot lacks them, or Iceberg's statistics cannot ask for their names"
    which = "those with a dot or a backtick, and those of Iceberg's own columns"
    warning = f"{table.name}: no distinct values of {list(columns.left_out)} were counted: {why} ({which})"
    return list(columns.by_id.values()), (warning,) if columns.left_out else ()


def _of_table(table: IcebergTable, columns: list[str], head: int) -> Any:
    action = table.java_actions.computeTableStats(_with_newest_base(table)).snapshot(head)
    return action.columns(java_array(table.spark, "java.lang.String", columns))


def _of_partitions(table: IcebergTable, head: int) -> Any:
    return table.java_actions.computePartitionStats(_with_newest_base(table)).snapshot(head)


def _with_newest_base(table: IcebergTable) -> Any:
    """Return the table as one that reads its metadata anew each time.

    Iceberg commits statistics to the metadata that it loaded before it computed them, and does not try again
    (``SetStatistics`` of 1.12).
    """
    make, java = method_handles(table.spark), table.java
    refreshing = make.proxies(_OPERATIONS, current=make.method(_OPERATIONS, "refresh", _METADATA))
    operations = refreshing(java.operations())
    return table.iceberg.BaseTable(operations, java.name(), java.reporter())


def _table_file(table: IcebergTable, head: int) -> Any | None:
    return next((each for each in table.java.statisticsFiles() if each.snapshotId() == head), None)


def _partition_file(table: IcebergTable, head: int) -> Any | None:
    return next((each for each in table.java.partitionStatisticsFiles() if each.snapshotId() == head), None)


def _distinct_counts(table: IcebergTable, file: Any) -> dict[str, int]:
    """Return the distinct values by column, as Iceberg's sketches estimate them."""
    schema, counts = table.java.schema(), {}
    for blob in file.blobMetadata():
        count = whole_number(blob.properties().get("ndv"))
        names = [schema.findColumnName(int(id_)) for id_ in blob.fields()]
        if count is not None and len(names) == 1 and names[0] is not None:
            counts[str(names[0])] = count
    return counts
