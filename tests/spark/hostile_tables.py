"""Tables whose metadata names what is not theirs, made by Iceberg's own API and by writing metadata by hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.maintained_table import MaintainedTable


def on_disk(location: str) -> Path:
    """Path of a location of a local file."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def victim(folder: Path, name: str) -> Path:
    """Make a file that no table owns."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"precious {name}")
    return path


def iceberg(table: MaintainedTable) -> Any:
    """Iceberg's package."""
    return table.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]  # JVM attribute


def add_data_file(table: MaintainedTable, *locations: str, size: int = 100) -> None:
    """Commit data files that nobody wrote."""
    java = table.handle.java
    append = java.newAppend()
    for location in locations:
        builder = iceberg(table).DataFiles.builder(java.spec()).withPath(location).withFileSizeInBytes(size)
        append.appendFile(builder.withRecordCount(1).withFormat("parquet").build())
    append.commit()


def add_delete_file(table: MaintainedTable, location: str) -> None:
    """Commit a position delete file that nobody wrote."""
    java = table.handle.java
    builder = iceberg(table).FileMetadata.deleteFileBuilder(java.spec()).ofPositionDeletes().withPath(location)
    built = builder.withFileSizeInBytes(100).withRecordCount(1).withFormat("parquet").build()
    delta = java.newRowDelta()
    delta.addDeletes(built)
    delta.commit()


def add_statistics(table: MaintainedTable, location: str, *, partition: bool = False) -> None:
    """Give the head a statistics file that nobody wrote."""
    java = table.handle.java
    head = java.currentSnapshot().snapshotId()
    if partition:
        built = iceberg(table).ImmutableGenericPartitionStatisticsFile.builder().snapshotId(head).path(location)
        java.updatePartitionStatistics().setPartitionStatistics(built.fileSizeInBytes(10).build()).commit()
        return
    nothing = table.spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # JVM attribute
    java.updateStatistics().setStatistics(iceberg(table).GenericStatisticsFile(head, location, 10, 5, nothing)).commit()


def back_to(table: MaintainedTable, snapshot: int) -> None:
    """Move main back, so that what came after it is only reached by snapshots to expire."""
    table.handle.java.manageSnapshots().setCurrentSnapshot(snapshot).commit()


def head(table: MaintainedTable) -> int:
    """Snapshot of main."""
    return int(table.handle.java.currentSnapshot().snapshotId())


def write_metadata(table: MaintainedTable, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the metadata by hand, and let the catalog name the result."""
    location = str(table.handle.java.operations().current().metadataFileLocation())
    write_metadata_of(table.spark, table.name, location, change)


def write_metadata_of(spark: SparkSession, name: str, current: str, change: Callable[[dict[str, Any]], None]) -> None:
    """As :func:`write_metadata`, of any table.

    :param current: location of its metadata.
    """
    metadata = json.loads(on_disk(current).read_text())
    change(metadata)
    written = current.replace(".metadata.json", "x.metadata.json")
    on_disk(written).write_text(json.dumps(metadata))
    _name_in_catalog(spark, name, written)


def _name_in_catalog(spark: SparkSession, name: str, metadata_location: str) -> None:
    uri = spark.conf.get("spark.sql.catalog.lake_default.uri")
    assert uri is not None
    with sqlite3.connect(uri.removeprefix("jdbc:sqlite:").partition("?")[0]) as catalog:
        statement = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
        catalog.execute(statement, (metadata_location, name.rpartition(".")[2]))
    catalog.close()
