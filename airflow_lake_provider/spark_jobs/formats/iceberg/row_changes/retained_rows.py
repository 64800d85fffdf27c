"""Find the snapshots that still reach a data file with matching rows, whether a delete hides them or not.

A deleted row is in more files than the one it was deleted from: every update before has left a copy under a delete. So
every file that any snapshot reaches is a candidate, unless the bounds in the manifests rule it out. All candidates are
read once, without their deletes.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.table_properties import CONSUMER_PREFIX
from airflow_lake_provider.iceberg.foreign_times import times_are_sure
from airflow_lake_provider.spark_jobs.formats.commits import HolderKind, RetainedRows, RowMatch, SnapshotHolder
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FILE, FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import closing
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.find_rows import (
    check_match,
    matching,
    matching_of_files,
    rows_now_named,
    withheld,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.added_milliseconds import BY_ROWS
from airflow_lake_provider.spark_jobs.formats.iceberg.table.delete_totals import has_equality_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

_REWRITE_MANIFESTS = "rewrite the manifests after the compaction: some list column bounds of removed files"


def retained_rows(table: IcebergTable, match: RowMatch, without: str | None) -> RetainedRows:
    """Look through everything that the table's metadata reaches now.

    It costs a read of every manifest, and of the columns that ``match`` names in every candidate. Where a file of main
    holds such rows and its head is not ``without``, main's are read once more, with their deletes.
    """
    table.refresh()
    expression = check_match(table, match)
    with withheld(table, match):
        reached_by, manifests = _manifests(table)
        files, listed_by = _candidates(table, expression, manifests)
        paths = _with_rows(table, files, match)
        holding = {snapshot for path in paths for manifest in listed_by[path] for snapshot in reached_by[manifest]}
        head = table.head()
        live = str(head) in holding - {without} and _matches(table, head, match)
    bounds_in = _bounds_of_removed(table, paths)
    return RetainedRows(
        holders=_holders(table, holding),
        live=live,
        bounds_in=bounds_in,
        key_holders=_holders(table, _with_equality_deletes(table)),
        key_files="equality deletes",
        before_expiry=(_REWRITE_MANIFESTS,) if bounds_in else (),
    )


def _matches(table: IcebergTable, head: int | None, match: RowMatch) -> bool:
    return head is not None and not matching(table, rows_now_named(table, head), match, head).isEmpty()


def _manifests(table: IcebergTable) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Return the snapshots that each manifest of data files is in, and the ``ManifestFile``, by its path."""
    io = table.java.io()
    manifests: dict[str, Any] = {}
    reached_by: dict[str, set[str]] = defaultdict(set)
    # A call for each manifest of each snapshot would be millions: most of them are in most snapshots.
    location = java_functions(table.spark).path_of_manifest
    for snapshot in table.java.snapshots():
        id_, listed = str(snapshot.snapshotId()), snapshot.dataManifests(io)
        for place, path in enumerate(texts_of(table.spark, listed, location)):
            reached_by[path].add(id_)
            if path not in manifests:
                manifests[path] = listed.get(place)
    return reached_by, manifests


def _candidates(
    table: IcebergTable, expression: Any, manifests: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return each ``org.apache.iceberg.DataFile`` that may hold such rows, and the manifests that list it, by path.

    Of every file a set of its snapshots would be kilobytes, and a table has thousands of both.
    """
    io, specs = table.java.io(), table.java.specs()
    candidates: dict[str, Any] = {}
    listed_by: dict[str, list[str]] = defaultdict(list)
    for path, manifest in manifests.items():
        # As Spark compares names.
        reader = table.iceberg.ManifestFiles.read(manifest, io, specs).caseSensitive(False)
        with closing(reader.filterRows(expression)) as files:
            for file in files:
                location = str(file.location())
                candidates[location] = file
                listed_by[location].append(path)
    return candidates, listed_by


def _with_rows(table: IcebergTable, files: dict[str, Any], match: RowMatch) -> set[str]:
    """Return the paths of the files that hold a row that matches, by the table's present schema."""
    if not files:
        return set()
    tasks = tasks_without_deletes(table, files.values())
    # They are of all snapshots.
    options = None if times_are_sure(table.properties()) else BY_ROWS
    with contextlib.closing(FileScan(table.spark, table.java, tasks, options)) as scan:
        # Before a join, which would leave it with two inputs to name.
        rows = matching_of_files(scan.dataframe.withColumn(FILE, sf.input_file_name()), match)
        return {str(row[FILE]) for row in rows.select(FILE).distinct().collect()}


def _holders(table: IcebergTable, holding: set[str]) -> tuple[SnapshotHolder, ...]:
    """Return what keeps each snapshot: the branches and tags at it, or else the history until it is expired."""
    holders = []
    named = set()
    for name, reference in sorted(table.facts.references.items()):
        snapshot = reference.snapshot
        if snapshot in holding:
            named.add(snapshot)
            tag = HolderKind.CONSUMER_TAG if name.startswith(CONSUMER_PREFIX) else HolderKind.TAG
            holders.append(SnapshotHolder(HolderKind.BRANCH if reference.is_branch else tag, name, (snapshot,)))
    history = tuple(id_ for id_ in table.facts.snapshots if id_ in holding - named)
    return (*holders, SnapshotHolder(HolderKind.HISTORY, "", history)) if history else tuple(holders)


def _with_equality_deletes(table: IcebergTable) -> set[str]:
    """Return the snapshots with such files: by their summaries, or by the files where these may leave some out."""
    snapshots = table.facts.snapshots.values()
    return {each.id for each in snapshots if has_equality_deletes(table, each)}


def _bounds_of_removed(table: IcebergTable, paths: Collection[str]) -> tuple[str, ...]:
    """Return the snapshots that removed a file with such rows, or one that is gone: nobody can look into that one.

    A manifest keeps the entry of a removed file, with the bounds of its columns, until the manifest is rewritten.
    """
    entries = table.spark.table(f"{table.sql_name}.all_entries")
    removed = entries.filter("status = 2 AND cardinality(data_file.lower_bounds) > 0").select(
        sf.col("snapshot_id").cast("string").alias("snapshot"), sf.col("data_file.file_path").alias("path")
    )
    live = entries.filter("status < 2").select(sf.col("data_file.file_path").alias("path"))
    named = dataframe_of(table.spark, pa.table({"path": pa.array(sorted(paths), pa.string())}))
    gone = removed.join(live, on="path", how="left_anti")
    removing = removed.join(sf.broadcast(named), on="path", how="left_semi")
    return tuple(sorted(row["snapshot"] for row in gone.union(removing).select("snapshot").distinct().collect()))
