"""Partition specs that have lost a value: the source column of a field, identity or truncate, was dropped.

Example: a table by ``region`` is partitioned anew, then the column is dropped. Iceberg (1.12) has no type for the field
any more, and writes NULL for its values in each manifest that it writes again. Deletes match their data files by
partition: rows that were deleted come back, or no scan can be planned. Iceberg's own procedures do this, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.iceberg.compaction_rules import endangered_part
from airflow_lake_provider.iceberg.table_obstacles import specs_without_source
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems


def endangered_deletes(table: IcebergTable) -> str | None:
    """Return the name of a field whose loss would part deletes of the head from their data files; None without any."""
    lost = specs_without_source(table.facts.shape)
    snapshot = table.java.currentSnapshot() if lost else None
    if snapshot is None:
        return None
    manifests = JavaItems(table.spark, snapshot.deleteManifests(table.java.io()))
    # A manifest of what a commit has removed is there until the next one.
    live = (each for each in manifests if each.hasAddedFiles() or each.hasExistingFiles())
    return next((lost[id_] for each in live if (id_ := int(each.partitionSpecId())) in lost), None)


def refuse_endangered_deletes(table: IcebergTable) -> None:
    """Refuse to commit to a table whose deletes the commit may part from their data files.

    :raises UnsupportedError: naming the field, and what to do.
    """
    if (name := endangered_deletes(table)) is not None:
        raise UnsupportedError(f"{table.name}: {endangered_part(name)}")


def refuse_deletes_without_source(table: IcebergTable, spec_ids: Callable[[], Iterable[int]]) -> None:
    """Refuse to write deletes for data files of such a spec: no scan could match them.

    :param spec_ids: returns those of the data files; asked for only where the table has such a spec.
    :raises UnsupportedError: naming the field, and what to do.
    """
    lost = specs_without_source(table.facts.shape)
    if lost and (name := next((lost[id_] for id_ in spec_ids() if id_ in lost), None)) is not None:
        raise UnsupportedError(
            f"{table.name}: rows of data files in partitions by {name!r}, whose column was dropped, cannot be deleted "
            "by position: Iceberg would not match the deletes with their files. Rewrite the table by "
            "LakeCompactionOperator with level='full'"
        )
