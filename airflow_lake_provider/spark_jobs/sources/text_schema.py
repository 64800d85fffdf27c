"""Columns and types of JSON and CSV files: declared, else the table's, else inferred from the values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.sources.faulty_lines import decoded_line, parsed_line, text_lines
from airflow_lake_provider.spark_jobs.sql.identifiers import columns_text, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import completed, field_twins, nullable, types_inside
from airflow_lake_provider.spark_jobs.sql.older_pyspark import condition_of, message_of, parse_ddl_type

# Of inferred JSON. Spark takes minutes to plan a table with a hundred levels, and more of each one.
MOST_LEVELS = 50


def declared_types(schema: str | None, table_schema: StructType | None) -> dict[str, DataType]:
    """Return the declared types, else the table's, by lower-case name.

    :param schema: DDL of the author; wins over the table.
    :param table_schema: of the target table; None when there is none.
    :raises BadInputError: the DDL cannot be parsed.
    """
    types = {field.name.lower(): nullable(field.dataType) for field in (table_schema.fields if table_schema else ())}
    if schema:
        types.update((field.name.lower(), field.dataType) for field in parse_ddl(schema).fields)
    return types


def parse_ddl(schema: str) -> StructType:
    """Parse a DDL text of columns; needs a running session.

    :raises BadInputError: it cannot be parsed.
    """
    try:
        parsed = parse_ddl_type(schema)
    except PySparkException as error:
        raise BadInputError(f"source schema {schema!r} is not a list of columns in DDL: {error}") from error
    if not isinstance(parsed, StructType):
        raise BadInputError(
            f"source schema {schema!r} is one type, not a list of columns such as 'id BIGINT, note STRING'"
        )
    if twins := list(field_twins(parsed)):
        raise BadInputError(
            f"source schema {schema!r} has columns twice, as names are compared without case: {twins}; declare the one "
            "that is meant"
        )
    fixed = [field.name for field in parsed if isinstance(field.dataType, (CharType, VarcharType))]
    if fixed:
        raise BadInputError(f"source schema {schema!r}: columns {fixed} are CHAR or VARCHAR; say STRING")
    unread = [field.name for field in parsed if any(map(_is_unread, types_inside(field.dataType)))]
    if unread:
        raise BadInputError(
            f"source schema {schema!r}: columns {unread} are TIME or INTERVAL, which no reader and no table takes; say "
            "STRING, and cast it in a Query"
        )
    return parsed


def refuse_other_keys(columns: StructType, what: str) -> None:
    """Refuse maps whose keys are no texts, which names of JSON are.

    :raises BadInputError: naming the columns.
    """
    maps = {field.name: field.dataType.simpleString() for field in columns if has_other_keys(field.dataType)}
    if maps:
        raise BadInputError(
            f"{what} cannot be read as {maps}: keys of a MAP are names of JSON, which are texts. Say MAP<STRING, ...> "
            "in the source's schema, and cast the keys in a Query"
        )


def has_other_keys(kind: DataType) -> bool:
    """Tell whether a type is, or has inside, a map whose keys are no texts."""
    maps = (each for each in types_inside(kind) if isinstance(each, MapType))
    return any(not isinstance(each.keyType, StringType) for each in maps)


def _is_unread(kind: DataType) -> bool:
    return kind.simpleString().startswith(("time(", "interval"))


def json_schema(
    spark: SparkSession,
    source: Files,
    paths: list[str],
    options: Mapping[str, str],
    table_schema: StructType | None,
    *,
    keeps_absent: bool = False,
) -> StructType:
    """Return the schema to read JSON lines with; without a declared one, a pass over the files finds the fields.

    :param keeps_absent: leave out the nested fields of the table that no record has; else they are NULL.
    """
    if source.schema:
        return parse_ddl(source.schema)
    # Any name but the batch's own, so that a field of that name is told from a record that is none.
    corrupt = f"corrupt {uuid.uuid4()}"
    try:
        inferred = spark.read.options(**{**options, "columnNameOfCorruptRecord": corrupt}).json(paths).schema
    except AnalysisException as error:
        if condition_of(error) != "COLUMN_ALREADY_EXISTS":
            raise
        raise BadInputError(
            f"records of {source.path!r} have a field twice, as names are compared without case: {message_of(error)} "
            "Name the field that is meant, as it is spelled, in the source's schema, or give each a name of its own"
        ) from error
    fields = [field for field in inferred.fields if field.name != corrupt]
    if not fields:
        raise BadInputError(
            f"no record of {source.path!r} is a JSON object with fields, in UTF-8, of at most {MOST_LEVELS} levels; "
            "a column with more is read as text, if the source's schema says STRING; records of several lines take "
            "options={'multiLine': True}"
        )
    declared = declared_types(None, table_schema)
    # The fields of a struct that no record has may be the table's to keep; a map has none.
    kinds = MapType if keeps_absent else (MapType, StructType)
    objects = [field for field in table_schema or () if isinstance(field.dataType, kinds)]
    fields += _empty_objects(spark, paths, {**options, "columnNameOfCorruptRecord": corrupt}, fields, objects)
    types = {
        f.name: completed(f.dataType, declared.get(f.name.lower(), f.dataType), with_absent=not keeps_absent)
        for f in fields
    }
    schema = StructType([StructField(name, kind) for name, kind in types.items()])
    if twins := list(field_twins(schema)):
        raise BadInputError(
            f"records of {source.path!r} have fields twice, as names are compared without case: {twins}. Name the "
            "fields that are meant, as they are spelled, in the source's schema, or give each a name of its own"
        )
    return schema


def _empty_objects(
    spark: SparkSession,
    paths: list[str],
    options: Mapping[str, str],
    fields: list[StructField],
    objects: list[StructField],
) -> list[StructField]:
    """Return the objects of which all values in the records are empty: inference leaves them out."""
    names = {field.name.lower() for field in fields}
    absent = [f for f in objects if f.name.lower() not in names]
    if not absent:
        return []
    given = given_fields(spark, "json", paths, options, absent)
    return [StructField(f.name, nullable(f.dataType)) for f in absent if f.name in given]


def given_fields(
    spark: SparkSession, kind: str, paths: list[str], options: Mapping[str, str], fields: Iterable[StructField]
) -> list[str]:
    """Return the names of those fields that some record of JSON or XML has, whatever their types."""
    # As text, so that a value of any type is there.
    texts = StructType([StructField(field.name, StringType()) for field in fields])
    rows = spark.read.format(kind).options(**options).schema(texts).load(paths)
    (counts,) = rows.agg(*(sf.count(quoted_name(name)) for name in texts.names)).collect()
    return [name for name, count in zip(texts.names, counts, strict=True) if count]


def csv_schema(
    spark: SparkSession, source: Files, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    """Return the schema to read CSV with, in the order of the header, which is where CSV takes its order from.

    :raises BadInputError: a column has a type that CSV cannot hold, or others than the header.
    """
    schema = _csv_columns(spark, source, paths, options, table_schema) or _columns_without_text(source, table_schema)
    unfit = (ArrayType, MapType, StructType, NullType)
    nested = {field.name: field.dataType.simpleString() for field in schema if isinstance(field.dataType, unfit)}
    if nested:
        raise BadInputError(
            f"CSV of {source.path!r} cannot hold the types {nested}; say STRING for these columns in the source's "
            "schema, and make the values of them in a Query, with from_json or split"
        )
    return schema


def _columns_without_text(source: Files, table_schema: StructType | None) -> StructType:
    """Return the columns of files that have no line: declared, else those of the table that CSV can hold.

    Columns that are names of folders are none of the files.
    """
    if source.schema:
        return parse_ddl(source.schema)
    if table_schema is None:
        raise BadInputError(
            f"no CSV file of {source.path!r} has a line, so nothing says their columns; give the source a schema"
        )
    nested, folders = (ArrayType, MapType, StructType), {name.lower() for name in source.partition_columns}
    fields = (field for field in table_schema if field.name.lower() not in folders)
    return StructType([field for field in fields if not isinstance(field.dataType, nested)])


def _csv_columns(
    spark: SparkSession, source: Files, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    if not _has_header(source):
        return parse_ddl(source.schema) if source.schema else _inferred_csv(spark, paths, options)
    # Any name but the batch's own, which a column of the files may have.
    options = {**options, "columnNameOfCorruptRecord": f"corrupt {uuid.uuid4()}"}
    plain = {**options, "inferSchema": "false"}
    header = list(spark.read.options(**plain).csv(paths).columns)
    if any(sign in name for name in header for sign in ("\ufffd", "\x00")):
        raise BadInputError(
            f"the header of {source.path!r} is no UTF-8 text; say what it is with "
            "options={'header': 'true', 'encoding': 'UTF-16'}, for example"
        )
    declared = declared_types(source.schema, table_schema)
    if source.schema and header:
        _refuse_other_columns(source, header)
    if all(name.lower() in declared for name in header):
        return _retyped([StructField(name, StringType()) for name in header], declared)
    inferred = _inferred_csv(spark, paths, options)
    # Of values of several lines Spark leaves out the first row of each file, however it is written.
    is_whole = by_lower_name(options).get("multiline", "").strip().lower() == "true"
    # A name such as 2024 is a number among those of its column.
    named = (field for field in inferred if field.name.isidentifier())
    if len(paths) > 1 and not is_whole and all(isinstance(field.dataType, StringType) for field in named):
        _refuse_other_spelling(spark, source, paths, options, header)
    return _retyped(inferred.fields, declared)


def _refuse_other_spelling(
    spark: SparkSession, source: Files, paths: list[str], options: Mapping[str, str], header: Sequence[str]
) -> None:
    """Refuse headers of one meaning in two texts: inference takes one for a row, and all columns for texts.

    :raises BadInputError: with two of the texts.
    """
    names = [f"_{place}" for place, _ in enumerate(header)]
    texts = columns_text(StructType([StructField(name, StringType()) for name in names]))
    line = decoded_line(by_lower_name(options))
    parsed = parsed_line("from_csv", line, texts, options)
    same = (
        f"lower({parsed}.{name}) = {text_literal(given.lower())}" for name, given in zip(names, header, strict=True)
    )
    headers = text_lines(spark, paths, options).filter(" AND ".join(same)).selectExpr(line).distinct().limit(2)
    spelled = sorted(row[0] for row in headers.collect())
    if len(spelled) > 1:
        raise BadInputError(
            f"CSV files of {source.path!r} have one header in two texts, {spelled[0]!r} and {spelled[1]!r}. Inference "
            "would take one of them for a row, and every column for text; write it alike in all files, or give the "
            "source a schema"
        )


def _has_header(source: Files) -> bool:
    given = by_lower_name(source.options).get("header", "false")
    if given.lower() not in ("true", "false"):
        raise InvalidSpecError(f"options['header'] must be true or false, got {given!r}")
    return given.lower() == "true"


def _inferred_csv(spark: SparkSession, paths: list[str], options: Mapping[str, str]) -> StructType:
    return spark.read.options(**{"inferSchema": "true", **options}).csv(paths).schema


def _refuse_other_columns(source: Files, header: list[str]) -> None:
    declared = [field.name for field in parse_ddl(str(source.schema)).fields]
    if {name.lower() for name in declared} != {name.lower() for name in header}:
        raise BadInputError(
            f"the source schema has the columns {declared}, but the header of {source.path!r} has {header}; "
            f"each column of the header needs a type, in any order{_about_separator(header)}"
        )


def _about_separator(header: list[str]) -> str:
    signs = [sign for sign in (";", "\t", "|") if len(header) == 1 and sign in header[0]]
    return f"; where {signs[0]!r} is between the values, give options={{'sep': {signs[0]!r}}}" if signs else ""


def _retyped(fields: list[StructField], types: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(field.name, types.get(field.name.lower(), field.dataType)) for field in fields])
