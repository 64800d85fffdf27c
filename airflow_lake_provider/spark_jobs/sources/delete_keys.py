"""The keys of rows to delete, from files or a table; no value of them may get into a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_lake_provider.contracts.author.reader_options import TEXT_FORMATS
from airflow_lake_provider.contracts.author.sources import Files, Source
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import remedy_for_headers
from airflow_lake_provider.spark_jobs.failures import is_unreachable
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sources.arrival_order import describe_first
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files, refuse_table_folders
from airflow_lake_provider.spark_jobs.sources.lake_table import pinned_snapshot, read_table
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sources.text_values import BEGINS_WITH_DAY, LETTERS_FOR_ZONE, WITHOUT_ZONE
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable
from airflow_lake_provider.spark_jobs.sql.identifiers import columns_text, quoted
from airflow_lake_provider.spark_jobs.sql.nested_types import is_number_as_time
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

# They are then in the driver, and in each executor: a table of keys may have any number.
_MOST_BROADCAST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ListedKeys:
    """Keys, and the identity of where they come from.

    :param keys: the key columns in the types of the table, few ones as a broadcast; None when there are none.
    :param identity: path, size and modification time of each file, or table and snapshot.
    """

    keys: DataFrame | None
    identity: str


def list_keys(spark: SparkSession, spec: DeleteRowsSpec, source: Source, target: StructType) -> ListedKeys:
    """Read the keys.

    :raises BadInputError: a column is missing, records cannot be read, or a key is NULL or does not fit its column.
    :raises MissingTableError: the table of keys does not exist.
    """
    names = _spelled(spec, target)
    table = next(iter(source.lake_tables.values()), None)
    head = pinned_snapshot(spark, spec, table, "the table of keys") if table is not None else None
    files = list_input_files(spark, source.files.path) if source.files else ()
    refuse_table_folders(spark, source.files.format if source.files else None, files)
    identity = "\x1f".join(file.identity for file in files)
    if table is not None:
        chosen = f" where {table.where}" if table.where else ""
        identity = f"{table.table}@{head}{chosen}"
    elif not files:
        return ListedKeys(keys=None, identity=identity)
    with _withholding(spark, spec, files, source):
        batch = _read(spark, spec, source, files, names, head)
        return ListedKeys(keys=_of_batch(spec, batch, names), identity=identity)


def _spelled(spec: DeleteRowsSpec, target: StructType) -> dict[str, DataType]:
    """Return the key columns as the table spells them, with their types; names are compared without case."""
    fields = {field.name.lower(): field for field in target}
    missing = [name for name in spec.keys if name.lower() not in fields]
    if missing:
        raise BadInputError(f"{spec.table}: the table has no key columns {missing}; it has {target.names}")
    return {fields[name.lower()].name: fields[name.lower()].dataType for name in spec.keys}


@contextmanager
def _withholding(
    spark: SparkSession, spec: DeleteRowsSpec, files: tuple[InputFile, ...], source: Source
) -> Iterator[None]:
    """Keep values out of errors, and tell those that a retry may mend."""
    kind, options = (source.files.format, source.files.options) if source.files else (None, None)
    try:
        with refusing_unreadable(spark, files, kind, options, is_secret=True):
            try:
                yield
            # PySpark leaves a failed task untranslated.
            except SPARK_ERRORS as error:
                planned = isinstance(error, (AnalysisException, ParseException, IllegalArgumentException))
                planned = planned and not is_unreachable(error)
                if (planned and "PATH_NOT_FOUND" not in str(error)) or "CSV header" in str(error):
                    raise _withheld(spec, error) from None
                raise
    except SPARK_ERRORS as error:
        raise JobFailedError(
            f"{spec.table}: reading the keys failed with {type(error).__name__}; the message is withheld, it may name "
            "keys"
        ) from None


def _withheld(spec: DeleteRowsSpec, error: Exception) -> BadInputError:
    return BadInputError(
        f"{spec.table}: the keys cannot be read: {type(error).__name__}; the message is withheld, it may name keys. "
        "See whether format and options of keys_from fit the files; the header of CSV has to be the same in all files, "
        "and to name the columns of its schema, in any order"
    )


def _read(
    spark: SparkSession,
    spec: DeleteRowsSpec,
    source: Source,
    files: tuple[InputFile, ...],
    names: dict[str, DataType],
    head: str | None,
) -> RawBatch:
    """Return the rows as an upsert reads them."""
    # As text where no type is declared: a guess could change a key, 007 for one.
    # But JSON has bytes in base64, and a cast of text takes more words for true than the readers do.
    kept = (BinaryType, BooleanType)
    types = StructType(
        [StructField(name, kind if isinstance(kind, kept) else StringType()) for name, kind in names.items()]
    )
    try:
        if isinstance(source, Files):
            return read_files(spark, _with_texts(source, names), files, types)
        return read_table(spark, spec, next(iter(source.lake_tables.values())), head)
    except BadInputError as error:
        if source.files is None or source.files.format not in TEXT_FORMATS:
            raise
        # It quotes the header, which may be a key.
        raise _withheld(spec, error) from None


def _with_texts(source: Files, names: dict[str, DataType]) -> Files:
    """Leave as text what the readers of CSV and JSON would change: they round decimals and cut times off dates."""
    if source.format not in TEXT_FORMATS:
        return source
    options = {"inferSchema": "false", **source.options} if source.format != "json" else source.options
    if not source.schema:
        return replace(source, options=options)
    has_format = "dateformat" in by_lower_name(source.options)
    changed = (DecimalType,) if has_format else (DecimalType, DateType)
    declared, lower = parse_ddl(source.schema), {name.lower() for name in names}
    for field in declared:
        if field.name.lower() in lower and isinstance(field.dataType, changed):
            field.dataType = StringType()
    return replace(source, options=options, schema=columns_text(declared))


def _of_batch(spec: DeleteRowsSpec, batch: RawBatch, names: dict[str, DataType]) -> DataFrame | None:
    if not batch.may_be_unparsable:
        return _checked(spec, batch.rows, names)
    try:
        _refuse_unparsable(spec, batch)
        return _checked(spec, batch.rows, names)
    finally:
        batch.rows.unpersist()


def _refuse_unparsable(spec: DeleteRowsSpec, batch: RawBatch) -> None:
    is_unparsable = sf.col(UNPARSABLE).isNotNull()
    if batch.rows.filter(is_unparsable).count():
        raise BadInputError(
            f"{spec.table}: records of the keys cannot be read as format, options and schema of keys_from say: "
            f"{describe_first(batch.rows, is_unparsable, batch.files)}"
        )
    batch.refuse_undecodable()


def _checked(spec: DeleteRowsSpec, rows: DataFrame, types: dict[str, DataType]) -> DataFrame | None:
    given = {field.name.lower(): field for field in rows.schema}
    missing = [name for name in types if name.lower() not in given]
    if missing:
        raise BadInputError(
            # Without the names of the keys' columns: a key may have been taken for a header.
            f"{spec.table}: key columns {missing} are not in both the table and the keys"
            f"{remedy_for_headers(rows.columns)}"
        )
    fields = {name: given[name.lower()] for name in types}
    fitted = rows.select(
        *(lossless_cast(quoted(f.name), f.dataType, types[name]).alias(name) for name, f in fields.items()),
        *(quoted(f.name).isNull().alias(f"_lake_null_{place}") for place, f in enumerate(fields.values())),
    ).localCheckpoint()
    nulls = [sf.count_if(sf.col(f"_lake_null_{place}")) for place in range(len(types))]
    lost = [sf.count_if(quoted(name).isNull()) for name in types]
    counts = fitted.agg(sf.count("*"), *nulls, *lost).head() or ()
    if not counts or counts[0] == 0:
        return None
    for place, name in enumerate(types):
        of_null, of_lost = counts[1 + place], counts[1 + len(types) + place]
        if of_lost:
            raise BadInputError(
                f"{spec.table}: key column {name} is NULL in {of_null} rows and does not fit "
                f"{types[name].simpleString()} in {of_lost - of_null}"
            )
    keys = fitted.select(*(quoted(name) for name in types))
    return sf.broadcast(keys) if counts[0] <= _MOST_BROADCAST else keys


# Above, a float stands for more than one integer: 2^24 and 2^53 are the widths of the two significands (IEEE 754).
_EXACT_BELOW: dict[DataType, int] = {FloatType(): 2**24, DoubleType(): 2**53}
_WIDE = DecimalType(38, 18)


def lossless_cast(value: Column, given: DataType, wanted: DataType) -> Column:
    """Return the value as ``wanted``; NULL where there is no such value, or only another one near it.

    :param given: type of ``value``.
    """
    if given == wanted:
        return value
    if is_number_as_time(given, wanted):
        return sf.lit(None).cast(wanted)
    fitted = try_cast(value, wanted)
    is_same = _is_same_text(value, fitted, wanted) if isinstance(given, StringType) else _is_same(value, fitted, given)
    if given in _EXACT_BELOW and isinstance(wanted, (IntegralType, DecimalType)):
        is_same = is_same & (sf.abs(value) < _EXACT_BELOW[given])
    return sf.when(is_same, fitted)


def _is_same(value: Column, fitted: Column, given: DataType) -> Column:
    return try_cast(fitted, given).eqNullSafe(value)


def _is_same_text(text: Column, fitted: Column, wanted: DataType) -> Column:
    """Tell whether a value is what its text says, in any of the forms that a value has as text."""
    match wanted:
        case DecimalType():
            # What was taken is not given back: with \s* in place of \s*+ a long run of blanks takes hours.
            return text.rlike(rf"^\s*+[+-]?+\d*+(\.\d{{0,{wanted.scale}}}+0*+)?+\s*+$")
        case FloatType() | DoubleType():
            # By their shortest text: 0.1 is 0.1, though no float is.
            is_near = try_cast(fitted.cast("string"), _WIDE).eqNullSafe(try_cast(text, _WIDE))
            # Of a number that is too great or too small a cast makes infinity or zero.
            is_finite = (sf.abs(fitted) != float("inf")) | text.rlike(r"(?i)^\s*+[+-]?+inf")
            return is_near & is_finite & ((fitted != 0) | ~text.rlike(r"^[^eE]*[1-9]"))
        case DateType():
            return fitted.cast("string") == sf.trim(text)
        case TimestampType() | TimestampNTZType():
            # Spark takes a time of day for one of today, and drops a zone.
            has_day = text.rlike(BEGINS_WITH_DAY if isinstance(wanted, TimestampType) else WITHOUT_ZONE)
            return has_day & ~text.rlike(r"\.\d{6}\d*[1-9]") & ~text.rlike(LETTERS_FOR_ZONE)
    # The others are parsed as a whole or not at all.
    return sf.lit(True)
