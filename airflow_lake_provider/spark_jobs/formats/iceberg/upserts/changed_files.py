"""Find the data files whose rows may have changed since a snapshot, by the commits since then."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import SEPARATOR, guava


def changed_files(table: IcebergTable, base: str, head: str) -> set[str] | None:
    """Return the paths of data files that were added or removed, or whose deletes have changed.

    Costs what the commits have written, not what the table holds.

    :param base: snapshot id, an ancestor of ``head``.
    :return: None where deletes do not name the one data file that they are on: equality deletes, position deletes of
        many files, and those that other engines wrote to format version 2 and a later commit removed.
    """
    io = table.java.io()
    java = java_functions(table.spark)
    paths: set[str] = set()
    snapshot = table.java.snapshot(int(head))
    while str(snapshot.snapshotId()) != base:
        for files in (snapshot.addedDataFiles(io), snapshot.removedDataFiles(io)):
            paths |= _texts(table, files, java.location)
        for deletes in (snapshot.addedDeleteFiles(io), snapshot.removedDeleteFiles(io)):
            paths |= _texts(table, deletes, java.referenced_data_file)
        snapshot = table.java.snapshot(snapshot.parentId())
    return None if "" in paths else paths


def _texts(table: IcebergTable, files: Any, to_text: Any) -> set[str]:
    """Return a text of each file, brought over at once; empty for null."""
    package = guava(table.spark)
    texts = package.collect.Iterables.transform(files, to_text)
    if package.collect.Iterables.isEmpty(texts):
        return set()
    return set(package.base.Joiner.on(SEPARATOR).useForNull("").join(texts).split(SEPARATOR))
