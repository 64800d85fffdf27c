"""Delete files made in this process, put where the table keeps its files."""

from __future__ import annotations

import uuid
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


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
    stream = table.java.io().newOutputFile(location).create()
    try:
        stream.write(content)
    finally:
        stream.close()
    return location
