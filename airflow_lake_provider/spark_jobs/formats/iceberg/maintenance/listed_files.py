"""Files below the folders of a table as their store lists them, or as an inventory of the store does.

A listing is read page by page by the table's FileIO, and goes to the executors in chunks: the driver has one of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.iceberg.orphan_files import SLASHES, STORE, plain_path
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expired_files import is_missing
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list, guava, texts_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError, JavaError, first_line
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of, try_cast

# Rows of one DataFrame: some 20 MB of Python objects.
_CHUNK = 100_000
_COLUMNS = pa.schema([("location", pa.string()), ("size", pa.int64()), ("modified", pa.int64())])
_OF_HADOOP = ("HadoopFileIO", "ResolvingFileIO")
# Hadoop's own, and the one that Hive's libraries put around it.
_OF_DISK = ("org.apache.hadoop.fs.LocalFileSystem", "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem")
# A file that is gone, or a link to nothing or to itself.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# Names of Iceberg's own file_list_view, and the size.
_INVENTORY = ("file_path", "last_modified", "size")


def listed_files(table: IcebergTable, folders: Iterable[str]) -> DataFrame:
    """Return location, size, and last change in epoch milliseconds, of the files below folders, hidden ones too.

    :param folders: none of them in another one.
    :raises UnsupportedError: the table's FileIO lists no files.
    """
    frames = [dataframe_of(table.spark, _COLUMNS.empty_table())]
    for folder in folders:
        for chunk in chunks_of_listing(table, folder):
            frame = dataframe_of(table.spark, chunk)
            # A whole chunk is kept by the executors, so that the driver can forget it.
            frames.append(frame.localCheckpoint() if chunk.num_rows == _CHUNK else frame)
    return reduce(DataFrame.unionAll, frames)


def chunks_of_listing(table: IcebergTable, folder: str) -> Iterator[pa.Table]:
    """Yield the files below a folder; none where it does not exist.

    :raises UnsupportedError: the table's FileIO lists no files.
    """
    if (disk := _folder_of_disk(table, folder)) is not None:
        files = files_on_disk(disk)
        while chunk := list(islice(files, _CHUNK)):
            yield pa.table([*map(list, zip(*chunk, strict=True))], schema=_COLUMNS)
        return
    functions, spark = java_functions(table.spark), table.spark
    location = functions.of_listed_file("location", "java.lang.String")
    size = functions.of_listed_file("size", "long")
    modified = functions.of_listed_file("createdAtMillis", "long")
    chunks = _begun(table, folder)
    while chunks is not None and chunks.hasNext():
        listed = chunks.next()
        yield pa.table(
            [
                pa.array(texts_of(spark, listed, location), pa.string()),
                pa.array(as_number_list(spark, listed, size), pa.int64()),
                pa.array(as_number_list(spark, listed, modified), pa.int64()),
            ],
            schema=_COLUMNS,
        )


def _folder_of_disk(table: IcebergTable, folder: str) -> str | None:
    """Return the path of a folder that Hadoop would list on this machine's disk; None of any other.

    Hadoop starts a process for each file there, to learn its owner: 4 ms for each file that nobody asked for.
    """
    if not folder.startswith(("file:", "/")) or str(table.java.io().getClass().getSimpleName()) not in _OF_HADOOP:
        return None
    path = jvm_of(table.spark).org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(hadoop_settings(table.spark))
    return str(path.toUri().getPath()) if str(files.getClass().getName()) in _OF_DISK else None


def files_on_disk(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[tuple[str, int, int]]:
    """Yield location, size, and last change in epoch milliseconds, of the files below a folder of this machine's disk.

    Links are followed, as Hadoop does, but for one to a folder that it is in. What goes meanwhile is left out.

    :param above: the folders around it, by device and number.
    """
    try:
        here = Path(folder).stat()
        around = above | {(here.st_dev, here.st_ino)}
        if around == above:
            return
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    yield from files_on_disk(entry.path, around)
                    continue
                status = entry.stat()
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            path = os.fsencode(entry.path).decode(errors="replace")
            yield f"file:{path}", status.st_size, status.st_mtime_ns // 1_000_000


def _begun(table: IcebergTable, folder: str) -> Any:
    """Return an iterator of lists of ``FileInfo``; None where the folder does not exist."""
    io = table.java.io()
    try:
        # Without the slash, a store lists its neighbours of a longer name as well.
        listed = io.listPrefix(f"{folder.rstrip('/')}/").iterator()
        listed.hasNext()
    except JavaError as error:
        if is_missing(error):
            return None
        raise
    except GatewayError as error:
        raise UnsupportedError(
            f"{table.name}: its FileIO {io.getClass().getName()} lists no files ({first_line(error)}); give an "
            "inventory of the store"
        ) from error
    return guava(table.spark).collect.Iterators.partition(listed, _CHUNK)


def inventory_files(table: IcebergTable, path: str, metadata_folder: str) -> DataFrame:
    """Return the columns of :func:`listed_files` of an inventory: Parquet, or CSV with a header.

    An inventory is hours old or days. What another catalog has committed since is seen by metadata alone, and a name
    of metadata may come twice. So the files of that folder are those that the store lists now, where it does.

    :param metadata_folder: of the current metadata file.
    :raises BadInputError: it lacks a column, or is not there.
    """
    rows = _inventory(table.spark, path)
    try:
        listed = listed_files(table, [metadata_folder])
    except UnsupportedError:
        return rows
    place = sf.regexp_replace(sf.regexp_replace("location", STORE, ""), SLASHES, "/")
    return rows.filter(~place.startswith(f"{plain_path(metadata_folder).rstrip('/')}/")).unionAll(listed)


def _inventory(spark: SparkSession, path: str) -> DataFrame:
    reader = spark.read.option("header", True)
    try:
        rows = reader.csv(path) if path.lower().endswith((".csv", ".csv.gz")) else reader.parquet(path)
    except AnalysisException as error:
        raise BadInputError(f"inventory {path!r} cannot be read: {first_line(error)}") from error
    if lacking := [name for name in _INVENTORY if name not in rows.columns]:
        raise BadInputError(
            f"inventory {path!r} lacks the columns {', '.join(lacking)}; it has {', '.join(rows.columns)}, and needs "
            f"{', '.join(_INVENTORY)}"
        )
    return rows.select(
        sf.col("file_path").cast("string").alias("location"),
        sf.coalesce(try_cast(sf.col("size"), "bigint"), sf.lit(0)).alias("size"),
        # A file without a time is never old.
        sf.unix_millis(try_cast(sf.col("last_modified"), "timestamp")).alias("modified"),
    ).filter("location IS NOT NULL")
