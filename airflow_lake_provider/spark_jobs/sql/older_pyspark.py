"""Parts of PySpark 4 that PySpark 3.5 lacks: taken where they are there, else made of what both have.

Each asks for the part itself and for no version, as distributions bring parts of 4 to 3.5.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession, types
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.jvm.gateway import java_column, java_rows, java_session, jvm_of

_HAS_TRY_CAST = hasattr(Column, "try_cast")
_HAS_TO_ARROW = hasattr(DataFrame, "toArrow")
_HAS_GROUPS_BY_ARROW = hasattr(GroupedData, "applyInArrow")
_HAS_METADATA_COLUMN = hasattr(DataFrame, "metadataColumn")
_VERSION_KEY = "spark.sql.timeTravelVersionKey"
_HAS_VALID_UTF8 = hasattr(sf, "is_valid_utf8")
# PySpark logs the text of a statement that fails, with its error, whoever catches that.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def try_cast(value: Column, wanted: types.DataType | str) -> Column:
    """Return the value as another type; NULL where it does not convert, whatever ``spark.sql.ansi.enabled`` is."""
    if _HAS_TRY_CAST:
        return value.try_cast(wanted)
    spark = SparkSession.active()
    parsed = wanted if isinstance(wanted, types.DataType) else parse_ddl_type(wanted)
    jvm = jvm_of(spark)
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    java_type = java_session(spark).parseDataType(parsed.json())
    modes = expressions.EvalMode
    fitted = expressions.Cast(java_column(value).expr(), java_type, jvm.scala.Option.empty(), modes.TRY())
    return column_of(fitted)


def keeps_number_texts() -> bool:
    """Tell whether a number of JSON that is read as text has the digits of the file; Spark 3.5 writes it anew."""
    return _HAS_TRY_CAST


def column_of(expression: Any) -> Column:
    """Return the column of a ``org.apache.spark.sql.catalyst.expressions.Expression``."""
    jvm = jvm_of(SparkSession.active())
    if _HAS_TRY_CAST:
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
    return Column(jvm.org.apache.spark.sql.Column(expression))


def is_utf8(value: str) -> Column:
    """Tell whether a text column has bytes that are UTF-8."""
    return sf.expr(valid_utf8(value))


def valid_utf8(value: str) -> str:
    """Return the condition that a text, which is given as SQL, is UTF-8."""
    if _HAS_VALID_UTF8:
        return f"is_valid_utf8({value})"
    # What is no UTF-8 is decoded as the replacement character, whose bytes are others.
    return f"encode(decode(CAST({value} AS BINARY), 'UTF-8'), 'UTF-8') = CAST({value} AS BINARY)"


def to_arrow(rows: DataFrame) -> pa.Table:
    """Bring rows to the driver."""
    if _HAS_TO_ARROW:
        return rows.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    schema, older = to_arrow_schema(rows.schema), cast(Any, rows)
    batches = older._collect_as_arrow()
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def has_groups_by_arrow() -> bool:
    """Tell whether Python workers take groups of rows, and give rows back, in Arrow's format."""
    return _HAS_GROUPS_BY_ARROW


def has_version_option(spark: SparkSession) -> bool:
    """Tell whether a snapshot can be asked for by an option; Spark 3.5 reads the head then, and says nothing."""
    return spark.conf.isModifiable(_VERSION_KEY)


def table_at(spark: SparkSession, name: str, snapshot: str) -> DataFrame:
    """Return the columns of a table as it was at a snapshot.

    :param name: as SQL has it.
    """
    if has_version_option(spark):
        # A session may rename it.
        option = spark.conf.get(_VERSION_KEY, None) or "versionAsOf"
        return spark.read.option(option, snapshot).table(name)
    return spark.sql(f"SELECT * FROM {name} VERSION AS OF {int(snapshot)}")


def dataframe_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows of the driver as a DataFrame; rows of Python objects would start a Python worker in PySpark 4."""
    if _HAS_TO_ARROW:
        return spark.createDataFrame(rows)
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], from_arrow_schema(rows.schema))


def metadata_column(rows: DataFrame, name: str) -> Column:
    """Return a metadata column of a source, also where the rows have a column of that name."""
    return rows.metadataColumn(name) if _HAS_METADATA_COLUMN else Column(java_rows(rows).metadataColumn(name))


def parse_ddl_type(text: str) -> types.DataType:
    """Parse a type, or a list of columns, as SQL writes it.

    :raises PySparkException: it is neither.
    """
    parse = getattr(types.DataType, "fromDDL", None) or types._parse_datatype_string
    parsed: types.DataType = parse(text)
    return parsed


def message_of(error: PySparkException) -> str:
    """Return the message of Spark, without the stack of the JVM."""
    get_message = getattr(error, "getMessage", None)
    return str(get_message() if get_message else getattr(error, "desc", error))


def condition_of(error: PySparkException) -> str | None:
    """Return the name of the condition that Spark met."""
    get_condition = getattr(error, "getCondition", None) or error.getErrorClass
    condition: str | None = get_condition()
    return condition


def statement_loggers() -> list[logging.Logger]:
    """Return the loggers to which PySpark writes the text of a statement that fails; 3.5 has none."""
    if find_spec("pyspark.logger") is None:
        return []
    # Made by PySpark's own class: of another, its calls would fail.
    return [import_module("pyspark.logger").PySparkLogger.getLogger(name) for name in _LOGGERS]
