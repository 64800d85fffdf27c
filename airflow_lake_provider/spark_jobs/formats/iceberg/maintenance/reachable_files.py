"""The files that a table's metadata reaches: of all snapshots of all refs, and of the metadata itself; and deletion.

Iceberg's metadata tables read the manifests on the cluster, so that no list of files comes to the driver. The driver
reads those of a small table itself, where a Spark job would take longer to start.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.iceberg.table_obstacles import with_types_of_spark
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of_texts, texts_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError, JavaError, java_names
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

DATA, DELETES, MANIFEST, MANIFEST_LIST = "data file", "delete file", "manifest", "manifest list"
STATISTICS = "statistics file"
# Values of the column content: Iceberg spec, data_file fields.
_CONTENT = {0: DATA, 1: DELETES, 2: DELETES}
# They are opened one after another: on an object store each takes some 30 ms, and a Spark job a second.
MOST_FILES = 64
# Some 40,000 entries, whose paths the driver has in memory.
MOST_BYTES = 4 * 1024**2


def reachable_files(table: IcebergTable, metadata: Any, location: str) -> DataFrame:
    """Return kind and location of what metadata names, and of the metadata files of the log.

    :param metadata: ``org.apache.iceberg.TableMetadata``, which may be one that is not committed.
    :param location: of the newest metadata file.
    """
    left = static_table(table, metadata, location)
    return content_files(table, left).unionAll(other_files(table, left, [location, *table.metadata_log()]))


def other_files(table: IcebergTable, static: Any, metadata_files: Collection[str] = ()) -> DataFrame:
    """Return kind and location of manifest lists and statistics."""
    return frame_of(table, listed_files(table, static, metadata_files))


def listed_files(table: IcebergTable, static: Any, metadata_files: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return kind and location of what the metadata file itself names: manifest lists and statistics."""
    reachable = table.iceberg.ReachableFileUtil
    lists, statistics = reachable.manifestListLocations(static), reachable.statisticsFilesLocations(static)
    files = [(MANIFEST_LIST, str(each)) for each in JavaItems(table.spark, lists)]
    files += [(STATISTICS, str(each)) for each in JavaItems(table.spark, statistics)]
    return [*files, *(("metadata file", each) for each in metadata_files)]


def frame_of(table: IcebergTable, files: Collection[tuple[str, str]]) -> DataFrame:
    """Return kinds and locations of files as a DataFrame."""
    kinds, locations = [kind for kind, _ in files], [location for _, location in files]
    text = pa.string()
    return dataframe_of(table.spark, pa.table({"kind": pa.array(kinds, text), "location": pa.array(locations, text)}))


def static_table(table: IcebergTable, metadata: Any, location: str) -> Any:
    """Return a read-only table of metadata that is not committed."""
    iceberg = table.iceberg
    builder = _with_types_of_spark(table, metadata).discardChanges().withMetadataLocation(location)
    return iceberg.BaseTable(iceberg.StaticTableOperations(builder.build(), table.java.io()), location)


def _with_types_of_spark(table: IcebergTable, metadata: Any) -> Any:
    """Return a builder of metadata whose columns Spark has types for: it has their bounds beside each file."""
    builder, parser = table.iceberg.TableMetadata.buildFrom(metadata), table.iceberg.SchemaParser
    schema = json.loads(parser.toJson(metadata.schema()))
    readable = with_types_of_spark(schema)
    if readable == schema:
        return builder
    return builder.setCurrentSchema(parser.fromJson(json.dumps(readable)), metadata.lastColumnId())


def content_files(table: IcebergTable, static: Any) -> DataFrame:
    """Return kind and location of the data files, delete files and manifests of all snapshots."""
    files = _metadata_table(table, static, "ALL_FILES")
    kinds = sf.create_map(*(sf.lit(each) for pair in _CONTENT.items() for each in pair))
    content = files.select(kinds[sf.col("content")].alias("kind"), sf.col("file_path").alias("location"))
    manifests = _metadata_table(table, static, "ALL_MANIFESTS")
    return content.unionAll(manifests.select(sf.lit(MANIFEST), sf.col("path")))


def sizes_of_content(table: IcebergTable, locations: Collection[str]) -> dict[str, int]:
    """Return the sizes of some data and delete files of all snapshots, as the metadata says them, by location."""
    metadata = table.java.operations().current()
    files = _metadata_table(table, static_table(table, metadata, str(metadata.metadataFileLocation())), "ALL_FILES")
    rows = files.where(sf.col("file_path").isin(*locations)).select("file_path", "file_size_in_bytes").collect()
    return {str(location): int(size) for location, size in rows}


def _metadata_table(table: IcebergTable, static: Any, name: str) -> DataFrame:
    iceberg = table.iceberg
    kind = iceberg.MetadataTableType.valueOf(name)
    rows = iceberg.spark.SparkTableUtil.loadMetadataTable(java_session(table.spark), static, kind)
    return DataFrame(rows, table.spark)


def named_by(table: IcebergTable, snapshots: Collection[Any]) -> set[str]:
    """Return the locations of the manifests of snapshots, and of the files that they add.

    :param snapshots: ``org.apache.iceberg.Snapshot``; committed since the files of a table were looked at.
    """
    io, spark = table.java.io(), table.spark
    library, functions = guava(spark), java_functions(spark)
    named: set[str] = set()
    for snapshot in snapshots:
        named |= set(texts_of(spark, snapshot.allManifests(io), functions.path_of_manifest))
        changes = table.changes_of(snapshot)
        for added in (changes.addedDataFiles(), changes.addedDeleteFiles()):
            named |= set(JavaItems(spark, library.collect.Lists.newArrayList(added)).texts(functions.location))
    return named


def delete_files(table: IcebergTable, locations: list[str]) -> int:
    """Delete files and return how many could not be deleted."""
    if not locations:
        # Hadoop's FileIO asks again for seconds.
        return 0
    io, listed = table.java.io(), list_of_texts(table.spark, locations)
    try:
        io.deleteFiles(listed)
    except JavaError as error:
        if java_names(error)[0] == "BulkDeletionFailureException":
            return int(error.java_exception.numberFailedObjects())
        return len(locations)
    except GatewayError:
        # It deletes one by one, and says nothing of failures.
        table.iceberg.CatalogUtil.deleteFiles(io, listed, "expired")
    return 0


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
