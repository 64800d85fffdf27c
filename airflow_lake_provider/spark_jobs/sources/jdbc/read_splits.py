"""Rows of a database as a DataFrame: Spark's JDBC reader, with a schema and ranges of our own.

Spark's public calls ask the database for the schema. They cannot have a range over a column that Spark has no type for,
such as the address of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, java_session, jvm_of
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database, login_of
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import SentValue
from airflow_lake_provider.spark_jobs.sources.jdbc.splits import Splits
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

_SENT = "_lake_sent"


def statement_of(relation: str, values: Sequence[SentValue], where: str, splits: Splits, split: str) -> str:
    """Return the statement that sends the rows, as a database merges it with the condition of a range.

    :param relation: what stands behind FROM.
    :param split: ``_lake_split`` as the database reads it.
    """
    sent = [f"{value.sql} AS {_SENT}{place}" for place, value in enumerate(values)]
    by = [] if splits.column is None else [f"{splits.column} AS {split}"]
    return f"SELECT {', '.join([*sent, *by])} FROM {relation} AS lake WHERE {where}"


def read_splits(
    database: Database,
    statement: str,
    values: Sequence[SentValue],
    names: Sequence[str],
    splits: Splits,
    fetch_size: int,
) -> DataFrame:
    """Return the rows lazily, a task for each range.

    :param statement: of :func:`statement_of`.
    :param names: of the columns.
    """
    schema = StructType([StructField(f"{_SENT}{place}", value.sent) for place, value in enumerate(values)])
    sent = _rows(database, schema, splits, _options(database, fetch_size), f"(\n{statement}\n) AS lake")
    made = (value.made.replace("{}", f"{_SENT}{place}") for place, value in enumerate(values))
    return sent.selectExpr(*(f"{sql} AS {quoted_name(name)}" for sql, name in zip(made, names, strict=True)))


def _options(database: Database, fetch_size: int) -> dict[str, str]:
    return {
        **login_of(database.access),
        **database.dialect.properties,
        "driver": database.dialect.driver,
        # Above 0, a driver does not hold all rows at once.
        "fetchsize": str(fetch_size),
        "sessionInitStatement": database.dialect.reader_start(database.snapshot),
        # The database compares texts by its own rules.
        "pushDownPredicate": "false",
    }


def _rows(database: Database, schema: StructType, splits: Splits, options: Mapping[str, str], table: str) -> DataFrame:
    spark = database.spark
    jvm, session = jvm_of(spark), java_session(spark)
    jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc
    given = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap(options))
    partitions = [jdbc.JDBCPartition(condition, place) for place, condition in enumerate(splits.conditions)]
    # Spark 4 also takes metrics of its own reading of the schema.
    metrics = () if spark.version.startswith("3.") else (jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap()),)
    relation = jdbc.JDBCRelation(
        session.parseDataType(schema.json()),
        java_array(spark, "org.apache.spark.Partition", partitions),
        jdbc.JDBCOptions(database.access.url, table, given),
        *metrics,
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)
