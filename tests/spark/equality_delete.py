"""Deletes by key as Flink writes them, which Spark cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession


def delete_by_equality(spark: SparkSession, table: Any, keys: list[int], **summary: str) -> None:
    """Commit a file of values of ``id``, which applies to all rows committed before it.

    :param table: ``org.apache.iceberg.Table`` without partitions.
    :param summary: entries of the snapshot, with ``_`` for ``-``, after ``flink.``.
    """
    _commit(spark, table, [{"id": key} for key in keys], {}, summary)


def delete_by_values(spark: SparkSession, table: Any, values: list[dict[str, Any]]) -> None:
    """Commit a file of values of several columns, which applies to the rows that have all of one of its rows.

    :param table: as of :func:`delete_by_equality`.
    :param values: rows of the file.
    """
    _commit(spark, table, values, {}, {})


def upsert_by_equality(spark: SparkSession, table: Any, rows: dict[int, tuple[str, int]]) -> None:
    """Commit the deletes of some keys and their new rows at once, as a checkpoint of Flink does.

    :param rows: region and amount by ``id``.
    """
    _commit(spark, table, [{"id": key} for key in rows], rows, {})


def _commit(
    spark: SparkSession,
    table: Any,
    values: list[dict[str, Any]],
    rows: dict[int, tuple[str, int]],
    summary: dict[str, str],
) -> None:
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    schema = _schema(table)
    columns = list(values[0])
    deleted = pa.Table.from_pylist(values, pa.schema([schema.field(name) for name in columns]))
    path, size = _written(table, deleted, f"equality-{'-'.join(str(each[columns[0]]) for each in values)}")
    field_ids = gateway.new_array(jvm.int, len(columns))
    for place, name in enumerate(columns):
        field_ids[place] = int(table.schema().findField(name).fieldId())
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(field_ids)
    file = builder.withPath(path).withFileSizeInBytes(size).withRecordCount(len(values))
    delta = table.newRowDelta().addDeletes(file.withFormat("parquet").build())
    if rows:
        new = [{"id": key, "region": region, "amount": amount} for key, (region, amount) in rows.items()]
        path, size = _written(table, pa.Table.from_pylist(new, schema), f"rows-{uuid4().hex[:8]}")
        data = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(path).withFormat("parquet")
        delta = delta.addRows(data.withFileSizeInBytes(size).withRecordCount(len(rows)).build())
    for name, value in summary.items():
        delta = delta.set(f"flink.{name.replace('_', '-')}", value)
    delta.commit()


def _schema(table: Any) -> pa.Schema:
    """Return the columns of orders with the ids of the table's fields."""
    types = {"id": pa.int64(), "region": pa.string(), "amount": pa.int64()}
    fields = {name: table.schema().findField(name) for name in types}
    return pa.schema(
        [
            pa.field(name, types[name], nullable=name != "id", metadata={"PARQUET:field_id": str(field.fieldId())})
            for name, field in fields.items()
            if field is not None
        ]
    )


def _written(table: Any, rows: pa.Table, name: str) -> tuple[str, int]:
    path = Path(urlsplit(str(table.location())).path) / "data" / f"{name}.parquet"
    pq.write_table(rows, path)
    return f"file:{path}", path.stat().st_size
