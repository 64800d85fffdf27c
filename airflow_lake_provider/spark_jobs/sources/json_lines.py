"""Lines of JSON that Spark's parser takes, though it reads a part of them, or changes what it reads.

It stops behind the first value of a line: a sink that puts no newline between records loses all but the first. In the
place of half of a surrogate pair, which is no character (RFC 8259, section 8.2), it puts a question mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE

MORE_VALUES = "more than one value"
HALF_PAIR = "half of a surrogate pair"
# A low half behind no high one, or a high one before no low one, each behind an even number of backslashes.
_LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*+(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)

_OF_BYTES = {"encoding", "charset", "linesep", "multiline"}


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding that options of a reader name, in lower case."""
    given = {name.lower(): value for name, value in options.items()}
    return given.get("encoding", given.get("charset", "utf-8")).lower()


def fault_of_line(line: Column, options: Mapping[str, str] | None = None) -> Column:
    """Return what is wrong with a line of which Spark's parser says nothing; NULL for a sound one.

    :param options: of the reader of JSON.
    """
    more = sf.when(~_ends_with_its_first_brace(line) & ~_is_one_value(line, options or {}), sf.lit(MORE_VALUES))
    is_escaped = line.contains("\\ud") | line.contains("\\uD")
    half = sf.when(is_escaped & line.rlike(_LONE_SURROGATE), sf.lit(HALF_PAIR))
    return sf.coalesce(more, half)


def is_parsed(line: Column, schema: str, options: Mapping[str, str]) -> Column:
    """Tell whether Spark's parser takes a line, so that nothing else has said that it is wrong.

    :param schema: DDL, with the column of corrupt records.
    """
    # Of a text, not of bytes.
    given: Any = {name: value for name, value in options.items() if name.lower() not in _OF_BYTES}
    record = sf.from_json(line, schema, given)[UNPARSABLE].isNull()
    # Spark's reader makes a row of each object of an array, which the function does not.
    array = sf.from_json(line, f"ARRAY<STRUCT<{schema}>>", given).isNotNull()
    return sf.when(sf.ltrim(line).startswith("["), array).otherwise(record)


def _ends_with_its_first_brace(line: Column) -> Column:
    """Tell a flat object without a brace in its texts, for which nothing needs to be parsed again."""
    return sf.octet_length(sf.substring_index(line, "}", 1)) == sf.octet_length(line) - 1


def _is_one_value(line: Column, options: Mapping[str, str]) -> Column:
    # An element of an array, before another one; a comment may go to the end of the line.
    array = sf.concat(sf.lit("["), line, sf.lit("\n,0]"))
    forms: Any = {name: value for name, value in options.items() if name.lower().startswith("allow")}
    # The first function is quick, and knows neither comments nor names without quotes.
    strictly = sf.coalesce(sf.json_array_length(array) == 2, sf.lit(False))
    parsed = sf.from_json(sf.concat(sf.lit('{"values":'), array, sf.lit("}")), "values ARRAY<STRING>", forms)
    leniently = sf.coalesce(sf.size(parsed["values"]) == 2, sf.lit(False))
    return sf.when(strictly, sf.lit(True)).otherwise(leniently)
