"""The digests of consumed files that do not fit in a table property, in a file beside the table's metadata.

A tool that removes orphan files may take a side file for one. Then it cannot be told any more which files were
consumed, and the upsert is refused rather than guessed.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from py4j.protocol import Py4JJavaError

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.source_position import SourcePosition, unpack_digests
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable


def load(table: IcebergTable, position: SourcePosition) -> SourcePosition:
    """Return the position with its digests in memory.

    :raises BadInputError: the side file is gone.
    """
    if position.side_file is None:
        return position
    return replace(position, files=unpack_digests(_read(table, position.side_file)), side_file=None)


def store(table: IcebergTable, position: SourcePosition, source_name: str) -> SourcePosition:
    """Write the digests to a side file when a property cannot hold them.

    :return: the position as the property shall hold it.
    """
    if not position.needs_side_file:
        return position
    name = f"lake-position-{source_name}-{position.generation}-{secrets.token_hex(4)}.bin"
    path = str(table.java.operations().metadataFileLocation(name))
    stream = table.java.io().newOutputFile(path).create()
    try:
        stream.write(bytearray(position.packed_files))
    finally:
        stream.close()
    return position.with_side_file(path)


def _read(table: IcebergTable, path: str) -> bytes:
    try:
        file = table.java.io().newInputFile(path)
        stream = file.newStream()
        try:
            return bytes(stream.readNBytes(int(file.getLength())))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise BadInputError(
            f"{table.name}: {path}, the list of the input files consumed so far, cannot be read; it was probably "
            "removed as an orphan. Apply the input again with on_repeat='apply', which writes a new list"
        ) from error
