"""Refuse files of a lake table that are given as files of rows: some have rows that were deleted or replaced since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

# Formats that tables have their rows in.
_FORMATS = frozenset({"parquet", "orc", "avro"})
# What the folder of a table of each kind has: all of these. Iceberg's is looked into.
_MARKS = {
    "Delta Lake": ("_delta_log",),
    "Hudi": (".hoodie",),
    "Paimon": ("snapshot", "schema/schema-0"),
    "Iceberg": ("metadata",),
}
# Folders between that of a table and its files: partitions, buckets, hashes of Iceberg's layout for object stores.
_INNER = re.compile(r"[^/]*=[^/]*|bucket-\d+|[01]{4,8}")
# Levels above these. Hudi's partitions may be by year, month and day without names.
_LEVELS = 4
_MOST_FOLDERS = 64
_OPENED_AT_ONCE = 16
_MOST_LISTED = 200


def refuse_table_folders(spark: SparkSession, file_format: str | None, files: Sequence[InputFile]) -> None:
    """Refuse files below the folder of a table of any kind.

    :param file_format: of the source; text formats are not looked at.
    :raises BadInputError: naming a file, the table's folder and how to read it.
    """
    if file_format not in _FORMATS:
        return
    below = {folder: file for file in reversed(files) for folder in _folders_above(file.path)}
    folders = sorted(below, key=len)[:_MOST_FOLDERS]
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        for folder, kind in zip(folders, opened.map(lambda each: _kind_of(spark, each), folders), strict=True):
            if kind is not None:
                read = "Read the table by LakeTable"
                if kind != "Iceberg":
                    read = f"Read the table by a PySparkFunction, with Spark's package for {kind}"
                raise BadInputError(
                    f"{below[folder].path} is a file of the {kind} table in {folder}, which tells what of its files is "
                    f"still there: read as {file_format}, rows that were deleted would come back. {read}, or copy what "
                    "is wanted to a folder outside of it"
                )


def _folders_above(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while _INNER.fullmatch(folder.rpartition("/")[2]):
        folder = folder.rpartition("/")[0]
    for _ in range(_LEVELS):
        # The root of a store.
        if "/" not in folder or folder.endswith("/"):
            return
        yield folder
        folder = folder.rpartition("/")[0]


def _kind_of(spark: SparkSession, folder: str) -> str | None:
    """Return the kind of table that a folder is of; None for none, or where nobody may look."""
    path_of = jvm_of(spark).org.apache.hadoop.fs.Path
    try:
        filesystem = path_of(folder).getFileSystem(hadoop_settings(spark))
        for kind, marks in _MARKS.items():
            if not all(filesystem.exists(path_of(f"{folder}/{mark}")) for mark in marks):
                continue
            if kind != "Iceberg" or _has_metadata(filesystem.listStatusIterator(path_of(f"{folder}/metadata"))):
                return kind
    except JavaError:
        return None
    return None


def _has_metadata(listing: Any) -> bool:
    """Tell whether a folder has a metadata file of Iceberg's among its first files."""

    def names() -> Iterator[str]:
        while listing.hasNext():
            yield str(listing.next().getPath().getName())

    return any(name.endswith((".metadata.json", ".metadata.json.gz")) for name in islice(names(), _MOST_LISTED))
