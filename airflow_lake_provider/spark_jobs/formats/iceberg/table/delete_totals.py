"""Totals of deletes of a snapshot: its summary's, or what its delete manifests say where that leaves some out."""

from __future__ import annotations

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.iceberg.compaction_rules import EQUALITY_DELETES, counted_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import closing
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of


def listed_deletes(table: IcebergTable, snapshot_id: int | None) -> int | None:
    """Return how many delete files the manifest list of a snapshot counts; None where a manifest has no counts.

    :param snapshot_id: None for a table without snapshots.
    """
    if snapshot_id is None:
        return 0
    manifests = table.java.snapshot(snapshot_id).deleteManifests(table.java.io())
    of_manifest = java_functions(table.spark).of_manifest
    counts = [
        text
        for name in ("existingFilesCount", "addedFilesCount")
        for text in texts_of(table.spark, manifests, of_manifest(name))
    ]
    return None if "null" in counts else sum(map(int, counts))


def deletes_of_head(table: IcebergTable, name: str) -> int | None:
    """Return a total of deletes of main's head; None where its summary leaves out some.

    :param name: see :func:`counted_deletes`.
    """
    head = table.head()
    return counted_deletes(table.summary(head), name, listed_deletes(table, head))


def head_has_equality_deletes(table: IcebergTable) -> bool:
    """Tell whether main's head has some, see :func:`has_equality_deletes`."""
    head = table.facts.newest()
    return head is not None and has_equality_deletes(table, head)


def has_equality_deletes(table: IcebergTable, snapshot: Snapshot) -> bool:
    """Tell whether a snapshot has some: by its summary, or by the files where that may leave some out."""
    id_ = int(snapshot.id)
    counted = counted_deletes(snapshot.summary, EQUALITY_DELETES, listed_deletes(table, id_))
    if counted is not None:
        return counted > 0
    io, specs = table.java.io(), table.java.specs()
    for manifest in table.java.snapshot(id_).deleteManifests(io):
        with closing(table.iceberg.ManifestFiles.readDeleteManifest(manifest, io, specs)) as files:
            if any(str(file.content()) == "EQUALITY_DELETES" for file in files):
                return True
    return False
