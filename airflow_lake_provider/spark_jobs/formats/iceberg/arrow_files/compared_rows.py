"""Say how Python workers read a table and a batch of Parquet files, or why they do not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyspark

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import has_digest
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import ArrowRows, ParquetBatch
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.executors import memory_obstacle, worker_obstacle
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import arrow_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import is_local
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.planned_files import PlannedFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.row_readers import ParquetRows, TableRows
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.s3_access import table_files
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import planned_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
from airflow_lake_provider.spark_jobs.sql.older_pyspark import has_groups_by_arrow

# To start Python workers takes longer than Spark takes to compare a smaller source.
LEAST_BYTES = 32 << 20
_BYTES_OF_PART = 128 << 20
# What it costs to open a file, as Iceberg plans scans.
_BYTES_TO_OPEN = 4 << 20
# By them Spark reads other values of a file, or other columns.
_READER_SETTINGS = ("spark.sql.parquet.int96TimestampConversion", "spark.sql.parquet.fieldId.read.enabled")


def compared_rows(table: IcebergTable, snapshot: int, batch: ParquetBatch) -> ArrowRows:
    """Return how both are read.

    :param snapshot: whose rows are compared.
    :raises UnsupportedError: Spark has to compare them, and why.
    """
    spark = table.spark
    columns = {each.name.lower(): each for each in _schema(table)}
    compared = pa.schema([columns[name.lower()] for name in (*batch.keys, *batch.compared)])
    if other := next((each for each in compared if not has_digest(each.type)), None):
        raise UnsupportedError(f"column {other.name} is of type {other.type}")
    for obstacle in _obstacles(table, batch):
        raise UnsupportedError(obstacle)
    files, tasks = table_files(table), planned_tasks(table, snapshot, "", whole=True)
    planned = PlannedFiles(table)
    for obstacle in planned.obstacles_of(tasks, files):
        raise UnsupportedError(obstacle)
    of_table = [*_packed(planned.parts(tasks))]
    of_batch = [*_packed(_whole(file) for file in batch.files)]
    at_once = min(len(of_table) + len(of_batch), spark.sparkContext.defaultParallelism)
    if unable := worker_obstacle(spark) or memory_obstacle(spark, at_once):
        raise UnsupportedError(unable)
    stored = frozenset(name.lower() for name in batch.stored)
    as_stored = pa.schema([columns[name.lower()].with_name(name) for name in batch.stored])
    return ArrowRows(
        table=TableRows(files=files, parts=of_table, schema=compared),
        batch=ParquetRows(parts=of_batch, schema=compared, stored=stored),
        stored=ParquetRows(parts=of_batch, schema=as_stored, stored=stored),
        keys=tuple(as_stored.get_field_index(key) for key in batch.keys),
    )


def _schema(table: IcebergTable) -> pa.Schema:
    schema = json.loads(table.iceberg.SchemaParser.toJson(table.java.schema()))
    return arrow_schema(schema, has_row_lineage=False)


def _obstacles(table: IcebergTable, batch: ParquetBatch) -> Iterator[str]:
    if sum(file.size for file in batch.files) < LEAST_BYTES:
        yield f"the source has less than {LEAST_BYTES >> 20} MiB"
    if encrypted := next((name for name in table.properties() if name.startswith("encryption.")), None):
        yield f"property {encrypted!r} encrypts files"
    specs = table.java.specs().values()
    if any(each.transform().isIdentity() for spec in JavaItems(table.spark, specs) for each in _fields(table, spec)):
        yield "a partition is a column, whose values files may lack"
    for name in _READER_SETTINGS:
        if table.spark.conf.get(name) == "true":
            yield f"the session sets {name}"
    if not all(is_local(file.path) for file in batch.files):
        yield "files of the source are in a store, which Python workers do not open"
    if not has_groups_by_arrow():
        yield f"PySpark {pyspark.__version__} gives Python workers no groups of rows by Arrow"


def _fields(table: IcebergTable, spec: object) -> JavaItems:
    return JavaItems(table.spark, spec.fields())  # type: ignore[attr-defined]  # of Java


def _whole(file: InputFile) -> FilePart:
    return FilePart(path=file.path, start=0, length=file.size, sequence_number=0)


def _packed(files: Iterable[FilePart]) -> Iterator[list[FilePart]]:
    """Cut large files, and put small ones together."""
    part: list[FilePart] = []
    size = 0
    for file in files:
        for start in range(0, file.length, _BYTES_OF_PART):
            length = min(_BYTES_OF_PART, file.length - start)
            if part and size + length > _BYTES_OF_PART:
                yield part
                part, size = [], 0
            part.append(replace(file, start=start, length=length))
            size += length + _BYTES_TO_OPEN
    if part:
        yield part
