"""Numbers in the JSON of an event, of which a map of texts shows neither the quotes nor more digits than a double has.

A decimal is bytes in base64, digits in quotes, or a number without them: ``decimal.handling.mode`` of the connector and
``decimal.format`` of its converter say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.debezium_connector import DecimalHandling
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import DebeziumStream, row_fields
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import DECIMAL, NUMBERS
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

# Of base64 each four characters are three bytes.
_DIGITS_IN_BASE64 = r"(?:[0-9E+]{4})++"
_FRACTION = r"-?[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?"
_MEMBER = rf'"([^"\\]++)"\s*+:\s*+({_FRACTION})'
# A text or a column may be called as a row is, so that the brace has to follow.
_AFTER = r'(?s)"after"\s*+:\s*+\{.*+'
_BEFORE = r'(?s)"before"\s*+:\s*+\{.*+'
# A double may round more than 15 digits.
_LONG_FRACTION = r"[:,\[]\s*+-?(?=[0-9.]{17})[0-9]++\.[0-9]"


def ambiguous_columns(source: DebeziumStream, image: Column, line: Column) -> Column:
    """Return the columns whose text is a number by its quotes, and bytes by its type, or the other way round.

    :param image: row of the event, a map of texts; ``schema`` is beside it.
    :param line: JSON that has the row.
    """

    def is_bare_decimal(field: Column) -> Column:
        is_decimal = sf.coalesce(field["name"], field["items"]["name"]) == DECIMAL
        return is_decimal & _is_bare_number(line, field["field"], sf.element_at(image, field["field"]))

    # Over the fields of the schema: those of the image would look for each name in it.
    by_schema = sf.transform(sf.filter(row_fields(), is_bare_decimal), lambda field: field["field"])
    if source.decimal_handling_mode in (DecimalHandling.DOUBLE, DecimalHandling.STRING):
        return by_schema
    in_quotes = sf.map_filter(image, lambda name, text: _may_be_base64(line, name, text))
    return sf.when(sf.col("schema").isNull(), sf.map_keys(in_quotes)).otherwise(by_schema)


def with_all_digits(row: Column, line: Column, doubles: Sequence[str]) -> Column:
    """Return a map of texts in which numbers have the digits of the line: Spark's parser rounds fractions to a double.

    So have those of an array of numbers. In other arrays, and in objects, they stay rounded.

    :param row: map of texts, ``after`` of the line.
    :param doubles: names of columns that become a double, in lower case: theirs stay rounded, too.
    """
    # A row from before the change stands first, and may have another number that is the same double.
    tail = sf.regexp_extract(line, _AFTER, 0)
    any_rounded = sf.size(sf.map_filter(row, lambda name, text: _may_be_rounded(name, text, doubles))) > 0
    return sf.when(line.rlike(_LONG_FRACTION) & any_rounded, _of_line(row, tail, doubles)).otherwise(row)


def keys_with_all_digits(
    row: Column, line: Column, doubles: Sequence[str], keys: Sequence[str], *, is_before: bool = False
) -> Column:
    """Return a map of texts in which the numbers of key columns have the digits of the line.

    :param row: map of texts, of a row whose other columns nobody reads.
    :param is_before: whether it is ``before`` of the line; else the line is the row.
    """
    # Few keys are fractions, so the line is looked at last.
    texts = (sf.element_at(row, key) for key in keys if key.lower() not in doubles)
    any_rounded = reduce(
        or_, (sf.coalesce(text.rlike(f"^{_FRACTION}$"), sf.lit(False)) for text in texts), sf.lit(False)
    )
    tail = sf.regexp_extract(line, _BEFORE, 0) if is_before else line
    return sf.when(any_rounded & line.rlike(_LONG_FRACTION), _of_line(row, tail, doubles)).otherwise(row)


def _may_be_rounded(name: Column, text: Column, doubles: Sequence[str]) -> Column:
    return ~sf.lower(name).isin(*doubles) & text.rlike(f"^(?:{_FRACTION}|{NUMBERS})$")


def _of_line(row: Column, tail: Column, doubles: Sequence[str]) -> Column:
    """Return the row with the digits that its numbers have in a part of the line, which begins with it."""
    # Bound once for a line: in the function of a map they would be looked for at each column.
    members = sf.struct(
        *(sf.regexp_extract_all(tail, sf.lit(_MEMBER), sf.lit(part)).alias(f"g{part}") for part in (1, 2))
    )

    def exact(pair: Column) -> Column:
        def digits(name: Column, text: Column) -> Column:
            number, array = _exact(pair, tail, name, text), _of_array(tail, name, text)
            exact_text = sf.when(text.startswith("["), array).otherwise(number)
            return sf.when(_may_be_rounded(name, text, doubles), exact_text).otherwise(text)

        return sf.transform_values(row, digits)

    return sf.get(sf.transform(sf.array(members), exact), sf.lit(0))


def _exact(members: Column, tail: Column, name: Column, text: Column) -> Column:
    # PySpark's own takes no column in Spark 3.5.
    place = sf.call_function("array_position", members["g1"], name)
    number = sf.get(members["g2"], (place - 1).cast("int"))
    exact = sf.when(_is_same(number, text), number).otherwise(_of_other_member(tail, name, text))
    return sf.when((number == text) | number.isNull(), text).otherwise(exact)


def _of_other_member(tail: Column, name: Column, text: Column) -> Column:
    """Return the number behind any member of that name, where the first one is inside another value."""
    numbers = sf.transform(_behind(tail, name), lambda part: sf.regexp_extract(part, rf"^\s*+({_FRACTION})", 1))
    return sf.coalesce(sf.get(sf.filter(numbers, lambda number: _is_same(number, text)), sf.lit(0)), text)


def _of_array(tail: Column, name: Column, text: Column) -> Column:
    """Return the array behind a member of that name; where the line has a text there, it has no such array."""

    def doubles(array: Column) -> Column:
        return sf.from_json(array, "ARRAY<DOUBLE>")

    arrays = sf.transform(_behind(tail, name), lambda part: sf.regexp_extract(part, rf"^\s*+({NUMBERS})", 1))
    return sf.coalesce(sf.get(sf.filter(arrays, lambda array: doubles(array) == doubles(text)), sf.lit(0)), text)


def _behind(tail: Column, name: Column) -> Column:
    """Return what stands before and behind each member of a name."""
    member = sf.concat(sf.lit('\\Q"'), sf.replace(name, sf.lit("\\"), sf.lit("")), sf.lit(r'"\E\s*+:'))
    return sf.call_function("split", tail, member)


def _is_same(number: Column, text: Column) -> Column:
    return try_cast(number, "double") == try_cast(text, "double")


def _may_be_base64(line: Column, name: Column, text: Column) -> Column:
    in_array = text.startswith("[") & text.rlike(f'"{_DIGITS_IN_BASE64}"')
    return in_array | (text.rlike(f"^{_DIGITS_IN_BASE64}$") & ~_is_bare(line, name, text))


def _is_bare_number(line: Column, name: Column, text: Column) -> Column:
    in_array = text.startswith("[") & text.rlike(r"[\[,]\s*+-?[0-9]")
    return in_array | (text.rlike("^-?[0-9.]++") & _is_bare(line, name, text))


def _is_bare(line: Column, name: Column, number: Column) -> Column:
    """Return whether a number of an object has no quotes in a line; spaces are as the usual writers set them."""
    forms = [(colon, end) for colon in ('":', '": ') for end in (",", "}")]
    quote = sf.lit('"')
    members = (sf.concat(quote, name, sf.lit(colon), number, sf.lit(end)) for colon, end in forms)
    return reduce(or_, (sf.contains(line, member) for member in members))
