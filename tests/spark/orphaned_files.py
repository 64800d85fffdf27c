"""Files in the folder of a table that no metadata names, and the table's own beside them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import MaintainedTable

TEN_DAYS = 10 * 86_400


def folder_of(table: MaintainedTable) -> Path:
    return hostile.on_disk(str(table.handle.java.location()))


def files_of(table: MaintainedTable) -> set[Path]:
    return {path for path in folder_of(table).rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def made_old(table: MaintainedTable) -> None:
    for path in files_of(table):
        os.utime(path, (time.time() - TEN_DAYS,) * 2)


def orphan(table: MaintainedTable, name: str, age: float = TEN_DAYS) -> Path:
    path = folder_of(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"orphan")
    os.utime(path, (time.time() - age,) * 2)
    return path


ORPHANS = {
    "data/00000-1-aa-0-00001.parquet": "data file",
    "data/region=a b/00000-1-bb-0-00001.parquet": "data file",
    "data/00000-1-aa-00001-deletes.parquet": "delete file",
    "data/00000-1-aa-00001-deletes.puffin": "delete file",
    "metadata/snap-7-1-aa.avro": "manifest list",
    "metadata/aa-m0.avro": "manifest",
    "metadata/00000-aa.metadata.json": "metadata file",
    "metadata/7-aa.stats": "statistics file",
}


def with_every_kind(spark: SparkSession, version: int) -> MaintainedTable:
    """A table whose metadata reaches each kind of file, by main, a branch, a tag and an old snapshot."""
    table = MaintainedTable(spark, version=version)
    for place in range(3):
        table.append(place * 10, 10)
    table.create_branch("audit")
    table.create_tag("kept", table.head())
    table.delete([1, 2])
    return table
