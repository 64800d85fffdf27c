"""Read the manifests of a small table in the driver, where a Spark job would take longer to start."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import DATA, DELETES
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of_texts

# They are opened one after another: on an object store each takes some 30 ms, and a Spark job a second.
MOST_FILES = 64
# Some 40,000 entries, whose paths the driver has in memory.
MOST_BYTES = 4 * 1024**2


def few_manifests(table: IcebergTable, *metadata: Any) -> list[dict[str, Any]] | None:
    """Return the manifests of all snapshots by their locations, for each metadata.

    :param metadata: ``org.apache.iceberg.TableMetadata``.
    :return: None where there are more than the driver should read.
    """
    snapshots = [JavaItems(table.spark, each.snapshots()) for each in metadata]
    if sum(map(len, snapshots)) > MOST_FILES:
        return None
    manifests = [_manifests_of(table, of_metadata) for of_metadata in snapshots]
    distinct = {location: manifest for each in manifests for location, manifest in each.items()}
    is_few = len(distinct) + sum(map(len, snapshots)) <= MOST_FILES
    return manifests if is_few and sum(each.length() for each in distinct.values()) <= MOST_BYTES else None


def _manifests_of(table: IcebergTable, snapshots: Collection[Any]) -> dict[str, Any]:
    # A manifest equals another one of its path.
    manifests = jvm_of(table.spark).java.util.LinkedHashSet()
    for snapshot in snapshots:
        manifests.addAll(snapshot.allManifests(table.java.io()))
    return {str(each.path()): each for each in JavaItems(table.spark, manifests)}


def files_in(
    table: IcebergTable, manifests: Collection[Any], specs: Any, most: int | None = None
) -> list[tuple[str, str]]:
    """Return kind and location of the data and delete files that manifests list as live.

    :param specs: the partition specs of the metadata by their ids, a ``java.util.Map``.
    :param most: files of each manifest; None for all.
    """
    return [each for manifest in manifests for each in _files_in(table, manifest, specs, most)]


def _files_in(table: IcebergTable, manifest: Any, specs: Any, most: int | None) -> list[tuple[str, str]]:
    spark, library = table.spark, table.iceberg.ManifestFiles
    is_data = manifest.content().name() == "DATA"
    read = library.read if is_data else library.readDeleteManifest
    files = read(manifest, table.java.io(), specs).select(list_of_texts(spark, ["file_path"]))
    collect = guava(spark).collect
    try:
        some = files if most is None else collect.Iterables.limit(files, most)
        listed = JavaItems(spark, collect.Lists.newArrayList(some))
    finally:
        files.close()
    return [(DATA if is_data else DELETES, path) for path in listed.texts(java_functions(spark).location)]
