"""Statistics of main's head, by Iceberg's own actions: distinct values of columns, and counts of partitions."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.reports.job import Outcome, StatisticsReport
from airflow_lake_provider.contracts.specs.maintenance import StatisticsSpec
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
    done = False
    refusals: list[str] = []
    if head is not None:
        for phase, has_them, compute in (
            ("table statistics", _table_file, lambda: _of_table(table, spec, head).execute()),
            ("partition statistics", _partition_file, lambda: _of_partitions(table, head).execute()),
        ):
            applies = phase == "table statistics" or table.facts.shape.was_partitioned
            if applies and has_them(table, head) is None:
                with progress.phase(phase):
                    refusal = execute(table, compute, "statistics, so it may have been made")
                done, refusals = done or refusal is None, [*refusals, *filter(None, (refusal,))]
    of_table = None if head is None else _table_file(table, head)
    of_partitions = None if head is None else _partition_file(table, head)
    reason = f"statistics of snapshot {head} were computed" if done else "main's head has all of them"
    return StatisticsReport(
        table=spec.table,
        outcome=Outcome.CONFLICT if refusals else Outcome.DONE if done else Outcome.NOTHING_DUE,
        reason=f"a writer was in the way: {'; '.join(refusals)}" if refusals else reason,
        before=before,
        after=table.state(),
        seconds=dict(progress.seconds),
        of_snapshot=None if head is None else str(head),
        distinct_counts={} if of_table is None else _distinct_counts(table, of_table),
        table_file=None if of_table is None else str(of_table.path()),
        partition_file=None if of_partitions is None else str(of_partitions.path()),
    )


def _of_table(table: IcebergTable, spec: StatisticsSpec, head: int) -> Any:
    action = table.java_actions.computeTableStats(_with_newest_base(table)).snapshot(head)
    return action.columns(java_array(table.spark, "java.lang.String", spec.of_columns)) if spec.of_columns else action


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
