"""Merge position delete files, and remove dangling deletes: delete files that delete no row of any live data file.

Iceberg's own action removes those that are older than every data file of their partition. What it leaves of equality
deletes is compared with the files that they are planned for.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.compaction_rules import (
    DELETE_TARGET_BYTES,
    DELETE_TARGET_SIZE,
    EQUALITY_DELETES,
    POSITION_DELETES,
    followed_size,
    is_of_part,
    table_size,
)
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    run_action,
    with_commit_status_check,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import (
    refuse_concurrent_commit,
    swap_metadata,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.equality_delete_files import SnapshotFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.table.delete_totals import deletes_of_head
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava


def dangling_deletes(table: IcebergTable) -> list[Any]:
    """Return dangling deletes at the head as it was read last, as ``org.apache.iceberg.DeleteFile`` objects.

    Costs a plan of the head, in the JVM, in a table with equality deletes, else nothing.
    """
    if deletes_of_head(table, EQUALITY_DELETES) == 0:
        return []
    head = table.java.currentSnapshot()
    dangling = _equality_deletes(table, head)
    if not dangling:
        return []
    java, fluent = java_functions(table.spark), guava(table.spark).collect.FluentIterable
    with closing(table.java.newScan().useSnapshot(head.snapshotId()).planFiles()) as tasks:
        # An equality delete is on every older file: asked one by one, they would be files times deletes.
        on_files = getattr(fluent, "from")(tasks).transformAndConcat(java.listed_deletes_of_task)
        applied = on_files.transform(java.location).toSet()
    return [file for path, file in dangling.items() if not applied.contains(path)]


def remove_dangling_deletes(table: IcebergTable, summary: dict[str, str]) -> str | None:
    """Remove them in one commit that changes no row and is made on the head that they dangled at, on no other.

    On a later head they would dangle as well, but not on one that a roll-back of main goes back to.

    :param summary: of the snapshot, with its action and run key.
    """
    files = dangling_deletes(table.refresh())
    if not files:
        return None
    commit = DataCommit(action=summary[ACTION], run_key=summary[RUN_KEY], base=table.base_of(None))
    transaction = table.java.newTransaction()
    rewrite = transaction.newRewrite()
    for file in files:
        rewrite.deleteFile(file)
    for name, value in summary.items():
        rewrite.set(name, value)
    rewrite.commit()
    updated = transaction.currentMetadata()
    try:
        refuse_concurrent_commit(table, commit)
        swap_metadata(table, commit, int(updated.ref(MAIN).snapshotId()), transaction.startMetadata(), updated)
    except CommitConflictError as refused:
        return str(refused)
    return None


def remove_outdated_deletes(table: IcebergTable, summary: dict[str, str]) -> str | None:
    """Remove delete files older than every data file of their partition."""
    return run_action(table, table.java_actions.removeDanglingDeleteFiles(with_commit_status_check(table)), summary)


def _equality_deletes(table: IcebergTable, snapshot: Any) -> dict[str, Any]:
    """Return them by location."""
    return {str(file.location()): file for file in SnapshotFiles(table, snapshot).equality_deletes}


def position_deletes_are_due(table: IcebergTable, spec: CompactionSpec) -> bool:
    """Tell whether position delete files are many and small (version 2), or older than deletion vectors (version 3).

    Only the metadata is read; where a part is left alone the answer is no, as delete
    files are not chosen by it.
    """
    if is_of_part(spec) or table.format_version < 2:
        return False
    if deletes_of_head(table, POSITION_DELETES) == 0:
        return False
    planner = table.iceberg.actions.BinPackRewritePositionDeletePlanner(table.java)
    to_vectors = table.format_version >= 3
    planner.init(_merge_options(table, spec, everything=to_vectors))
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
    return run_action(table, action.options(_merge_options(table, spec, everything=everything)), summary)


def _merge_options(table: IcebergTable, spec: CompactionSpec, *, everything: bool) -> dict[str, str]:
    options = {"min-input-files": str(spec.min_input_files), "rewrite-all": str(everything).lower()}
    asked = table_size(spec.table, table.properties(), DELETE_TARGET_SIZE)
    if asked is not None and followed_size(asked) is None:
        options["target-file-size-bytes"] = str(DELETE_TARGET_BYTES)
    return options
