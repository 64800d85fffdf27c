"""Deletion vectors of the rows that an upsert replaces, each merged with what its data file had before."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.resolved_rows import Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.roaring_bitmap import deletion_vector
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

_READERS = 8


def write_vectors(table: IcebergTable, files: Mapping[str, Any], positions: Positions) -> tuple[list[Any], list[Any]]:
    """Write one Puffin file with a vector for each data file.

    :param files: of ``touched_files``.
    :return: the new vectors, and the delete files whose content they hold, to be removed by the same commit: two
        vectors on one data file make every later scan fail.
    """
    if not files:
        return [], []
    jvm: Any = table.spark._jvm
    writer = jvm.org.apache.iceberg.deletes.BaseDVFileWriter(_output_files(table), _previous(table, files))
    deserialize = jvm.org.apache.iceberg.deletes.PositionDeleteIndex.deserialize
    stubs = jvm.org.apache.iceberg.FileMetadata
    unpartitioned = jvm.org.apache.iceberg.PartitionSpec.unpartitioned()
    for path, task in files.items():
        blob = deletion_vector(positions[path])
        # An index is only made of a blob together with the metadata of the file it would lie in.
        stub = (
            stubs.deleteFileBuilder(unpartitioned)
            .ofPositionDeletes()
            .withPath("not-written.puffin")
            .withFileSizeInBytes(len(blob))
            .withReferencedDataFile(path)
            .withContentOffset(0)
            .withContentSizeInBytes(len(blob))
            .withRecordCount(len(positions[path]))
            .build()
        )
        writer.delete(path, deserialize(blob, stub), task.spec(), task.file().partition())
    writer.close()
    result = writer.result()
    return list(result.deleteFiles()), list(result.rewrittenDeleteFiles())


def _output_files(table: IcebergTable) -> Any:
    jvm: Any = table.spark._jvm
    builder = jvm.org.apache.iceberg.io.OutputFileFactory.builderFor(table.java, 1, 1)
    return builder.format(jvm.org.apache.iceberg.FileFormat.PUFFIN).build()


def _previous(table: IcebergTable, files: Mapping[str, Any]) -> Any:
    """Return a Java function from a path to the positions deleted there before; made without a Python callback."""
    jvm: Any = table.spark._jvm
    deletes = {path: _position_deletes(jvm, task) for path, task in files.items()}
    inputs, indexes = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    new_input_file = table.java.io().newInputFile
    for of_file in deletes.values():
        for delete in of_file:
            inputs.put(delete, new_input_file(str(delete.location())))
    functions = jvm.com.google.common.base.Functions
    loader = jvm.org.apache.iceberg.data.BaseDeleteLoader(functions.forMap(inputs, None))
    touched_before = [path for path, of_file in deletes.items() if not of_file.isEmpty()]
    # One read each, of an object store perhaps.
    with ThreadPoolExecutor(_READERS) as readers:
        loaded = readers.map(lambda path: loader.loadPositionDeletes(deletes[path], path), touched_before)
        for path, index in zip(touched_before, loaded, strict=True):
            indexes.put(path, index)
    return functions.forMap(indexes, None)


def _position_deletes(jvm: Any, task: Any) -> Any:
    """Return vectors and position-delete files of a data file; equality deletes on it stay what they are."""
    kept = jvm.java.util.ArrayList()
    for delete in task.deletes():
        if str(delete.content()) == "POSITION_DELETES":
            kept.add(delete)
    return kept
