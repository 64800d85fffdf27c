"""The keys of rows to delete, from files or a table; no value of them may get into a message."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.choose import keyed_table
from airflow_lake_provider.spark_jobs.latest_changes import quoted
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files


@dataclass(frozen=True, kw_only=True)
class ListedKeys:
    """Keys, and the identity of where they come from.

    :param keys: the key columns in the types of the table; None when there are none.
    :param identity: path, size and modification time of each file, or table and snapshot.
    """

    keys: DataFrame | None
    identity: str


def list_keys(spark: SparkSession, spec: DeleteRowsSpec, source: Source, target: StructType) -> ListedKeys:
    """Read the keys.

    :raises BadInputError: a column is missing, or a key is NULL or does not fit its column.
    :raises MissingTableError: the table of keys does not exist.
    """
    try:
        rows, identity = _read(spark, spec, source)
        return ListedKeys(keys=None if rows is None else _checked(spec, rows, target), identity=identity)
    except PySparkException as error:
        raise BadInputError(
            f"{spec.table}: the keys cannot be read: {type(error).__name__}; the message is withheld, it may name keys"
        ) from None


def _read(spark: SparkSession, spec: DeleteRowsSpec, source: Source) -> tuple[DataFrame | None, str]:
    if source.table is not None:
        table = keyed_table(spark, spec, TableName.parse(source.table))
        if not table.exists():
            raise MissingTableError(f"{source.table}: the table of keys does not exist")
        head = table.state().snapshot
        rows, identity = table.rows(head), f"{source.table}@{head}"
    else:
        files = list_input_files(spark, source.path or "")
        reader = spark.read.format(str(source.format)).options(**source.options)
        reader = reader.schema(source.schema) if source.schema else reader
        rows = reader.load([file.path for file in files]) if files else None
        identity = "\x1f".join(file.identity for file in files)
    if rows is not None and source.query:
        rows.createOrReplaceTempView("source")
        rows = spark.sql(source.query)
    return rows, identity


def _checked(spec: DeleteRowsSpec, rows: DataFrame, target: StructType) -> DataFrame | None:
    types = {field.name: field.dataType for field in target}
    missing = [name for name in spec.keys if name not in types or name not in rows.columns]
    if missing:
        raise BadInputError(f"{spec.table}: key columns {missing} are not in both the table and the keys")
    fitted = rows.select(
        *(quoted(name).try_cast(types[name]).alias(name) for name in spec.keys),
        *(quoted(name).isNull().alias(f"_lake_null_{place}") for place, name in enumerate(spec.keys)),
    ).localCheckpoint()
    nulls = [sf.count_if(sf.col(f"_lake_null_{place}")) for place in range(len(spec.keys))]
    lost = [sf.count_if(quoted(name).isNull()) for name in spec.keys]
    counts = fitted.agg(sf.count("*"), *nulls, *lost).head() or ()
    if not counts or counts[0] == 0:
        return None
    for place, name in enumerate(spec.keys):
        of_null, of_lost = counts[1 + place], counts[1 + len(spec.keys) + place]
        if of_lost:
            raise BadInputError(
                f"{spec.table}: key column {name} is NULL in {of_null} rows and does not fit "
                f"{types[name].simpleString()} in {of_lost - of_null}"
            )
    return fitted.select(*(quoted(name) for name in spec.keys))
