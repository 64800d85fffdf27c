"""Deletes by key as Flink writes them, which Spark cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession


def delete_by_equality(spark: SparkSession, table: Any, keys: list[int], **summary: str) -> None:
    """Commit a file of values of ``id``, which applies to all rows committed before it.

    :param table: ``org.apache.iceberg.Table`` without partitions.
    :param summary: entries of the snapshot, with ``_`` for ``-``, after ``flink.``.
    """
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    field_id = int(table.schema().findField("id").fieldId())
    field = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(field_id)})
    path = Path(urlsplit(str(table.location())).path) / "data" / f"equality-{'-'.join(map(str, keys))}.parquet"
    pq.write_table(pa.table([pa.array(keys, pa.int64())], schema=pa.schema([field])), path)
    field_ids = gateway.new_array(jvm.int, 1)
    field_ids[0] = field_id
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(field_ids)
    file = builder.withPath(f"file:{path}").withFileSizeInBytes(path.stat().st_size).withRecordCount(len(keys))
    delta = table.newRowDelta().addDeletes(file.withFormat("parquet").build())
    for name, value in summary.items():
        delta = delta.set(f"flink.{name.replace('_', '-')}", value)
    delta.commit()
