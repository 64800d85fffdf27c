"""Clean up after a compaction: dangling deletes, many small delete files, many manifests."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec
from airflow_lake_provider.iceberg.compaction_rules import is_untidied, would_be_fewer
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import with_commit_status_check
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError


def position_deletes_are_due(table: IcebergTable, spec: CompactionSpec) -> bool:
    """Tell whether position delete files are many and small (version 2), or older than deletion vectors (version 3).

    Only the metadata is read; with ``where`` the answer is no, as delete files are not chosen by it.
    """
    if spec.where is not None or table.format_version < 2 or not _deleted_positions(table):
        return False
    planner = table.iceberg.actions.BinPackRewritePositionDeletePlanner(table.java)
    to_vectors = table.format_version >= 3
    planner.init({"min-input-files": str(spec.min_input_files), "rewrite-all": str(to_vectors).lower()})
    groups = planner.plan().groups().iterator()
    while groups.hasNext():
        if not to_vectors or _holds_older_deletes(groups.next()):
            return True
    return False


def rewrite_position_deletes(
    table: IcebergTable, spec: CompactionSpec, summary: dict[str, str], everything: bool
) -> str | None:
    """Merge position deletes and drop those on rows that are gone.

    :param everything: also files that are neither small nor many, which drops all deletes without a data file.
    :return: what another commit refused; None when it worked.
    """
    options = {"min-input-files": str(spec.min_input_files), "rewrite-all": str(everything).lower()}
    return _run(
        table, table.java_actions.rewritePositionDeletes(with_commit_status_check(table)).options(options), summary
    )


def remove_outdated_deletes(table: IcebergTable, summary: dict[str, str]) -> str | None:
    """Remove delete files older than every data file of their partition.

    :return: what another commit refused; None when it worked.
    """
    return _run(table, table.java_actions.removeDanglingDeleteFiles(with_commit_status_check(table)), summary)


def rewrite_manifests(table: IcebergTable, summary: dict[str, str]) -> str | None:
    """Merge manifests up to their target size, sorted by partition.

    :return: what another commit refused; None when it worked.
    """
    return _run(table, table.java_actions.rewriteManifests(with_commit_status_check(table)), summary)


def manifests_are_due(table: IcebergTable) -> bool:
    """Tell whether merging would leave fewer manifests."""
    head = table.head()
    return head is not None and would_be_fewer(table.facts, _manifest_sizes(table, head))


def tidying_is_due(table: IcebergTable, spec: CompactionSpec, run_key: str) -> bool:
    """Tell whether an earlier compaction was cut off before it had tidied the metadata.

    :param run_key: of this run.
    """
    return is_untidied(table.facts, spec, run_key, lambda snapshot: _manifest_sizes(table, snapshot))


def _manifest_sizes(table: IcebergTable, snapshot_id: int) -> list[list[int]]:
    snapshot, io, spec_id = table.java.snapshot(snapshot_id), table.java.io(), table.facts.shape.spec_id
    by_content = (snapshot.dataManifests(io), snapshot.deleteManifests(io))
    return [[each.length() for each in manifests if each.partitionSpecId() == spec_id] for manifests in by_content]


def _run(table: IcebergTable, action: Any, summary: dict[str, str]) -> str | None:
    for name, value in summary.items():
        action = action.snapshotProperty(name, value)
    try:
        action.execute()
    except JavaError as error:
        if is_unknown(error):
            raise UnknownOutcomeError(
                f"{table.name}: the catalog did not answer a commit of metadata, so it may have been made; no file was "
                f"removed. Rows are the same either way; run it again. {root_message(error)}"
            ) from error
        refusal = conflict_message(error)
        if refusal is None:
            raise
        return refusal
    finally:
        table.refresh()
    return None


def _deleted_positions(table: IcebergTable) -> int:
    summary = next(table.summaries(), {})
    return count_of(summary, "total-position-deletes")


def _holds_older_deletes(group: Any) -> bool:
    return any(task.file().format().name() != "PUFFIN" for task in group.fileScanTasks())
