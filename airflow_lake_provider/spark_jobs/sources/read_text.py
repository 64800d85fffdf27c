"""Rows of CSV, JSON and XML, with each record and each value that does not come through as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.text_options import ENCODING_OPTIONS, by_lower_name, encoding_of, is_utf8, is_wide
from airflow_lake_provider.spark_jobs.batch.change_batch import RECORD, UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.faulty_lines import (
    CHANGED_VALUE,
    KEY_TWICE,
    MIXED_ENDS,
    REPEATED_HEADER,
    ROUNDED,
    faulty_lines,
    refuse_large_documents,
)
from airflow_lake_provider.spark_jobs.sources.line_records import LineRecords
from airflow_lake_provider.spark_jobs.sources.partition_columns import PartitionColumns
from airflow_lake_provider.spark_jobs.sources.raw_batch import IN_COLUMN, RawBatch
from airflow_lake_provider.spark_jobs.sources.spelled_fields import refuse_spelled_fields
from airflow_lake_provider.spark_jobs.sources.text_schema import (
    MOST_LEVELS,
    csv_schema,
    declared_types,
    given_fields,
    json_schema,
    refuse_other_keys,
)
from airflow_lake_provider.spark_jobs.sources.text_values import (
    converted,
    in_range,
    is_lost,
    is_rounded,
    may_be_lost,
    may_be_rounded,
    options_made_plain,
    plain_text,
    read_as,
    rounds_integer,
)
from airflow_lake_provider.spark_jobs.sources.xml_records import XmlNames, faulty_documents, xml_schema
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import conditions_inside, has_key_twice, is_nested

# As RFC 4180 says, and Excel, pandas and PostgreSQL write: a quote in a quoted value is doubled, any other is an error.
_QUOTES = {"unescapedQuoteHandling": "RAISE_ERROR"}
# What Spark puts in the place of nothing at all; the empty text in quotes then stays one.
_NO_TEXT = "\x00NULL\x00"
_LONGEST = 100 + len(CHANGED_VALUE)
# The bound of the parser of JSON, which ends a text that was packed a thousandfold, too.
_ABOUT_TEXTS = "; a text of JSON has at most 20,000,000 characters, so write longer ones as Parquet"
_ABOUT_DOCUMENTS = "; a record of several lines takes options={'multiLine': True}"
_ABOUT_QUOTES = "; a number in quotes is a text: declare STRING, and cast it in a Query"
_ABOUT_COUNTS = "; a row has as many values as there are columns"
_ABOUT_LEVELS = f"; without a schema a record has at most {MOST_LEVELS} levels: declare a column of more as STRING"
# Without the setting Spark 4 takes these alone, as they are spelled.
_ENCODINGS = ("utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32", "iso-8859-1", "us-ascii")
_ANY_ENCODING = "spark.sql.legacy.javaCharsets"
# One value alone may well be a word that its column is called.
_LEAST_NAMES = 2
_TIMES = (DateType, TimestampType, TimestampNTZType)


def read_text(
    spark: SparkSession,
    source: Files,
    files: tuple[InputFile, ...],
    table_schema: StructType | None,
    keeps_absent: bool,
    folders: PartitionColumns,
    *,
    keeps_lines: bool = False,
) -> RawBatch:
    """Read files of text lazily, but for what finding out their schema takes.

    :param folders: columns that are names of folders.
    :param keeps_lines: keep the line of each record in ``_lake_record``.
    """
    paths, kind, lower = literal_paths(files), str(source.format), by_lower_name(source.options)
    options, hint = _reader_options(source, lower)
    _make_ready(spark, files, kind, lower)
    schema = _schema(spark, source, paths, options, table_schema, keeps_absent=keeps_absent)
    _refuse_names(spark, source, paths, options, schema, folders)
    if kind == "csv":
        # Not where types are inferred: a number that is quoted and empty would make its column one of texts.
        options = {"nullValue": _NO_TEXT, **options}
    # A value of XML is a text, as one of CSV is.
    values = "json" if kind == "json" else "csv"
    lower = _without_locale(lower) if kind == "json" else lower
    plain = _read_types(schema, values, lower)
    records = None
    if keeps_lines:
        records = LineRecords(spark=spark, source=source, files=files, paths=paths, options=options, plain=plain)
    scans = [records.scan()] if records else _scans(spark, source, files, options, plain, schema)
    # To be cached whole: Spark parses only columns that a query names, and finds a record bad only by the parsed ones.
    arrived = folders.typed(with_arrival(spark, files, *scans, texts=folders.texts))
    arrived = records.without_headers(arrived) if records else arrived
    arrived = _as_written(arrived, kind, schema, plain, lower, f"csv files of {source.path!r}")
    line = RECORD if records and kind == "json" else None
    rows = typed_rows(arrived, plain, schema, values, _inferred(source, schema, table_schema), line)
    # Spark's parsers of JSON and XML refuse bytes that are no UTF-8.
    lines = _lines(spark, paths) if kind == "csv" and is_utf8(options) and not records else None
    return RawBatch(
        rows=rows,
        files=files,
        has_arrival=True,
        may_be_unparsable=True,
        lines=lines,
        hint=hint,
        encoding="" if is_utf8(options) else encoding_of(options),
        first_rows=records.first_rows if records else dict,
    )


def _inferred(source: Files, schema: StructType, table_schema: StructType | None) -> list[str]:
    """Return the columns whose types neither the source nor the table declares."""
    declared = declared_types(source.schema, table_schema)
    return [field.name for field in schema if field.name.lower() not in declared]


def _make_ready(spark: SparkSession, files: tuple[InputFile, ...], kind: str, lower: Mapping[str, str]) -> None:
    """Refuse documents that are too large, and let Spark take the encoding."""
    if kind == "json" and _is_whole(lower):
        refuse_large_documents(spark, files)
    if encoding_of(lower) not in _ENCODINGS:
        spark.conf.set(_ANY_ENCODING, "true")


def _is_whole(lower: Mapping[str, str]) -> bool:
    """Return True where a record may be more than one line."""
    return lower.get("multiline", "").strip().lower() == "true"


def _without_locale(lower: Mapping[str, str]) -> dict[str, str]:
    # JSON says how a number is written; a locale says it of months and days alone.
    return {name: value for name, value in lower.items() if name != "locale"}


def _read_types(schema: StructType, values: str, lower: Mapping[str, str]) -> StructType:
    """Return the types that Spark's reader gives the columns of a schema, before they are converted."""
    made_plain = options_made_plain(lower)
    formats = {name: value for name, value in lower.items() if name not in made_plain}
    # Numbers inside of others are left to Spark's reader, which knows the locale.
    inner = {name: value for name, value in lower.items() if name in formats or name == "locale"}
    read = ((f, read_as(f.dataType, values, inner if is_nested(f.dataType) else formats)) for f in schema)
    return StructType([StructField(field.name, kept) for field, kept in read])


