"""Merge small position delete files, and rewrite them as deletion vectors in a table of version 3."""

from __future__ import annotations

from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    run_action,
    with_commit_status_check,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def position_deletes_are_due(table: IcebergTable, spec: CompactionSpec) -> bool:
    """Tell whether position delete files are many and small (version 2), or older than deletion vectors (version 3).

    Only the metadata is read; with ``where`` the answer is no, as delete files are not chosen by it.
    """
    if spec.where is not None or table.format_version < 2:
        return False
    if not count_of(next(table.summaries(), {}), "total-position-deletes"):
        return False
    planner = table.iceberg.actions.BinPackRewritePositionDeletePlanner(table.java)
    to_vectors = table.format_version >= 3
    planner.init({"min-input-files": str(spec.min_input_files), "rewrite-all": str(to_vectors).lower()})
    groups = planner.plan().groups().iterator()
    while groups.hasNext():
        tasks = groups.next().fileScanTasks()
        if not to_vectors or any(task.file().format().name() != "PUFFIN" for task in tasks):
            return True
    return False


def rewrite_position_deletes(
    table: IcebergTable, spec: CompactionSpec, summary: dict[str, str], everything: bool
) -> str | None:
    """Merge position deletes and drop those on rows that are gone.

    :param everything: also files that are neither small nor many, which drops all deletes without a data file.
    """
    options = {"min-input-files": str(spec.min_input_files), "rewrite-all": str(everything).lower()}
    return run_action(
        table, table.java_actions.rewritePositionDeletes(with_commit_status_check(table)).options(options), summary
    )
