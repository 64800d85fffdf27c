"""Columns and types of JSON and CSV files: declared, else the table's, else told from the values."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StringType, StructField, StructType

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.change_batch import UNPARSABLE


def declared_types(schema: str | None, table_schema: StructType | None) -> dict[str, DataType]:
    """Return what is known of types before any value is read, by lower-case name.

    :param schema: DDL of the author; wins over the table.
    :param table_schema: of the target table; None when there is none.
    :raises BadInputError: the DDL cannot be parsed.
    """
    known = {field.name.lower(): field.dataType for field in (table_schema.fields if table_schema else ())}
    if schema:
        known.update((field.name.lower(), field.dataType) for field in parse_ddl(schema).fields)
    return known


def parse_ddl(schema: str) -> StructType:
    """Parse a DDL text of columns; needs a running session.

    :raises BadInputError: it cannot be parsed.
    """
    try:
        parsed = StructType.fromDDL(schema)
    except PySparkException as error:
        raise BadInputError(f"source schema {schema!r} is not a list of columns in DDL: {error}") from error
    if not isinstance(parsed, StructType):
        raise BadInputError(
            f"source schema {schema!r} is one type, not a list of columns such as 'id BIGINT, note STRING'"
        )
    return parsed


def json_schema(
    spark: SparkSession, source: Source, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    """Return the schema to read JSON lines with; without a declared one, a pass over the files finds the fields."""
    if source.schema:
        return parse_ddl(source.schema)
    found = spark.read.options(**options).json(paths).schema
    fields = [field for field in found.fields if field.name != UNPARSABLE]
    if not fields:
        raise BadInputError(f"no record of {source.path!r} is a JSON object with fields")
    return _retyped(fields, declared_types(None, table_schema))


def csv_schema(
    spark: SparkSession, source: Source, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    """Return the schema to read CSV with, in the order of the header, which is where CSV takes its order from."""
    if source.options.get("header", "false").lower() != "true":
        return parse_ddl(source.schema) if source.schema else _inferred_csv(spark, paths, options)
    plain = {**options, "inferSchema": "false"}
    header = [name for name in spark.read.options(**plain).csv(paths).columns if name != UNPARSABLE]
    known = declared_types(source.schema, table_schema)
    if source.schema:
        _refuse_other_columns(source, header)
    if all(name.lower() in known for name in header):
        return _retyped([StructField(name, StringType()) for name in header], known)
    return _retyped(_inferred_csv(spark, paths, options).fields, known)


def _inferred_csv(spark: SparkSession, paths: list[str], options: Mapping[str, str]) -> StructType:
    inferred = spark.read.options(**{"inferSchema": "true", **options}).csv(paths).schema
    return StructType([field for field in inferred.fields if field.name != UNPARSABLE])


def _refuse_other_columns(source: Source, header: list[str]) -> None:
    declared = [field.name for field in parse_ddl(str(source.schema)).fields]
    if {name.lower() for name in declared} != {name.lower() for name in header}:
        raise BadInputError(
            f"the source schema has the columns {declared}, but the header of {source.path!r} has {header}; "
            "each column of the header needs a type, in any order"
        )


def _retyped(fields: list[StructField], known: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(field.name, known.get(field.name.lower(), field.dataType)) for field in fields])