def _as_written(
    arrived: DataFrame, kind: str, schema: StructType, plain: StructType, lower: Mapping[str, str], what: str
) -> DataFrame:
    """Return records with their texts as they are written; other headers and mixed ends of lines are refused."""
    if lower.get("header", "").lower() == "true":
        arrived = _refusing_headers(arrived, plain)
    if kind == "csv" and _is_whole(lower) and "linesep" not in lower:
        arrived = _refusing_mixed_ends(arrived, plain, what)
    return _with_plain_texts(arrived, schema, lower)


def _schema(
    spark: SparkSession,
    source: Files,
    paths: list[str],
    options: Mapping[str, str],
    table_schema: StructType | None,
    *,
    keeps_absent: bool,
) -> StructType:
    """Return the columns, in the types of the source's schema, else of the table, else of the values.

    :raises BadInputError: the source's schema spells fields in another case than the files.
    """
    if source.format != "csv" and source.schema:
        refuse_spelled_fields(spark, source, paths, options)
    given = (spark, source, paths, options, table_schema)
    if source.format == "json":
        schema = json_schema(*given, keeps_absent=keeps_absent)
        refuse_other_keys(schema, f"json files of {source.path!r}")
        return schema
    return xml_schema(*given) if source.format == "xml" else csv_schema(*given)


def _refuse_names(
    spark: SparkSession,
    source: Files,
    paths: list[str],
    options: Mapping[str, str],
    schema: StructType,
    folders: PartitionColumns,
) -> None:
    """Refuse columns that no table can have, or that the folders have, too."""
    kind, what = str(source.format), f"{source.format} files of {source.path!r}"
    refuse_unfit_columns(schema.names, what)
    if folders.texts:
        has_others = kind != "csv" and source.schema
        own = given_fields(spark, kind, paths, options, folders.columns) if has_others else schema.names
        folders.refuse_in(own, what)


