"""Write the files that delete rows by position, in the form of the table version: delete files or vectors."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from airflow_lake_provider.iceberg.owner_settings import DeleteFileSettings
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.dropped_sources import refuse_deletes_without_source
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import RowDelta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import (
    delete_locations,
    discarded_on_failure,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import (
    scan_tasks,
    tasks_of_files,
    tasks_without_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, as_number_list, list_of

_AT_ONCE = 8


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
    :raises UnsupportedError: a data file is in a partition whose value is lost.
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
    refuse_deletes_without_source(table, lambda: (int(task.spec().specId()) for task in files.values()))
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

    def write(path: str) -> None:
        written.append(_write(table, files[path], path, positions[path], settings))

    # Several at once: an object store takes tens of milliseconds for each. After a failure those that have begun are
    # waited for, so that none is left.
    with discarded_on_failure(table, written), ThreadPoolExecutor(_AT_ONCE) as writers:
        for _ in writers.map(write, files):
            pass
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


# As Iceberg names the first file of a task: partition, task, operation, number.
_FILE_NAME = "00001-1-{}-00001.puffin"


def write_vectors(
    table: IcebergTable, files: Mapping[str, Any], positions: Positions
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Write one Puffin file with a vector for each data file.

    :param files: the ``org.apache.iceberg.FileScanTask`` of each data file.
    :return: the new vectors, and the delete files whose content they hold. The same commit has to remove these: two
        vectors on one data file make every later scan fail.
    """
    if not files:
        return [], []
    operation = uuid.uuid4().hex
    writer = internal(table.spark, Internal.VECTOR_WRITER)(_output_files(table, operation), _previous(table, files))
    deserialize = internal(table.spark, Internal.POSITION_INDEX).deserialize
    stub = _stub(table)
    for path, task in files.items():
        blob = deletion_vector(positions[path])
        stub.withContentSizeInBytes(len(blob)).withRecordCount(len(positions[path]))
        writer.delete(path, deserialize(blob, stub.build()), task.spec(), task.partition())
    try:
        writer.close()
    except Exception:
        # Half of it may be there.
        with suppress(Exception):
            delete_locations(table, [str(table.java.locationProvider().newDataLocation(_FILE_NAME.format(operation)))])
        raise
    result = writer.result()
    return JavaItems(table.spark, result.deleteFiles()), JavaItems(table.spark, result.rewrittenDeleteFiles())


def _stub(table: IcebergTable) -> Any:
    """Return a builder: an index is only made of a blob together with the metadata of the file it would lie in."""
    return (
        table.iceberg.FileMetadata.deleteFileBuilder(table.iceberg.PartitionSpec.unpartitioned())
        .ofPositionDeletes()
        .withPath("not-written.puffin")
        .withFileSizeInBytes(0)
        .withReferencedDataFile("not-read")
        .withContentOffset(0)
    )


def _output_files(table: IcebergTable, operation: str) -> Any:
    builder = table.iceberg.io.OutputFileFactory.builderFor(table.java, 1, 1)
    return builder.operationId(operation).format(table.iceberg.FileFormat.PUFFIN).build()


def _previous(table: IcebergTable, files: Mapping[str, Any]) -> Any:
    """Return a Java function from a path to the positions deleted there before; made without a Python callback."""
    java = java_functions(table.spark)
    counts = as_number_list(table.spark, list_of(table.spark, files.values()), java.position_delete_count_of_task)
    with_deletes = {path: task for (path, task), count in zip(files.items(), counts, strict=True) if count}
    loader = internal(table.spark, Internal.DELETE_LOADER)(java.input_file(table.java.io()))
    load = java.positions_deleted_in_task(loader)
    indexes = jvm_of(table.spark).java.util.HashMap()
    # One read each, of an object store perhaps.
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        loaded = readers.map(load.apply, with_deletes.values())
        for path, index in zip(with_deletes, loaded, strict=True):
            indexes.put(path, index)
    return java.value_in(indexes)


_MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
_COOKIE_WITHOUT_RUNS = 12346
# Up to here a container lists its values; above it is a bitmap of 65,536 bits.
_MOST_LISTED = 4096


def deletion_vector(positions: NDArray[np.int64]) -> bytes:
    """Return the blob of these positions: length, magic, bitmap, CRC-32.

    :param positions: at least one, in any order, without duplicates, none negative.
    """
    data = _MAGIC + _bitmap_64(np.sort(positions).astype(np.uint64))
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def _bitmap_64(positions: NDArray[np.uint64]) -> bytes:
    high, starts = np.unique(positions >> np.uint64(32), return_index=True)
    parts = np.split(positions, starts[1:])
    bitmaps = [
        struct.pack("<I", int(key)) + _bitmap_32((part & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        for key, part in zip(high, parts, strict=True)
    ]
    return struct.pack("<Q", len(bitmaps)) + b"".join(bitmaps)


def _bitmap_32(values: NDArray[np.uint32]) -> bytes:
    keys, starts, counts = np.unique(values >> np.uint32(16), return_index=True, return_counts=True)
    low = (values & np.uint32(0xFFFF)).astype("<u2")
    containers = [_container(part) for part in np.split(low, starts[1:])]
    descriptions = np.empty((len(keys), 2), "<u2")
    descriptions[:, 0] = keys
    descriptions[:, 1] = counts - 1
    header = struct.pack("<II", _COOKIE_WITHOUT_RUNS, len(keys)) + descriptions.tobytes()
    sizes = np.array([0, *(len(container) for container in containers[:-1])], np.int64)
    offsets = len(header) + 4 * len(keys) + np.cumsum(sizes)
    return header + offsets.astype("<u4").tobytes() + b"".join(containers)


def _container(low: NDArray[np.uint16]) -> bytes:
    if len(low) <= _MOST_LISTED:
        return low.tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()
