"""Rows of exactly these files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, describe_first, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_lossy_types, refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.faulty_lines import CHANGED_VALUE, FAULTS, encoding_of, faulty_lines
from airflow_lake_provider.spark_jobs.sources.orc_calendar import calendar_options
from airflow_lake_provider.spark_jobs.sources.text_schema import (
    MOST_LEVELS,
    csv_schema,
    declared_types,
    json_schema,
    parse_ddl,
)
from airflow_lake_provider.spark_jobs.sources.text_values import (
    converted,
    in_range,
    is_lost,
    may_be_lost,
    read_as,
    rounds_integer,
)
from airflow_lake_provider.spark_jobs.sources.unread_types import refuse_unread_types, schema_of_footers
from airflow_lake_provider.spark_jobs.sources.unreadable_files import first_failing, is_content_error, reason_of
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.older_pyspark import is_utf8

# As RFC 4180 says, and Excel, pandas and PostgreSQL write: a quote in a quoted value is doubled, any other is an error.
_QUOTES = {"unescapedQuoteHandling": "RAISE_ERROR"}
# What Spark puts in the place of nothing at all; the empty text in quotes then stays one.
_NO_TEXT = "\x00NULL\x00"
# Before the column whose value it is.
_IN_COLUMN = ", in "
_SHOWN = 5
_LONGEST = 100 + len(CHANGED_VALUE)
# The bound of the parser of JSON, which ends a text that was packed a thousandfold, too.
_ABOUT_TEXTS = "; a text of JSON has at most 20,000,000 characters, so write longer ones as Parquet"
_ABOUT_LEVELS = f"; without a schema a record has at most {MOST_LEVELS} levels: declare a column of more as STRING"
_TIMES = (DateType, TimestampType, TimestampNTZType)


@dataclass(frozen=True, kw_only=True)
class RawBatch:
    """Rows as they were read, nothing reduced.

    :param rows: the columns of the batch, and ``_lake_arrival`` when ``has_arrival``. When ``may_be_unparsable`` they
        are cached, and ``_lake_unparsable`` is the text of a record that its schema does not fit, else NULL.
    :param reads_more: whether a query reads more than the source: the target, for all that is known.
    :param lines: text of the files, where the reader puts a mark in the place of bytes that are no UTF-8; else None.
    :param hint: what else may be wrong with a record that cannot be read.
    """

    rows: DataFrame
    files: tuple[InputFile, ...] = ()
    has_arrival: bool = False
    may_be_unparsable: bool = False
    reads_more: bool = False
    lines: DataFrame | None = None
    hint: str = ""

    def refuse_unparsable(self, count: int) -> None:
        """Refuse records that cannot be read as their schema says.

        :param count: how many ``rows`` have ``_lake_unparsable``.
        :raises BadInputError: above 0; it names the file and the first such record.
        """
        if count:
            place = describe_first(self.rows, sf.col(UNPARSABLE).isNotNull(), self.files)
            fault = sf.split_part(UNPARSABLE, sf.lit(_IN_COLUMN), sf.lit(1)).alias("fault")
            flagged = self.rows.filter(sf.col(UNPARSABLE).isNotNull()).select(fault, UNPARSABLE)
            rows = flagged.filter(sf.col("fault").isin(*FAULTS)).distinct().orderBy(UNPARSABLE).limit(_SHOWN).collect()
            faults = "".join(f"; {text}: {FAULTS[fault]}" for fault, text in rows)
            hints = f"{_about_numbers(self.rows)}{self.hint}{faults}"
            raise BadInputError(
                f"{count} records cannot be read as {_columns(self.rows)}: {place}. Repair the file, or give "
                f"schema and options of the source (encoding, formats) that fit it{hints}"
            )
        self.refuse_undecodable()

    def refuse_undecodable(self) -> None:
        """Refuse bytes that are no text, of which the reader has made the replacement character.

        :raises BadInputError: naming the file.
        """
        texts = [field.name for field in self.rows.schema if isinstance(field.dataType, StringType)]
        flagged = [quoted(name).contains("\ufffd") for name in texts if name != UNPARSABLE]
        # Only where there is such a character, which the source may have itself, is the text read once more.
        if self.lines is None or not flagged or self.rows.filter(reduce(or_, flagged)).isEmpty():
            return
        row = self.lines.filter(~is_utf8("value")).groupBy("file").count().orderBy("file").head()
        if row is not None:
            raise BadInputError(
                f"{row['count']} lines of {row['file']} are no UTF-8 text; say what they are with "
                "options={'encoding': 'ISO-8859-1'}, for example"
            )


def read_files(
    spark: SparkSession,
    source: Files,
    files: tuple[InputFile, ...],
    table_schema: StructType | None,
    *,
    keeps_absent: bool = False,
) -> RawBatch:
    """Read files lazily, but for what finding out the schema of JSON and CSV takes.

    JSON and CSV take their types from the source's schema, else from the table for the columns it has, else from the
    values. Names of folders (``day=2025-01-01``) are not columns, unless the option ``basePath`` says so.

    :param files: the files to read, and no others.
    :param table_schema: of the table the batch goes to; None when it does not exist yet.
    :param keeps_absent: a nested field that no JSON record has keeps its value in the table, so it is no field of the
        batch. Else it is NULL.
    :raises BadInputError: records that cannot be read.
    :raises UnsupportedError: avro without its package.
    """
    if not files:
        raise BadInputError(f"no files of {source.path!r} were given; an empty batch is not read")
    if source.format in ("json", "csv"):
        return _read_text(spark, source, files, table_schema, keeps_absent)
    # Without it Spark takes the columns of one file, and drops those that only the others have.
    options = {"mergeSchema": "true"} if source.format in ("parquet", "orc") else {}
    reader = spark.read.format(str(source.format)).options(**{**options, **source.options})
    declared = parse_ddl(source.schema) if source.schema else _schema_without_rows(source, files, table_schema)
    if declared is not None:
        refuse_unfit_columns(declared.names, "the schema of the source")
        if source.format == "orc":
            for file_schema in _schemas(reader, source, [file for file in files if file.size]):
                refuse_lossy_types(file_schema, declared, f"orc files of {source.path!r}")
        reader = reader.schema(declared)
    elif source.format == "parquet" and not source.options:
        shared = schema_of_footers(spark, files)
        reader = reader.schema(shared) if shared is not None else reader
    rows = _loaded(reader, source, files)
    if source.format == "orc" and (calendar := calendar_options(spark, files, rows.schema)):
        rows = _loaded(reader.schema(rows.schema).options(**calendar), source, files)
    refuse_unfit_columns(rows.columns, f"{source.format} files of {source.path!r}")
    return RawBatch(rows=with_arrival(spark, files, Scan(rows=rows)), files=files, has_arrival=True)


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


def _schemas(reader: DataFrameReader, source: Files, files: Sequence[InputFile]) -> Iterator[StructType]:
    """Yield the schemas of files, of as many together as Spark can merge."""
    if len(files) <= 1:
        yield from (_loaded(reader, source, [file]).schema for file in files)
        return
    try:
        merged = [reader.load(literal_paths(files)).schema]
    except SPARK_ERRORS as error:
        if not is_content_error(error):
            raise
        merged = []
    yield from merged
    if not merged:
        middle = len(files) // 2
        yield from _schemas(reader, source, files[:middle])
        yield from _schemas(reader, source, files[middle:])


def _avro_package() -> str:
    spark = SparkSession.active()
    jvm = jvm_of(spark)
    scala = str(jvm.scala.util.Properties.versionNumberString()).rpartition(".")[0]
    return f"org.apache.spark:spark-avro_{scala}:{spark.version}"


def _loaded(reader: DataFrameReader, source: Files, files: Sequence[InputFile]) -> DataFrame:
    try:
        return reader.load(literal_paths(files))
    except SPARK_ERRORS as error:
        if source.format == "avro" and "Failed to find data source" in str(error):
            raise UnsupportedError(
                f'reading avro takes a package of its own: add packages="{_avro_package()}"'
            ) from error
        if not is_content_error(error):
            raise
        failing = first_failing(files, lambda some: _fails(reader, some))
        refuse_unread_types(SparkSession.active(), failing, str(source.format), error)
        raise BadInputError(
            f"{failing.path} cannot be read as {source.format}, by itself or together with the files before it "
            f"({reason_of(error)}): repair the file, remove it from the source, or say in the source's schema how "
            "it is to be read"
        ) from error


def _fails(reader: DataFrameReader, files: Sequence[InputFile]) -> bool:
    try:
        reader.load(literal_paths(files))
    except SPARK_ERRORS:
        return True
    return False


def _read_text(
    spark: SparkSession,
    source: Files,
    files: tuple[InputFile, ...],
    table_schema: StructType | None,
    keeps_absent: bool,
) -> RawBatch:
    paths = literal_paths(files)
    # PERMISSIVE reports a bad record, where DROPMALFORMED loses it; a CSV header is compared with the schema.
    options = {
        **source.options,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": UNPARSABLE,
        "enforceSchema": "false",
    }
    kind, lower = str(source.format), {name.lower(): value for name, value in source.options.items()}
    if kind == "csv":
        options = {"escape": lower.get("quote") or '"', **_QUOTES, **options}
    hint = _ABOUT_TEXTS if kind == "json" else ""
    if kind == "json" and not source.schema:
        options, hint = {**options, "maxNestingDepth": str(MOST_LEVELS)}, f"{hint}{_ABOUT_LEVELS}"
    find_schema = partial(json_schema, keeps_absent=keeps_absent) if kind == "json" else csv_schema
    schema = find_schema(spark, source, paths, options, table_schema)
    refuse_unfit_columns(schema.names, f"{source.format} files of {source.path!r}")
    if kind == "csv":
        # Not where types are inferred: a number that is quoted and empty would make its column one of texts.
        options = {"nullValue": _NO_TEXT, **options}
    plain = StructType([StructField(field.name, read_as(field.dataType, kind, lower)) for field in schema])
    flagged = StructType([*plain.fields, StructField(UNPARSABLE, StringType())])
    rows = spark.read.format(kind).options(**options).schema(flagged).load(paths)
    # With the option basePath, names of folders are columns beside those of the schema.
    scans = [Scan(rows=rows), *faulty_lines(spark, source, paths, options, rows.schema)]
    # Cached whole: Spark parses only the columns a query names, and a record is found bad only by the parsed ones.
    arrived = with_arrival(spark, files, *scans)
    declared = declared_types(source.schema, table_schema)
    inferred = [field.name for field in schema if field.name.lower() not in declared]
    rows = _converted(arrived, plain, schema, kind, inferred).persist()
    lines = _lines(spark, paths) if kind == "csv" and encoding_of(source.options).replace("-", "") == "utf8" else None
    return RawBatch(rows=rows, files=files, has_arrival=True, may_be_unparsable=True, lines=lines, hint=hint)


def _converted(rows: DataFrame, read: StructType, schema: StructType, kind: str, inferred: Sequence[str]) -> DataFrame:
    """Return the columns in their types, and records with a value that does not come through as unparsable."""
    changed = [(had, field) for had, field in zip(read, schema, strict=True) if had.dataType != field.dataType]
    raw = {field.name: f"_lake_text_{place}" for place, (_, field) in enumerate(changed)}
    results, lost = {}, {}
    for had, field in changed:
        name, types = quoted_name(field.name), (had.dataType, field.dataType, kind)
        results[field.name] = f"{converted(name, *types)} AS {name}"
        conditions = [is_lost(raw[field.name], name, *types)]
        if field.name in inferred:
            conditions.append(rounds_integer(raw[field.name], name, had.dataType, field.dataType))
        may_be = may_be_lost(raw[field.name], name, had.dataType, field.dataType)
        lost[field.name] = f"{may_be} AND ({any_of(conditions)})"
    # In two steps, so that what is looked at twice is made once.
    texts = (f"{quoted_name(name)} AS {hidden}" for name, hidden in raw.items())
    made = rows.selectExpr(*(results.get(name, quoted_name(name)) for name in rows.columns), *texts) if raw else rows
    # No Python could collect what is out of range.
    ranged = {f.name: _only_in_range(f) for _, f in changed if isinstance(f.dataType, _TIMES)}
    ranged[UNPARSABLE] = _unparsable(read, lost)
    return made.selectExpr(*(ranged.get(name, quoted_name(name)) for name in rows.columns))


def _only_in_range(field: StructField) -> str:
    name = quoted_name(field.name)
    return f"CASE WHEN {in_range(name, field.dataType)} THEN {name} END AS {name}"


def _unparsable(schema: StructType, lost: Mapping[str, str]) -> str:
    """Return SQL of what is wrong with a record; one with a time past the year 9999 is milliseconds read as seconds."""
    times = (f for f in schema if isinstance(f.dataType, _TIMES))
    past = any_of(f"NOT {in_range(quoted_name(field.name), field.dataType)}" for field in times)
    named = " ".join(
        f"WHEN {condition} THEN {text_literal(f'{CHANGED_VALUE}{_IN_COLUMN}{name}')}"
        for name, condition in lost.items()
    )
    fault = f"CASE WHEN {past} THEN 'a time that is out of range' {named} END"
    # The text of a record may be long, and nobody shows it.
    return f"coalesce(substring({UNPARSABLE}, 1, {_LONGEST}), {fault}) AS {UNPARSABLE}"


def _about_numbers(rows: DataFrame) -> str:
    has_times = any(isinstance(field.dataType, TimestampType) for field in rows.schema)
    return "; a number is taken for a TIMESTAMP in seconds, so declare BIGINT for any other unit" if has_times else ""


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.text(paths).select("value", sf.col("_metadata.file_path").alias("file"))


def _columns(rows: DataFrame) -> str:
    fields = (field for field in rows.schema.fields if not field.name.startswith("_lake_"))
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
