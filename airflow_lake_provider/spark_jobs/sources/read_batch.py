"""Rows of a batch: from exactly these files, from a lake table, or from a query over either."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.source_position import InputFile
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.formats.choose import rows_for_queries
from airflow_lake_provider.spark_jobs.plan_sources import sources_of
from airflow_lake_provider.spark_jobs.sources.arrival import describe_first, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.text_schema import csv_schema, json_schema, parse_ddl

# The view that a query has its rows from.
_SOURCE = "source"
AVRO_PACKAGE = "org.apache.spark:spark-avro_2.13:4.1.1"


@dataclass(frozen=True, kw_only=True)
class RawBatch:
    """Rows as they were read, nothing reduced.

    :param rows: the columns of the batch; ``_lake_arrival`` when ``has_arrival``; ``_lake_unparsable`` (text of a
        record that its schema does not fit, else NULL) when ``may_be_unparsable``, and then the rows are cached.
    :param reads_more: whether a query reads more than the source: the target, for all that is known.
    """

    rows: DataFrame
    files: tuple[InputFile, ...] = ()
    has_arrival: bool = False
    may_be_unparsable: bool = False
    reads_more: bool = False

    def refuse_unparsable(self, count: int) -> None:
        """Refuse records that cannot be read as their schema says.

        :param count: how many ``rows`` have ``_lake_unparsable``.
        :raises BadInputError: above 0; it names the file and the first such record.
        """
        if count:
            place = describe_first(self.rows, sf.col(UNPARSABLE).isNotNull(), self.files)
            raise BadInputError(
                f"{count} records cannot be read as {_columns(self.rows)}: {place}. Repair the file, or give "
                "source_schema and source_options that fit it"
            )


def read_batch(
    spark: SparkSession,
    source: Source,
    files: tuple[InputFile, ...],
    table_schema: StructType | None,
    table_snapshot: str | None = None,
) -> RawBatch:
    """Read the batch lazily, but for what finding out the schema of JSON and CSV takes.

    JSON and CSV take their types from ``source.schema``, else from the table for the columns it has, else from the
    values. Names of folders (``day=2025-01-01``) are not columns, unless the option ``basePath`` says so.

    :param files: the files to read, and no others; empty for a table.
    :param table_schema: of the table the batch goes to; None when it does not exist yet.
    :param table_snapshot: of a source table, as text; None for its head.
    :raises BadInputError: a query or a table that cannot be resolved; with a query, records that cannot be read.
    :raises UnsupportedError: avro without its package.
    """
    if source.table:
        batch = _read_table(spark, source.table, table_snapshot)
    else:
        batch = _read_files(spark, source, files, table_schema)
    return _query(spark, source.query, batch) if source.query else batch


def _read_table(spark: SparkSession, table: str, snapshot: str | None) -> RawBatch:
    name = TableName.parse(table)
    at = {"versionAsOf": snapshot} if snapshot else {}
    try:
        rows = spark.read.options(**at).table(name.quoted())
        return RawBatch(rows=rows_for_queries(spark, name, rows, snapshot) if snapshot else rows)
    except AnalysisException as error:
        raise BadInputError(f"source table {table} cannot be read: {error.getMessage()}") from error


def _read_files(
    spark: SparkSession, source: Source, files: tuple[InputFile, ...], table_schema: StructType | None
) -> RawBatch:
    if not files:
        raise BadInputError(f"no files of {source.path!r} were given; an empty batch is not read")
    if source.format in ("json", "csv"):
        return _read_text(spark, source, files, table_schema)
    # Without it Spark takes the columns of one file, and drops those that only the others have.
    options = {"mergeSchema": "true"} if source.format in ("parquet", "orc") else {}
    reader = spark.read.format(str(source.format)).options(**{**options, **source.options})
    if source.schema:
        reader = reader.schema(parse_ddl(source.schema))
    try:
        rows = reader.load(literal_paths(files))
    except AnalysisException as error:
        raise _load_error(source, error) from error
    return RawBatch(rows=with_arrival(spark, rows, files), files=files, has_arrival=True)


def _load_error(source: Source, error: AnalysisException) -> Exception:
    if source.format == "avro" and "Failed to find data source" in str(error):
        return UnsupportedError(f'reading avro takes a package of its own: add packages="{AVRO_PACKAGE}"')
    return BadInputError(f"{source.format} files of {source.path!r} cannot be read: {error.getMessage()}")


def _read_text(
    spark: SparkSession, source: Source, files: tuple[InputFile, ...], table_schema: StructType | None
) -> RawBatch:
    paths = literal_paths(files)
    # PERMISSIVE reports a bad record, where DROPMALFORMED loses it; a CSV header is compared with the schema.
    options = {
        **source.options,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": UNPARSABLE,
        "enforceSchema": "false",
    }
    find_schema = json_schema if source.format == "json" else csv_schema
    schema = find_schema(spark, source, paths, options, table_schema)
    marked = StructType([*schema.fields, StructField(UNPARSABLE, StringType())])
    rows = spark.read.format(str(source.format)).options(**options).schema(marked).load(paths)
    # Cached whole: Spark parses only the columns a query names, and a record is found bad only by the parsed ones.
    rows = with_arrival(spark, rows, files).persist()
    return RawBatch(rows=rows, files=files, has_arrival=True, may_be_unparsable=True)


def _query(spark: SparkSession, query: str, batch: RawBatch) -> RawBatch:
    if batch.may_be_unparsable:
        batch.refuse_unparsable(batch.rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
    hidden = [name for name in batch.rows.columns if name.startswith("_lake_")]
    batch.rows.drop(*hidden).createOrReplaceTempView(_SOURCE)
    try:
        rows = spark.sql(query)
        return RawBatch(rows=rows, reads_more=sources_of(rows) != ({_SOURCE}, set()))
    except AnalysisException as error:
        raise BadInputError(f"the query over the view source cannot be resolved: {error.getMessage()}") from error
    finally:
        spark.catalog.dropTempView(_SOURCE)


def _columns(rows: DataFrame) -> str:
    fields = (field for field in rows.schema.fields if not field.name.startswith("_lake_"))
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
