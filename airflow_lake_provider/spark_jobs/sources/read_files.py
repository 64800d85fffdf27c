"""Rows of exactly these files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import DataType, IntegerType, NullType, StructField, StructType

from airflow_lake_provider.contracts.author.reader_options import TEXT_FORMATS
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, digest_of, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.avro_columns import merged_columns
from airflow_lake_provider.spark_jobs.sources.batch_columns import (
    refuse_absent_columns,
    refuse_lossy_types,
    refuse_unfit_columns,
    widens,
)
from airflow_lake_provider.spark_jobs.sources.orc_calendar import calendar_options, refuse_other_zone
from airflow_lake_provider.spark_jobs.sources.parquet_nanoseconds import (
    FileGroup,
    file_groups,
    read_as_numbers,
    refuse_as_before,
)
from airflow_lake_provider.spark_jobs.sources.partition_columns import columns_of_files, partition_columns
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_text import read_text
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sources.unread_types import refuse_unread_types, schema_of_footers
from airflow_lake_provider.spark_jobs.sources.unreadable_files import first_failing, is_content_error, reason_of
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import field_twins

# Of many files the footers are read by Spark's tasks alone.
_MOST_OPENED = 64
# Spark advises to cut it at a depth, by which values would be lost.
_RECURSIVE = "recursive reference in Avro schema"
_BY_CASE = "spark.sql.caseSensitive"
# Of the columns of several files. Spark takes a file alone for old Hive's where all its names begin so.
_BY_PLACE = re.compile(r"_col\d+")
# pandas writes times without a zone, which is UTC in our sessions, and old writers text without saying so.
_SAME_IN_PARQUET = (("timestamp_ntz", "timestamp"), ("date", "timestamp_ntz"), ("binary", "string"))
# With the files that have them.
_Columns = tuple[StructType, Sequence[InputFile]]


def read_files(
    spark: SparkSession,
    source: Files,
    files: tuple[InputFile, ...],
    table_schema: StructType | None,
    *,
    keeps_absent: bool = False,
    keeps_lines: bool = False,
    keeps_rows: bool = True,
) -> RawBatch:
    """Read files lazily, but for what finding out the schema of JSON and CSV takes.

    JSON and CSV take their types from the source's schema, else from the table for the columns it has, else from the
    values. Names of folders (``day=2025-01-01``) are not columns, unless ``partition_columns`` names them.

    :param files: the files to read, and no others.
    :param table_schema: of the table the batch goes to; None when it does not exist yet.
    :param keeps_absent: a nested field that no JSON record has keeps its value in the table, so it is no field of the
        batch. Else it is NULL.
    :param keeps_lines: keep the line of each record of JSON and CSV in ``_lake_record``, and the times of Parquet that
        no table holds in ``_lake_texts_of_times``.
    :param keeps_rows: cache records that may be unparsable, as they are looked at more than once.
    :raises BadInputError: records that cannot be read.
    :raises UnsupportedError: avro without its package, XML before Spark 4.
    """
    if not files:
        raise BadInputError(f"no files of {source.path!r} were given; an empty batch is not read")
    source.refuse_spark(spark.version)
    folders = partition_columns(spark, source, files, table_schema)
    refuse_unfit_columns(folders.columns.names, "partition_columns")
    if source.schema and folders.texts:
        source = replace(source, schema=columns_of_files(source.schema, folders.columns.names))
    if source.format in TEXT_FORMATS:
        raw = read_text(spark, source, files, table_schema, keeps_absent, folders, keeps_lines=keeps_lines)
        return _kept(raw) if keeps_rows else raw
    refuse_as_before(spark)
    scans, has_groups = _columnar_scans(spark, source, files, folders.others(table_schema), keeps_texts=keeps_lines)
    if folders.texts:
        # Of a declared schema, the columns of the files may be others.
        read = [_loaded(_reader(spark, source), source, files)] if source.schema else [scan.rows for scan in scans]
        names = dict.fromkeys(name for rows in read for name in rows.columns)
        folders.refuse_in(list(names), f"{source.format} files of {source.path!r}")
    arrived = folders.typed(with_arrival(spark, files, *scans, texts=folders.texts))
    if has_groups:
        raw = RawBatch(rows=arrived, files=files, has_arrival=True, may_be_unparsable=True)
        return _kept(raw) if keeps_rows else raw
    return RawBatch(rows=arrived, in_any_order=None if folders.texts else scans[0].rows, files=files, has_arrival=True)


def _kept(raw: RawBatch) -> RawBatch:
    return replace(raw, rows=raw.rows.persist())


def _columnar_scans(
    spark: SparkSession, source: Files, files: tuple[InputFile, ...], types: StructType | None, *, keeps_texts: bool
) -> tuple[list[Scan], bool]:
    """Return one scan of all files, or one of each group of those that have other columns or types, and whether so."""
    has_footers = source.format == "parquet" and not source.schema
    groups: list[FileGroup] = []
    try:
        scans = [Scan(rows=_columnar_rows(spark, source, files, types))]
        if has_footers and _may_be_untyped(scans[0].rows.schema, files, types):
            groups = file_groups(spark, files)
    except BadInputError:
        groups = file_groups(spark, files) if has_footers else []
        if not groups:
            raise
    if groups:
        scans = _parquet_scans(spark, source, groups, types, keeps_texts=keeps_texts)
    return scans, bool(groups)


def _parquet_scans(
    spark: SparkSession,
    source: Files,
    groups: Sequence[FileGroup],
    table_schema: StructType | None,
    *,
    keeps_texts: bool,
) -> list[Scan]:
    """Return a scan of each group, with times in the place of nanoseconds and without columns that have no type.

    :raises BadInputError: groups have a column in types of which none holds the values of the other.
    """
    read_as_numbers(spark)
    parts = [_columnar_rows(spark, source, group.files, table_schema) for group in groups]
    columns = [group.columns(rows.columns, keeps_texts=keeps_texts) for group, rows in zip(groups, parts, strict=True)]
    made = [rows.selectExpr(*exprs).schema for rows, exprs in zip(parts, columns, strict=True)]
    types: dict[str, DataType] = {}
    for field in chain.from_iterable(made):
        other = types.setdefault(field.name.lower(), field.dataType)
        if not widens(field.dataType, other) and not widens(other, field.dataType):
            raise BadInputError(
                f"parquet files of {source.path!r} do not go together: {field.name} is {other.simpleString()} and "
                f"{field.dataType.simpleString()}; give each kind of file a source of its own"
            )
    untyped = {name for group in groups for name in group.untyped} - types.keys()
    nulls = [
        f"CAST(NULL AS {type_text(field.dataType)}) AS {quoted_name(field.name)}"
        for field in table_schema or ()
        if field.name.lower() in untyped
    ]
    return [
        Scan(rows=rows, columns=[sf.expr(text) for text in (*exprs, *nulls)])
        for rows, exprs in zip(parts, columns, strict=True)
    ]


def _may_be_untyped(columns: StructType, files: Sequence[InputFile], table_schema: StructType | None) -> bool:
    """Return whether a column may have no type, of which Spark makes an INT; one that the table has is one."""
    types = {field.name.lower(): field.dataType for field in table_schema or ()}
    return len(files) <= _MOST_OPENED and any(
        isinstance(field.dataType, (IntegerType, NullType)) and types.get(field.name.lower()) != field.dataType
        for field in columns
    )


def _reader(spark: SparkSession, source: Files) -> DataFrameReader:
    # Without it Spark takes the columns of one file, and drops those that only the others have.
    options = {"mergeSchema": "true"} if source.format in ("parquet", "orc") else {}
    return spark.read.format(str(source.format)).options(**{**options, **source.options})


def _columnar_rows(
    spark: SparkSession, source: Files, files: tuple[InputFile, ...], table_schema: StructType | None
) -> DataFrame:
    """Return the rows of files that have a schema."""
    reader = _reader(spark, source)
    declared = parse_ddl(source.schema) if source.schema else _schema_without_rows(source, files, table_schema)
    if declared is not None:
        refuse_unfit_columns(declared.names, "the schema of the source")
        if source.schema:
            _refuse_unfit_schema(spark, source, files, declared)
        reader = reader.schema(declared)
    elif source.format == "parquet" and not source.options:
        shared = schema_of_footers(spark, files)
        reader = reader.schema(shared) if shared is not None else reader
    elif source.format == "avro":
        reader = reader.schema(_avro_columns(spark, source, files))
    rows = _loaded(reader, source, files)
    if source.format == "orc":
        refuse_other_zone(spark, rows.schema, f"orc files of {source.path!r}")
        if calendar := calendar_options(spark, files, rows.schema):
            rows = _loaded(reader.schema(rows.schema).options(**calendar), source, files)
    refuse_unfit_columns(rows.columns, f"{source.format} files of {source.path!r}")
    return rows


def _refuse_unfit_schema(spark: SparkSession, source: Files, files: Sequence[InputFile], declared: StructType) -> None:
    """Refuse a schema with a narrower type than a file has, or a column or a nested field that no file has.

    Spark's readers give another number for the one, and NULL for the other, without a word.
    """
    what, read = f"{source.format} files of {source.path!r}", [file for file in files if file.size]
    seen: list[StructType] = []
    also = _SAME_IN_PARQUET if source.format == "parquet" else ()
    for columns, some in _schemas(spark, source, read):
        for stored in _by_place_and_by_name(columns, declared, len(some)) if source.format == "orc" else (columns,):
            refuse_lossy_types(stored, declared, some[0].path if len(some) == 1 else what, also)
            seen.append(stored)
    if read:
        refuse_absent_columns(seen, declared, what)


def _by_place_and_by_name(columns: StructType, declared: StructType, files: int) -> Iterator[StructType]:
    """Yield the columns of old Hive, of which Spark goes by the place, and those of files that have names.

    :param files: of which the columns were merged. Of several, nothing says which file has one.
    """
    by_place = all(field.name.startswith("_col") for field in columns)
    names = {name.lower() for name in declared.names} if files > 1 else None
    placed = [
        field
        for field in columns
        if by_place or (names is not None and _BY_PLACE.fullmatch(field.name) and field.name.lower() not in names)
    ]
    pairs = zip(placed, declared, strict=False)
    yield StructType([StructField(want.name, have.dataType) for have, want in pairs])
    yield StructType([field for field in columns if field not in placed])


def _schema_without_rows(
    source: Files, files: Sequence[InputFile], table_schema: StructType | None
) -> StructType | None:
    """Return a schema for files that have none: Hive writes an ORC file of 0 bytes for an empty bucket."""
    if source.format != "orc" or any(file.size for file in files):
        return None
    if table_schema is None:
        raise BadInputError(
            f"all orc files of {source.path!r} have 0 bytes, so nothing says their columns; give the source a schema"
        )
    return table_schema


def _schemas(spark: SparkSession, source: Files, files: Sequence[InputFile]) -> Iterator[_Columns]:
    """Yield the columns of files, of as many together as can be merged."""
    if not files:
        return
    if source.format == "avro":
        yield _avro_columns(spark, source, files), files
        return
    shared = schema_of_footers(spark, files) if source.format == "parquet" and not source.options else None
    if shared is not None:
        yield shared, files
        return
    yield from _merged_by_spark(_reader(spark, source), source, files)


def _merged_by_spark(reader: DataFrameReader, source: Files, files: Sequence[InputFile]) -> Iterator[_Columns]:
    if len(files) <= 1:
        yield from ((_loaded(reader, source, [file]).schema, [file]) for file in files)
        return
    try:
        merged = [(reader.load(literal_paths(files)).schema, files)]
    except SPARK_ERRORS as error:
        if not is_content_error(error):
            raise
        merged = []
    yield from merged
    if not merged:
        middle = len(files) // 2
        yield from _merged_by_spark(reader, source, files[:middle])
        yield from _merged_by_spark(reader, source, files[middle:])


def _avro_columns(spark: SparkSession, source: Files, files: Sequence[InputFile]) -> StructType:
    return merged_columns(
        spark, files, source.options, lambda file: _loaded(_reader(spark, source), source, [file]).schema
    )


def _avro_package() -> str:
    spark = SparkSession.active()
    jvm = jvm_of(spark)
    scala = str(jvm.scala.util.Properties.versionNumberString()).rpartition(".")[0]
    return f"org.apache.spark:spark-avro_{scala}:{spark.version}"


def _loaded(reader: DataFrameReader, source: Files, files: Sequence[InputFile]) -> DataFrame:
    try:
        # An option that nobody reads: see digest_of.
        return reader.option("lake.listing", digest_of(files)).load(literal_paths(files))
    except SPARK_ERRORS as error:
        if source.format == "avro" and "Failed to find data source" in str(error):
            raise UnsupportedError(
                f'reading avro takes a package of its own: add packages="{_avro_package()}"'
            ) from error
        if not is_content_error(error):
            raise
        failing = first_failing(files, lambda some: _fails(reader, some))
        if "COLUMN_ALREADY_EXISTS" in str(error):
            raise _twins_refused(reader, files, failing) from error
        refuse_unread_types(SparkSession.active(), failing, str(source.format), error)
        if _RECURSIVE in str(error):
            raise BadInputError(
                f"{failing.path} has a record of avro inside of itself, of which no table has a column; give the "
                "source a schema of Avro without that field, options={'avroSchema': '{...}'}"
            ) from error
        raise BadInputError(
            f"{failing.path} cannot be read as {source.format}, by itself or together with the files before it "
            f"({reason_of(error)}): repair the file, remove it from the source, or say in the source's schema how "
            "it is to be read"
        ) from error


def _twins_refused(reader: DataFrameReader, files: Sequence[InputFile], failing: InputFile) -> BadInputError:
    """Return the error of fields whose names differ in case alone, inside of one file or among several.

    :param failing: with which the files begin to have them.
    """
    settings, here = SparkSession.active().conf, list(files[: files.index(failing) + 1])
    is_alone, as_set = _fails(reader, [failing]), str(settings.get(_BY_CASE))
    settings.set(_BY_CASE, "true")
    try:
        columns = reader.load(literal_paths([failing] if is_alone else here)).schema
    finally:
        settings.set(_BY_CASE, as_set)
    twins = "; ".join(" and ".join(sorted(names)) for names in field_twins(columns))
    if is_alone:
        return BadInputError(
            f"{failing.path} has fields whose names differ in case alone ({twins}), and no table tells them apart; "
            "give each a name of its own there"
        )
    return BadInputError(
        f"{failing.path} and a file before it spell fields in another case ({twins}), and names are compared without "
        "case. Write them alike, or name them in the source's schema, which reads both"
    )


def _fails(reader: DataFrameReader, files: Sequence[InputFile]) -> bool:
    try:
        reader.load(literal_paths(files))
    except SPARK_ERRORS:
        return True
    return False
