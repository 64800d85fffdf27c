"""Lines of JSON that Spark's parser takes, though it reads a part of them, or changes what it reads.

It stops behind the first value of a line: a sink that puts no newline between records loses all but the first. In the
place of half of a surrogate pair, which is no character (RFC 8259, section 8.2), it puts a question mark.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sql.identifiers import matches, quoted_name, text_literal

MORE_VALUES = "more than one value"
HALF_PAIR = "half of a surrogate pair"
# A low half behind no high one, or a high one before no low one, each behind an even number of backslashes.
_LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*+(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)
_ESCAPE = "\\u"
_VALUES = '{"values":'
_OF_BYTES = {"encoding", "charset", "linesep", "multiline"}


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding that options of a reader name, in lower case."""
    given = {name.lower(): value for name, value in options.items()}
    return given.get("encoding", given.get("charset", "utf-8")).lower()


def fault_of_line(line: str, options: Mapping[str, str] | None = None) -> str:
    """Return SQL of the fault of a line that Spark's parser accepts; NULL for a sound line.

    As one text: made of columns, it is two hundred calls to the JVM.

    :param line: SQL of the line.
    :param options: of the reader of JSON.
    """
    # A search for one byte is quick; the others are for lines that have it.
    is_escaped = f"contains({line}, {text_literal(_ESCAPE)})"
    is_half = f"{is_escaped} AND {matches(line, _LONE_SURROGATE)}"
    more = f"NOT ({_ends_with_its_only_brace(line)}) AND {_is_not_one_value(line, options or {})}"
    return f"CASE WHEN {more} THEN {text_literal(MORE_VALUES)} WHEN {is_half} THEN {text_literal(HALF_PAIR)} END"


def is_parsed(line: str, schema: str, options: Mapping[str, str]) -> str:
    """Return the condition that Spark's parser accepts a line, so that its fault is named nowhere else.

    :param line: SQL of the line.
    :param schema: DDL, with the column of corrupt records.
    """
    # Of a text, not of bytes.
    given = {name: value for name, value in options.items() if name.lower() not in _OF_BYTES}
    record = f"{_from_json(line, schema, given)}.{quoted_name(UNPARSABLE)} IS NULL"
    # Spark's reader makes a row of each object of an array, which the function does not.
    array = f"{_from_json(line, f'ARRAY<STRUCT<{schema}>>', given)} IS NOT NULL"
    return f"CASE WHEN startswith(ltrim({line}), '[') THEN {array} ELSE {record} END"


def _ends_with_its_only_brace(line: str) -> str:
    """Return whether a line is a flat object without a brace in its texts, which need not be parsed again."""
    before = f"substring(CAST({line} AS BINARY), 1, octet_length({line}) - 1)"
    return f"endswith({line}, '}}') AND NOT contains({before}, X'7D')"


def _is_not_one_value(line: str, options: Mapping[str, str]) -> str:
    # An element of an array, before another one; a comment may go to the end of the line.
    array = f"concat('[', {line}, decode(X'0A', 'UTF-8'), ',0]')"
    forms = {name: value for name, value in options.items() if name.lower().startswith("allow")}
    # The first function is quick, and knows neither comments nor names without quotes.
    strictly = f"coalesce(json_array_length({array}) = 2, false)"
    wrapped = f"concat({text_literal(_VALUES)}, {array}, '}}')"
    leniently = f"coalesce(size({_from_json(wrapped, 'values ARRAY<STRING>', forms)}.values) = 2, false)"
    return f"NOT {strictly} AND NOT {leniently}"


def _from_json(text: str, schema: str, options: Mapping[str, str]) -> str:
    given = ", ".join(text_literal(part) for pair in options.items() for part in map(str, pair))
    return f"from_json({text}, {text_literal(schema)}{f', map({given})' if given else ''})"
