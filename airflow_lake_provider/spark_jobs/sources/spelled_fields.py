"""Refuse a schema whose names are not those of the records: Spark's parsers tell names by case, and read NULL.

Example: the schema says ``customerId``, the records say ``customerID``, or all of a record is inside of ``payload``.
Only a sample is looked at, so that a sound batch is not parsed twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sources.faulty_lines import decoded_line, text_lines
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

_SAMPLE = 100
# In the driver's Python a value takes many times its text.
_LONGEST_TEXT = 1024 * 1024
_SHOWN = 5
# Column of XML that takes the elements that no other one takes.
_WILDCARD = "xs_any"
# Members of what Kafka Connect's JsonConverter writes, by its default.
_OF_CONNECT = {"schema", "payload"}


def refuse_spelled_fields(spark: SparkSession, source: Files, paths: Sequence[str], options: Mapping[str, str]) -> None:
    """Compare the names of some records of the first file with the source's schema.

    :param options: of Spark's reader.
    :raises BadInputError: see :func:`refuse_other_names`.
    """
    schema, what = parse_ddl(str(source.schema)), repr(source.path)
    if source.format == "xml":
        elements = _elements(spark, paths[0], options)
        if _WILDCARD in schema.names:
            refuse_other_case(elements, schema, what)
        else:
            refuse_other_names(elements, schema, what)
        return
    lower = by_lower_name(options)
    is_whole = lower.get("multiline", "false").lower() == "true"
    lines = text_lines(spark, paths[:1], options, **({"wholetext": "true"} if is_whole else {}))
    short = lines.filter(f"octet_length(value) <= {_LONGEST_TEXT}")
    sample = short.selectExpr(decoded_line(lower)).limit(1 if is_whole else _SAMPLE)
    values = json_values(row[0] for row in sample.collect())
    refuse_other_names(values, schema, what)


def _elements(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[Any]:
    """Return some records of a document, in the names that they have; none where Spark cannot tell these."""
    try:
        rows = spark.read.format("xml").options(**options).load(path).limit(_SAMPLE).collect()
    except SPARK_ERRORS:
        # Also of names that differ in case alone: the reader by the schema sees those that are meant.
        return []
    return [row.asDict(recursive=True) for row in rows]


def json_values(texts: Iterable[str | bytes]) -> Iterator[Any]:
    """Yield the values of texts; what is no JSON is left to Spark's parser."""
    for text in texts:
        # Too many levels end Python's parser, too.
        with suppress(ValueError, RecursionError):
            yield json.loads(text)


def refuse_other_names(values: Iterable[Any], schema: StructType, what: str, *, may_be_left_out: bool = False) -> None:
    """Compare the names of some records with the declared ones.

    :param values: some of the records, or arrays of them.
    :param what: the input, for messages.
    :param may_be_left_out: a query may leave out records of other kinds, which the last ones may all be.
    :raises BadInputError: see :func:`refuse_other_case` and :func:`refuse_unlike_records`.
    """
    sample = list(values)
    refuse_other_case(sample, schema, what)
    refuse_unlike_records(sample, schema, what, may_be_left_out=may_be_left_out)


def refuse_unlike_records(
    values: Iterable[Any], schema: StructType, what: str, *, may_be_left_out: bool = False
) -> None:
    """Refuse records of which none has any declared field, as all of their columns would be NULL.

    :param values: some of the records, or arrays of them.
    :param what: the input, for messages.
    :param may_be_left_out: but not those of other kinds; what Connect wraps is refused in any case.
    :raises BadInputError: with the names of both.
    """
    records = chain.from_iterable(value if isinstance(value, list) else [value] for value in values)
    # Spark's column for a record that it cannot read is no field of it.
    names = dict.fromkeys(name for each in records if isinstance(each, dict) for name in each if name != UNPARSABLE)
    # A record without any field is one of NULL.
    if not names or not schema.names or not names.keys().isdisjoint(schema.names):
        return
    if may_be_left_out and names.keys() != _OF_CONNECT:
        return
    remedy = "declare fields that they have, in a Query also one of those that it leaves out"
    if names.keys() == _OF_CONNECT:
        remedy = (
            "let Connect's JsonConverter write the payload alone, with value.converter.schemas.enable=false, or "
            "declare payload STRUCT<...> and select payload.* in a Query"
        )
    raise BadInputError(
        f"the schema of {what} declares {_shown(schema.names)}, and the records have {_shown(list(names))}, so that "
        f"each would become a row of NULL; {remedy}"
    )


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
    return f"{list(names[:_SHOWN])}{more}"


def refuse_other_case(values: Iterable[Any], schema: StructType, what: str) -> None:
    """Compare the names of some records with those of the declared fields, nested ones too.

    :param values: some of the records, or arrays of them.
    :param what: the input, for messages.
    :raises BadInputError: a record has a declared name in another case only.
    """
    others = dict(chain.from_iterable(_other_spellings(value, ArrayType(schema), ()) for value in values))
    if others:
        shown = ", ".join(f"{declared} where records have {name}" for declared, name in sorted(others.items())[:5])
        raise BadInputError(
            f"the schema of {what} declares {shown}. These names are told by case: spell them in the schema as the "
            "records do"
        )


def _other_spellings(value: Any, kind: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each declared name that a value has in another case only, and how the value has it."""
    match value, kind:
        case dict(), StructType():
            spelled = {name.lower(): name for name in value if name not in kind.names}
            for field in kind:
                if field.name in value:
                    yield from _other_spellings(value[field.name], field.dataType, (*path, field.name))
                elif name := spelled.get(field.name.lower()):
                    yield ".".join((*path, field.name)), name
        case dict(), MapType():
            for each in value.values():
                yield from _other_spellings(each, kind.valueType, path)
        case ((dict() | list()), ArrayType()):
            # One element of XML is no array yet.
            for each in value if isinstance(value, list) else [value]:
                yield from _other_spellings(each, kind.elementType, path)


def other_fields(value: Any, field: StructField, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of each name inside of a value of JSON that its type lacks, also where it differs in case only."""
    yield from _other_fields(value, field.dataType, (*path, field.name))


def _other_fields(value: Any, kind: DataType, path: tuple[str, ...]) -> Iterator[str]:
    match value, kind:
        case dict(), StructType():
            by_name = {field.name: field for field in kind}
            for name, inner in value.items():
                if name in by_name:
                    yield from other_fields(inner, by_name[name], path)
                else:
                    yield ".".join((*path, name))
        case dict(), MapType():
            for inner in value.values():
                yield from _other_fields(inner, kind.valueType, path)
        case list(), ArrayType():
            for inner in value:
                yield from _other_fields(inner, kind.elementType, path)
