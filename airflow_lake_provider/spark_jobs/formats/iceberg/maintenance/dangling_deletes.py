"""Find and remove dangling deletes: delete files that delete no row of any live data file.

Iceberg's own action removes those that are older than every data file of their partition. What it leaves of equality
deletes is compared with the files that they are planned for.
"""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    run_action,
    with_commit_status_check,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.metadata_swap import (
    refuse_concurrent_commit,
    swap_metadata,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import closing
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.equality_delete_files import SnapshotFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def dangling_deletes(table: IcebergTable) -> list[Any]:
    """Return them at the head as it was read last, as ``org.apache.iceberg.DeleteFile`` objects.

    Costs a millisecond per data file in a table with equality deletes, else nothing.
    """
    head = table.java.currentSnapshot()
    if head is None or not count_of(table.summary(head.snapshotId()), "total-equality-deletes"):
        return []
    dangling = _equality_deletes(table, head)
    with closing(table.java.newScan().useSnapshot(head.snapshotId()).planFiles()) as tasks:
        for task in tasks:
            for delete in task.deletes():
                dangling.pop(str(delete.location()), None)
            if not dangling:
                break
    return list(dangling.values())


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
