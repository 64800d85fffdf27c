"""Merge small position delete files, and rewrite them as deletion vectors in a table of version 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.iceberg.compaction_rules import (
    DELETE_TARGET_BYTES,
    DELETE_TARGET_SIZE,
    followed_size,
    is_of_part,
    table_size,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    run_action,
    with_commit_status_check,
)

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
    from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def position_deletes_are_due(table: IcebergTable, spec: CompactionSpec) -> bool:
    """Tell whether position delete files are many and small (version 2), or older than deletion vectors (version 3).

    Only the metadata is read; where a part is left alone the answer is no, as delete
    files are not chosen by it.
    """
    if is_of_part(spec) or table.format_version < 2:
        return False
    if not count_of(next(table.summaries(), {}), "total-position-deletes"):
        return False
    planner = table.iceberg.actions.BinPackRewritePositionDeletePlanner(table.java)
    to_vectors = table.format_version >= 3
    planner.init(_options(table, spec, everything=to_vectors))
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
    action = table.java_actions.rewritePositionDeletes(with_commit_status_check(table))
    return run_action(table, action.options(_options(table, spec, everything=everything)), summary)


def _options(table: IcebergTable, spec: CompactionSpec, *, everything: bool) -> dict[str, str]:
    options = {"min-input-files": str(spec.min_input_files), "rewrite-all": str(everything).lower()}
    asked = table_size(spec.table, table.properties(), DELETE_TARGET_SIZE)
    if asked is not None and followed_size(asked) is None:
        options["target-file-size-bytes"] = str(DELETE_TARGET_BYTES)
    return options
