"""Delete files made in this process, put where the table keeps its files."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_lake_provider.contracts.delete_file_settings import DeleteFileSettings
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import delete_locations
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


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
        stream = table.java.io().newOutputFile(location).create()
        try:
            stream.write(content)
        finally:
            stream.close()
    except Exception:
        # Half of it may be there.
        with suppress(Exception):
            delete_locations(table, [location])
        raise
    return location