def _reader_options(source: Files, lower: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return options of Spark's reader, and what is said beside a record that it cannot read."""
    # PERMISSIVE reports a bad record, where DROPMALFORMED loses it; a CSV header is compared with the schema.
    options = {
        **source.options,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": UNPARSABLE,
        "enforceSchema": "false",
    }
    kind, is_whole = str(source.format), lower.get("multiline", "").strip().lower() == "true"
    if not is_utf8(lower) and not is_whole:
        options = {**options, **_line_options(kind, lower)}
    if kind == "csv":
        return {"escape": lower.get("quote") or '"', **_QUOTES, **options}, _ABOUT_COUNTS
    if kind == "xml":
        # Blanks at the ends of a value are of the value.
        return {"ignoreSurroundingSpaces": "false", **options}, ""
    if is_whole and is_utf8(lower):
        # Named, it lets Spark decode before it parses, and put a sign in the place of bytes that are none.
        options = {name: value for name, value in options.items() if name.lower() not in ENCODING_OPTIONS}
    hint = f"{_ABOUT_QUOTES}{'' if is_whole else _ABOUT_DOCUMENTS}{_ABOUT_TEXTS}"
    if source.schema:
        return options, hint
    return {**options, "maxNestingDepth": str(MOST_LEVELS)}, f"{hint}{_ABOUT_LEVELS}"


def _scans(
    spark: SparkSession,
    source: Files,
    files: tuple[InputFile, ...],
    options: Mapping[str, str],
    plain: StructType,
    schema: StructType,
) -> list[Scan]:
    """Return the records, and beside them those that Spark's parser takes for right.

    :param plain: columns as they are read, and ``schema``: as they are to be.
    """
    flag, paths = StructField(UNPARSABLE, StringType()), literal_paths(files)
    if source.format != "xml":
        flagged = StructType([*plain, flag])
        rows = spark.read.format(str(source.format)).options(**options).schema(flagged).load(paths)
        return [Scan(rows=rows), *faulty_lines(spark, source, files, options, flagged, schema)]
    names = XmlNames.of(by_lower_name(source.options))
    flagged = StructType([*names.read_with(plain), flag])
    rows = spark.read.format("xml").options(**names.options(options)).schema(flagged).load(paths)
    return [names.scan(rows, plain), faulty_documents(spark, paths, options, plain)]


def _line_options(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return how lines end in another encoding than UTF-8.

    Of UTF-16 and UTF-32 without an order of bytes, Spark would look for an end with a mark of the order before it.
    """
    if kind == "csv":
        # No line can be found by a byte.
        return {"multiLine": "true"} if is_wide(options) else {}
    if kind == "json" and is_wide(options) and not encoding_of(options).endswith(("le", "be")):
        raise InvalidSpecError(
            f"lines of JSON cannot be found in {encoding_of(options)}: write them as UTF-8, which JSON has to be; "
            "where a file is one document, give options={'multiLine': True}"
        )
    # Spark's reader of JSON wants to have it said.
    return {"lineSep": "\n"} if kind == "json" and "linesep" not in options else {}


def typed_rows(
    rows: DataFrame,
    read: StructType,
    schema: StructType,
    kind: str,
    inferred: Sequence[str] = (),
    line: str | None = None,
) -> DataFrame:
    """Return the columns in their types, and records with a value that does not come through as unparsable.

    :param rows: with ``_lake_unparsable``.
    :param read: the types in which they were read, see :func:`read_as`.
    :param kind: ``csv`` or ``json``.
    :param inferred: columns whose types were found in the values.
    :param line: column of the JSON that a function has parsed, which rounds; None of rows of a reader.
    """
    if kind == "json":
        twice = {f.name: any_of(conditions_inside(quoted_name(f.name), f.dataType, has_key_twice)) for f in schema}
        rows = _flagged(rows, KEY_TWICE, twice)
    if line is not None:
        rounded = {field.name: is_rounded(line, quoted_name(field.name), field.dataType) for field in schema}
        rows = _flagged(rows, ROUNDED, rounded, may_be_rounded(line))
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


def _flagged(rows: DataFrame, fault: str, by_column: Mapping[str, str], may_be: str = "true") -> DataFrame:
    """Mark records with a fault in a column as unparsable.

    :param by_column: its condition, ``false`` for none.
    :param may_be: a quick condition without which there is none.
    """
    cases = " ".join(
        f"WHEN {condition} THEN {text_literal(f'{fault}{IN_COLUMN}{name}')}"
        for name, condition in by_column.items()
        if condition != "false"
    )
    if not cases:
        return rows
    flagged = f"CASE WHEN {may_be} THEN CASE {cases} END END"
    return rows.withColumn(UNPARSABLE, sf.expr(f"coalesce({UNPARSABLE}, {flagged})"))


def _with_plain_texts(rows: DataFrame, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """Return records with values as SQL writes them, where options say another form."""
    signs = _signs_of_locale(rows.sparkSession, options["locale"]) if "locale" in options else None
    texts = {field.name: quoted_name(field.name) for field in schema}
    plain = {field.name: plain_text(texts[field.name], field.dataType, options, signs) for field in schema}
    if plain == texts:
        return rows
    return rows.selectExpr(*(f"{plain.get(name, quoted_name(name))} AS {quoted_name(name)}" for name in rows.columns))


def _signs_of_locale(spark: SparkSession, locale: str) -> tuple[str, str]:
    """Return what a locale puts before a fraction, and between thousands."""
    java = jvm_of(spark).java
    symbols = java.text.DecimalFormatSymbols.getInstance(java.util.Locale.forLanguageTag(locale))
    return str(symbols.getDecimalSeparator()), str(symbols.getGroupingSeparator())


def _refusing_headers(rows: DataFrame, plain: StructType) -> DataFrame:
    """Mark records whose values are the names of their columns, as where files were joined to one."""
    if len(plain) < _LEAST_NAMES:
        return rows
    first, *others = (f"lower(CAST({quoted_name(name)} AS STRING))" for name in plain.names)
    # There may be the mark of a file before it.
    values = [f"trim(LEADING '\ufeff' FROM {first})", *others]
    same = (f"{value} = {text_literal(name.lower())}" for value, name in zip(values, plain.names, strict=True))
    fault = f"CASE WHEN {' AND '.join(same)} THEN {text_literal(REPEATED_HEADER)} END"
    return rows.withColumn(UNPARSABLE, sf.expr(f"coalesce({UNPARSABLE}, {fault})"))


def _refusing_mixed_ends(rows: DataFrame, plain: StructType, what: str) -> DataFrame:
    """Mark records whose last text has the CR of a line end: Spark's parser takes that of the first line for all."""
    last = plain[-1]
    if last.name.endswith("\r"):
        raise BadInputError(
            f"{what} have a header that ends with CRLF behind a line that ends with LF; write all lines alike"
        )
    if not isinstance(last.dataType, StringType):
        return rows
    is_mixed = sf.col(UNPARSABLE).isNull() & quoted(last.name).endswith("\r")
    return rows.withColumn(UNPARSABLE, sf.when(is_mixed, sf.lit(MIXED_ENDS)).otherwise(sf.col(UNPARSABLE)))


def _only_in_range(field: StructField) -> str:
    name = quoted_name(field.name)
    return f"CASE WHEN {in_range(name, field.dataType)} THEN {name} END AS {name}"


def _unparsable(schema: StructType, lost: Mapping[str, str]) -> str:
    """Return SQL of what is wrong with a record; one with a time past the year 9999 is milliseconds read as seconds."""
    times = (f for f in schema if isinstance(f.dataType, _TIMES))
    past = any_of(f"NOT {in_range(quoted_name(field.name), field.dataType)}" for field in times)
    named = " ".join(
        f"WHEN {condition} THEN {text_literal(f'{CHANGED_VALUE}{IN_COLUMN}{name}')}" for name, condition in lost.items()
    )
    fault = f"CASE WHEN {past} THEN 'a time that is out of range' {named} END"
    # The text of a record may be long, and nobody shows it.
    return f"coalesce(substring({UNPARSABLE}, 1, {_LONGEST}), {fault}) AS {UNPARSABLE}"


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.text(paths).select("value", sf.col("_metadata.file_path").alias("file"))
