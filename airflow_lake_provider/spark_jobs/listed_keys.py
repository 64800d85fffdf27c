"""The keys of rows to delete, from files or a table; no value of them may get into a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, DecimalType, StringType, StructField, StructType

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.contracts.source_position import InputFile
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.formats.choose import keyed_table
from airflow_lake_provider.spark_jobs.latest_changes import quoted
from airflow_lake_provider.spark_jobs.lossless_cast import lossless_cast
from airflow_lake_provider.spark_jobs.sources.arrival import describe_first
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_batch import RawBatch, read_batch
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl


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

    :raises BadInputError: a column is missing, records cannot be read, or a key is NULL or does not fit its column.
    :raises MissingTableError: the table of keys does not exist.
    """
    try:
        batch, identity = _read(spark, spec, source)
        return ListedKeys(keys=None if batch is None else _of_batch(spec, batch, target), identity=identity)
    # PySpark leaves a failed task untranslated.
    except (PySparkException, Py4JJavaError) as error:
        raise _withheld(spec, error) from None


def _withheld(spec: DeleteRowsSpec, error: Exception) -> BadInputError:
    return BadInputError(
        f"{spec.table}: the keys cannot be read: {type(error).__name__}; the message is withheld, it may name keys. "
        "See whether keys_format and keys_options fit the files; the header of CSV has to be the same in all files, "
        "and to name the columns of keys_schema, in any order"
    )


def _read(spark: SparkSession, spec: DeleteRowsSpec, source: Source) -> tuple[RawBatch | None, str]:
    """Return the rows as an upsert reads them, None for no files, and the identity of where they come from."""
    files: tuple[InputFile, ...] = ()
    if source.table is not None:
        head = _head(spark, spec, source.table)
        identity = f"{source.table}@{head}"
    else:
        head, files = None, list_input_files(spark, source.path or "")
        identity = "\x1f".join(file.identity for file in files)
        if not files:
            return None, identity
    # As text where no type is declared: a guess could change a key, 007 for one.
    texts = StructType([StructField(name, StringType()) for name in spec.keys])
    try:
        return read_batch(spark, _with_texts(source, spec.keys), files, texts, head), identity
    except BadInputError as error:
        # It quotes the header, which may be a key.
        raise _withheld(spec, error) from None


def _with_texts(source: Source, keys: Sequence[str]) -> Source:
    """Leave as text what the readers of CSV and JSON would change: they round decimals and cut times off dates."""
    if source.format not in ("csv", "json"):
        return source
    options = {"inferSchema": "false", **source.options}
    if not source.schema:
        return replace(source, options=options)
    changed = (DecimalType,) if "dateFormat" in source.options else (DecimalType, DateType)
    declared = parse_ddl(source.schema)
    for field in declared:
        if field.name in keys and isinstance(field.dataType, changed):
            field.dataType = StringType()
    return replace(source, options=options, schema=declared.toDDL())


def _head(spark: SparkSession, spec: DeleteRowsSpec, name: str) -> str | None:
    table = keyed_table(spark, spec, TableName.parse(name))
    if not table.exists():
        raise MissingTableError(f"{name}: the table of keys does not exist")
    return table.state().snapshot


def _of_batch(spec: DeleteRowsSpec, batch: RawBatch, target: StructType) -> DataFrame | None:
    if not batch.may_be_unparsable:
        return _checked(spec, batch.rows, target)
    try:
        _refuse_unparsable(spec, batch)
        return _checked(spec, batch.rows, target)
    finally:
        batch.rows.unpersist()


def _refuse_unparsable(spec: DeleteRowsSpec, batch: RawBatch) -> None:
    wrong = sf.col(UNPARSABLE).isNotNull()
    if batch.rows.filter(wrong).count():
        raise BadInputError(
            f"{spec.table}: records of the keys cannot be read as keys_format, keys_options and keys_schema say: "
            f"{describe_first(batch.rows, wrong, batch.files)}"
        )


def _checked(spec: DeleteRowsSpec, rows: DataFrame, target: StructType) -> DataFrame | None:
    types = {field.name: field.dataType for field in target}
    missing = [name for name in spec.keys if name not in types or name not in rows.columns]
    if missing:
        raise BadInputError(f"{spec.table}: key columns {missing} are not in both the table and the keys")
    fitted = rows.select(
        *(lossless_cast(quoted(name), rows.schema[name].dataType, types[name]).alias(name) for name in spec.keys),
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
