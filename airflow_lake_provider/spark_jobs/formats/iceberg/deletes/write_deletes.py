"""Write the files that delete rows by position, in the form of the table version, and upload delete files."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from airflow_lake_provider.iceberg.owner_settings import DeleteFileSettings
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import (
    delete_locations,
    discarded_on_failure,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.deletion_vectors import write_vectors
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import (
    scan_tasks,
    tasks_of_files,
    tasks_without_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def write_deletes(
    table: IcebergTable,
    base: str | None,
    positions: Positions,
    rows: Sequence[Any],
    outdated: Positions | None = None,
    planned: Any = None,
) -> RowDelta:
    """Write the delete files and return them with the rows that take their place.

    :param base: snapshot that the positions are of; None for a table without rows.
    :param rows: ``org.apache.iceberg.DataFile`` objects.
    :param outdated: positions in those that are deleted by the commit which adds them.
    :param planned: Java list of the ``org.apache.iceberg.FileScanTask`` of the snapshot's data files, of those with
        positions at least; None where nobody has planned them.
    :raises CommitConflictError: a data file is not in the snapshot.
    """
    paths = list(positions)
    files: dict[str, Any] = {}
    if base is not None and paths and planned is None:
        files = scan_tasks(table, int(base), paths)
    elif base is not None and paths:
        files = tasks_of_files(table, int(base), planned, paths)
    delta = RowDelta(rows=rows, referenced=paths)
    if outdated:
        added = [file for file in rows if str(file.location()) in outdated]
        files |= {str(task.file().location()): task for task in tasks_without_deletes(table, added)}
        positions = {**positions, **outdated}
    if table.format_version >= 3:
        vectors, replaced = write_vectors(table, files, positions)
        return replace(delta, deletes=vectors, replaced=replaced)
    return replace(delta, deletes=write_position_deletes(table, files, positions))


# Reserved field ids of Iceberg's table spec, section "Position Delete Files".
_FILE_PATH_ID, _POS_ID = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, metadata={"PARQUET:field_id": str(_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, metadata={"PARQUET:field_id": str(_POS_ID)}),
    ]
)


def write_position_deletes(table: IcebergTable, files: Mapping[str, Any], positions: Positions) -> list[Any]:
    """Write the files and return them as ``org.apache.iceberg.DeleteFile``."""
    settings = DeleteFileSettings.of(str(table.name), table.properties())
    written: list[Any] = []
    with discarded_on_failure(table, written):
        for path, task in files.items():
            written.append(_write(table, task, path, positions[path], settings))
    return written


def _write(
    table: IcebergTable, task: Any, path: str, positions: NDArray[np.int64], settings: DeleteFileSettings
) -> Any:
    data_file = task.file()
    content = _parquet(path, positions, settings)
    location = upload_delete_file(table, task.spec(), data_file.partition(), content)
    return (
        table.iceberg.FileMetadata.deleteFileBuilder(task.spec())
        .ofPositionDeletes()
        .withFormat(table.iceberg.FileFormat.PARQUET)
        .withPath(location)
        .withPartition(data_file.partition())
        .withFileSizeInBytes(len(content))
        .withReferencedDataFile(path)
        .withRecordCount(len(positions))
        .build()
    )


def _parquet(path: str, positions: NDArray[np.int64], settings: DeleteFileSettings) -> bytes:
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([path]))
    return delete_file(pa.table([paths.cast(pa.string()), pa.array(positions)], schema=_SCHEMA), settings)


def delete_file(rows: pa.Table, settings: DeleteFileSettings) -> bytes:
    """Return rows as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression=settings.codec,
        compression_level=settings.level,
        data_page_size=settings.page_bytes,
        dictionary_pagesize_limit=settings.dictionary_bytes,
        store_decimal_as_integer=True,
    )
    return bytes(sink.getvalue())


def upload_delete_file(table: IcebergTable, spec: Any, partition: Any, content: bytes) -> str:
    """Write a Parquet file through the table's own file system and return its location.

    :param spec: ``org.apache.iceberg.PartitionSpec``.
    :param partition: ``org.apache.iceberg.StructLike``; not looked at where the spec is unpartitioned.
    """
    name = f"lake-deletes-{uuid.uuid4()}.parquet"
    locations = table.java.locationProvider()
    location = str(
        locations.newDataLocation(spec, partition, name) if spec.isPartitioned() else locations.newDataLocation(name)
    )
    try:
        with closing(table.java.io().newOutputFile(location).create()) as stream:
            stream.write(content)
    except Exception:
        # Half of it may be there.
        with suppress(Exception):
            delete_locations(table, [location])
        raise
    return location
