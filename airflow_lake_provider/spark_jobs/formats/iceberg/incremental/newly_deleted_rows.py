"""The rows that a file lost between two snapshots: deleted at the second and not yet at the first.

The reader marks deleted rows where it would drop them, so a file is read once, in the columns that are asked for. What
is joined are the deleted rows, not the millions that stay.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.live_files import LiveFile
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import (
    FILE,
    IS_DELETED,
    POSITION,
    FileScan,
    table_with_deleted_rows,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable

# Of a broadcast; above it Spark chooses by size.
_MOST_BROADCAST = 1_000_000
# The mark is only filled by this reader, whatever table and session say.
_VECTORISED = {"vectorization-enabled": "true"}


def newly_deleted_rows(
    table: IcebergTable, schema_id: int, pairs: Sequence[tuple[LiveFile, LiveFile]]
) -> tuple[DataFrame, list[FileScan]]:
    """Return the rows, of files that :func:`can_mark` holds for, and the scans to be closed.

    :param schema_id: of the schema to read the files with.
    :param pairs: each file as the first snapshot has it, and as the second. The second has all deletes of the first, as
        along one line of history.
    """
    kept = table_with_deleted_rows(table.spark, table.java, schema_id)

    def deleted(files: Sequence[LiveFile]) -> FileScan:
        return FileScan(table.spark, kept, [file.task for file in files], _VECTORISED)

    scans = [deleted([last for _, last in pairs])]
    rows = scans[0].dataframe.where(IS_DELETED)
    earlier = [first for first, _ in pairs if first.deletes]
    if earlier:
        scans.append(deleted(earlier))
        known = scans[1].dataframe.where(IS_DELETED).select(FILE, POSITION)
        if sum(file.deleted_rows for file in earlier) <= _MOST_BROADCAST:
            known = sf.broadcast(known)
        # Not by row id: the place that a row was updated from has the id of the place it went to.
        rows = rows.join(known, [FILE, POSITION], "left_anti")
    return rows.drop(FILE, POSITION, IS_DELETED), scans


def can_mark(table: IcebergTable, schema_id: int, pairs: Sequence[tuple[LiveFile, LiveFile]], read: Set[str]) -> bool:
    """Tell whether Iceberg reads these columns of these files in vectors (its ``SparkBatch.useParquetBatchReads``).

    :param schema_id: as of :func:`newly_deleted_rows`; likewise ``pairs``.
    :param read: the columns that will be asked for.
    """
    schema: Any = table.java.schemas().get(schema_id)
    types = (schema.findType(f"{name}") for name in read)
    return all(type_ is None or _is_plain(type_) for type_ in types) and all(last.is_parquet for _, last in pairs)


def _is_plain(type_: Any) -> bool:
    return bool(type_.isPrimitiveType()) and str(type_.typeId()) not in ("GEOMETRY", "GEOGRAPHY")
