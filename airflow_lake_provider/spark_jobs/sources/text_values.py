"""Values of CSV and JSON that Spark's readers change without a word: read as text, and converted where nothing is lost.

Spark rounds decimals, takes the comma out of ``1,5``, cuts times off dates and nanoseconds off times, and makes
infinity of ``1e400``. It takes ``10:00`` for a time of today, and ``2024`` for the first day of the year.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, matches, quoted_name, text_literal, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import types_inside
from airflow_lake_provider.spark_jobs.sql.older_pyspark import keeps_number_texts

# Options with which an author says how values of a type are written: then Spark's reader has them.
_OPTIONS_OF_FORMAT: dict[type[DataType], set[str]] = {
    DecimalType: {"locale"},
    DateType: {"dateformat"},
    TimestampType: {"timestampformat", "timezone"},
    TimestampNTZType: {"timestampntzformat"},
    DoubleType: set(),
    FloatType: set(),
}
# Words of numbers, by the option that says how they are written.
_WORDS = {"nanvalue": "NaN", "positiveinf": "Infinity", "negativeinf": "-Infinity"}
_TIMES_OF_DAYS = (TimestampType, TimestampNTZType)
# In JSON these come as numbers, whose digits not every Spark keeps.
_NUMBERS = (DecimalType, DoubleType, FloatType)
BEGINS_WITH_DAY = r"^\s*+[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_MIDNIGHT = rf"{BEGINS_WITH_DAY}(?:[T ]00:00(?::00(?:\.0*+)?)?(?: ?(?:Z|UTC|[+-][0-9]{{2}}:?[0-9]{{2}}))?)?\s*+$"
# Without a zone, which Spark drops from a time that has none.
WITHOUT_ZONE = rf"{BEGINS_WITH_DAY}(?:[T ][0-9]{{1,2}}:[0-9]{{1,2}}(?::[0-9]{{1,2}}(?:\.[0-9]*+)?)?)?\s*+$"
# Three letters have many meanings, of which Java takes one: BST is Dhaka's time, and PST in July is PDT.
LETTERS_FOR_ZONE = r"(?<![A-Za-z_/-])(?!UTC|GMT|UCT|EST|MST|HST)[A-Z]{3}\s*+$"
_NANOSECONDS = r"\.[0-9]{6}0*+[1-9]"
# 20240102, and with hours and minutes.
_DAY_IN_DIGITS = r"(?:19|20|21)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])[0-5][0-9])?"
# Seconds since 1970; four digits may be a year, and others a day.
_SECONDS = rf"^-?(?!{_DAY_IN_DIGITS}$)(?:[0-9]{{1,3}}|[0-9]{{5,12}})$"
# More digits may have no DOUBLE of their own.
_SURE_DIGITS = 15
_LONG_INTEGER = rf"^\s*+[+-]?+[0-9]{{{_SURE_DIGITS + 1},}}+\s*+$"
# As text has one that Spark casts to a number, and none that Java alone takes.
NUMBER = r"(?i)^\s*+(?:[+-]?+(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:e[+-]?+[0-9]++)?+|nan)\s*+$"
# In JSON; without the zeros at its end, as a double has none. Words are none of JSON, and Spark takes them.
_MAY_BE_ROUNDED = (
    r"[:,\[]\s*+([+-]?(?:NaN|INF|Infinity|[0-9.]++[eE]\+?[0-9]{3}|[0-9]{16,}+[eE][+-]?[0-9]++"
    r"|(?=[0-9.]{17})[0-9]++\.[0-9]*[1-9](?:[eE][+-]?[0-9]++)?))"
)
_INFINITE = ("infinity", "+infinity", "-infinity", "inf", "+inf", "-inf")


def read_as(declared: DataType, kind: str, options: Mapping[str, str]) -> DataType:
    """Return the type to read a column or a nested field in: text where Spark's reader would change a value.

    :param kind: ``csv`` or ``json``.
    :param options: of the reader, by lower-case name.
    """
    match declared:
        case StructType():
            fields = ((field.name, read_as(field.dataType, kind, options)) for field in declared)
            return StructType([StructField(*field) for field in fields])
        case ArrayType():
            return ArrayType(read_as(declared.elementType, kind, options))
        case MapType():
            return MapType(declared.keyType, read_as(declared.valueType, kind, options))
    if isinstance(declared, (IntegralType, BooleanType)):
        # A quoted text without a sign is a value in a column of texts, and none in any other.
        return StringType() if kind == "csv" else declared
    options_of_format = _OPTIONS_OF_FORMAT.get(type(declared))
    if options_of_format is None or options_of_format & options.keys():
        return declared
    is_kept = kind == "csv" or not isinstance(declared, _NUMBERS) or keeps_number_texts()
    return StringType() if is_kept else declared


def options_made_plain(options: Mapping[str, str]) -> set[str]:
    """Return the options that :func:`plain_text` takes away from Spark's reader."""
    zone = options.get("timezone", "")
    # A time with three letters for its zone is refused below.
    return {"locale", *(("timezone",) if zone and not re.search(LETTERS_FOR_ZONE, zone) else ())}


def plain_text(text: str, declared: DataType, options: Mapping[str, str], signs: tuple[str, str] | None) -> str:
    """Return SQL of a text with its number or time as SQL writes it.

    A number that is not written as the options say is none. A time without a zone is of the one of the options.

    :param options: of the reader, by lower-case name.
    :param signs: before a fraction and between thousands, where a locale says them.
    """
    if isinstance(declared, (StructType, ArrayType, MapType)):
        return _plain_times(text, declared, options)
    if isinstance(declared, TimestampType) and "timestampformat" not in options:
        if "timezone" not in options_made_plain(options):
            return text
        # Before a zone Spark takes whole times alone.
        rest = f"CASE size(split({text}, ':')) WHEN 1 THEN ' 00:00:00' WHEN 2 THEN ':00' ELSE '' END"
        in_zone = f"concat(rtrim({text}), {rest}, {text_literal(' ' + options['timezone'])})"
        return f"CASE WHEN {matches(text, WITHOUT_ZONE)} THEN {in_zone} ELSE {text} END"
    if isinstance(declared, (DoubleType, FloatType)):
        words = {options[name]: word for name, word in _WORDS.items() if name in options}
        cases = " ".join(f"WHEN {text_literal(given)} THEN '{word}'" for given, word in words.items())
        return f"CASE {text} {cases} ELSE {text} END" if cases else text
    if not isinstance(declared, DecimalType) or signs is None:
        return text
    point, group = map(re.escape, signs)
    # In India each hundred of thousands is a group: 12,34,567.
    fewest = 2 if options["locale"].upper().endswith("-IN") else 3
    digits = f"(?:[0-9]++|[0-9]{{1,3}}(?:{group}[0-9]{{{fewest},3}})*{group}[0-9]{{3}})?"
    is_written_so = matches(text, rf"^\s*+[+-]?{digits}(?:{point}[0-9]*+)?(?:[eE][+-]?[0-9]++)?\s*+$")
    plain = f"replace(replace({text}, {text_literal(signs[1])}, ''), {text_literal(signs[0])}, '.')"
    return f"CASE WHEN {is_written_so} THEN {plain} ELSE concat('?', {text}) END"


def _plain_times(value: str, declared: DataType, options: Mapping[str, str], depth: int = 0) -> str:
    """Return SQL of a value with each time inside of it as SQL writes it; all others are as they were read."""
    item = f"x{depth}"
    match declared:
        case StructType():
            texts = [_plain_times(_field(value, field), field.dataType, options, depth) for field in declared]
            if texts == [_field(value, field) for field in declared]:
                return value
            parts = (f"{text} AS {quoted_name(field.name)}" for text, field in zip(texts, declared, strict=True))
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
        case ArrayType():
            inner = _plain_times(item, declared.elementType, options, depth + 1)
            return value if inner == item else f"transform({value}, {item} -> {inner})"
        case MapType():
            inner = _plain_times(item, declared.valueType, options, depth + 1)
            return value if inner == item else f"transform_values({value}, (k{depth}, {item}) -> {inner})"
    return plain_text(value, declared, options, None) if isinstance(declared, TimestampType) else value


def converted(value: str, read: DataType, declared: DataType, kind: str, depth: int = 0) -> str:
    """Return SQL of a value in its declared type; one that :func:`is_lost` tells may be NULL, or any other.

    :param value: SQL of the value as it was read.
    :param depth: of lambdas around it.
    """
    if read == declared:
        return value
    if kind == "csv" or not any(isinstance(each, TimestampType) for each in types_inside(declared)):
        # Of a nested value too; Spark compiles it, where a lambda is interpreted.
        return f"try_cast({value} AS {type_text(declared)})"
    item = f"x{depth}"
    match declared, read:
        case StructType(), StructType():
            parts = ", ".join(
                f"{converted(_field(value, had), had.dataType, f.dataType, kind, depth)} AS {quoted_name(f.name)}"
                for had, f in zip(read, declared, strict=True)
            )
            return f"CASE WHEN {value} IS NOT NULL THEN struct({parts}) END"
        case ArrayType(), ArrayType():
            inner = converted(item, read.elementType, declared.elementType, kind, depth + 1)
            return f"transform({value}, {item} -> {inner})"
        case MapType(), MapType():
            inner = converted(item, read.valueType, declared.valueType, kind, depth + 1)
            return f"transform_values({value}, (k{depth}, {item}) -> {inner})"
    fitted = f"try_cast({value} AS TIMESTAMP)"
    seconds = f"timestamp_seconds(try_cast(CASE WHEN {matches(value, _SECONDS)} THEN {value} END AS BIGINT))"
    return f"CASE WHEN {_has_dashes(value)} THEN {fitted} ELSE coalesce({seconds}, {fitted}) END"


def is_lost(value: str, result: str, read: DataType, declared: DataType, kind: str, depth: int = 0) -> str:
    """Return the condition that a value did not come through :func:`converted`.

    :param result: SQL of what it returned.
    """
    if read == declared:
        return "false"
    if isinstance(declared, StructType) and isinstance(read, StructType):
        pairs = zip(read, declared, strict=True)
        return any_of(
            is_lost(_field(value, had), _field(result, f), had.dataType, f.dataType, kind, depth)
            for had, f in pairs
            if had.dataType != f.dataType
        )
    inner = _elements(value, read, declared)
    if inner is not None:
        items, had_type, wanted = inner
        item = f"x{depth}"
        made = converted(item, had_type, wanted, kind, depth + 1)
        return f"coalesce(exists({items}, {item} -> {is_lost(item, made, had_type, wanted, kind, depth + 1)}), false)"
    is_given = f"{value} <> ''" if kind == "csv" else f"{value} IS NOT NULL"
    return f"coalesce({is_given}, false) AND NOT coalesce({_is_exact(value, result, declared, kind)}, false)"


def may_be_lost(value: str, result: str, read: DataType, declared: DataType) -> str:
    """Return a quick condition without which nothing is lost: a nested value is not what its result is as text.

    :param result: SQL of what :func:`converted` returned.
    """
    inside = list(types_inside(declared))
    # Maps cannot be compared, and a date may be out of range, but written as Spark does.
    if len(inside) == 1 or any(isinstance(each, (MapType, DateType, *_TIMES_OF_DAYS)) for each in inside):
        return "true"
    return f"NOT coalesce({value} = CAST({result} AS {type_text(read)}), false)"


def rounds_integer(text: str, fitted: str, read: DataType, inferred: DataType, depth: int = 0) -> str:
    """Return the condition that an inferred ``DOUBLE`` is another number than the integer of its text.

    Nobody has said that the nearest number will do: an integer is a number of something, or an identity.

    :param text: SQL of the value as it was read, and ``fitted`` of what was made of it.
    """
    item = f"x{depth}"
    match inferred, read:
        case StructType(), StructType():
            pairs = [(had, f) for had, f in zip(read, inferred, strict=True) if had.dataType != f.dataType]
            return any_of(
                rounds_integer(_field(text, had), _field(fitted, f), had.dataType, f.dataType, depth)
                for had, f in pairs
            )
        case ArrayType(), ArrayType() if read != inferred:
            made = converted(item, read.elementType, inferred.elementType, "json", depth + 1)
            inner = rounds_integer(item, made, read.elementType, inferred.elementType, depth + 1)
            return f"coalesce(exists({text}, {item} -> {inner}), false)"
        case DoubleType(), StringType():
            return f"coalesce({_is_another_integer(text, fitted)}, false)"
    return "false"


def _is_another_integer(text: str, fitted: str) -> str:
    whole = "DECIMAL(38, 0)"
    is_equal = f"coalesce(try_cast({text} AS {whole}) = try_cast({fitted} AS {whole}), false)"
    # A writer of floats fills up with zeros behind the digits that tell the number: 1e300 has 301 digits.
    digits = f"trim(TRAILING '0 ' FROM trim(LEADING '+-0 ' FROM {text}))"
    digits_of_fitted = f"replace(substring_index(CAST(abs({fitted}) AS STRING), 'E', 1), '.', '')"
    shortest = f"trim(TRAILING '0' FROM {digits_of_fitted})"
    is_long = f"octet_length({text}) > {_SURE_DIGITS} AND {matches(text, _LONG_INTEGER)}"
    return f"{is_long} AND NOT {is_equal} AND {digits} <> {shortest}"


def is_rounded(line: str, value: str, declared: DataType, depth: int = 0) -> str:
    """Return the condition that a number lost digits as it became the text of a value.

    Spark's function ``from_json`` makes a double of each fraction, where the reader of files keeps its text.

    :param line: SQL of the JSON that the value was parsed from.
    :param value: SQL of the value, read as :func:`read_as` says.
    """
    item = f"x{depth}"
    match declared:
        case StructType():
            return any_of(
                inner for f in declared if (inner := is_rounded(line, _field(value, f), f.dataType, depth)) != "false"
            )
        case ArrayType() | MapType():
            kind = declared.elementType if isinstance(declared, ArrayType) else declared.valueType
            items = value if isinstance(declared, ArrayType) else f"map_values({value})"
            inner = is_rounded(line, item, kind, depth + 1)
            return inner if inner == "false" else f"coalesce(exists({items}, {item} -> {inner}), false)"
        case StringType() | DecimalType():
            # Of a number beyond all doubles the text is a word in quotes.
            double = "CAST(try_cast(number AS DOUBLE) AS STRING)"
            is_word = f"({double} RLIKE '[yN]$' AND contains({value}, concat('\"', {double}, '\"')))"
            is_other = f"(contains({value}, {double}) AND NOT contains({value}, number))"
            numbers = f"regexp_extract_all({line}, {text_literal(_MAY_BE_ROUNDED)}, 1)"
            return f"coalesce(exists({numbers}, number -> {is_word} OR {is_other}), false)"
    return "false"


def may_be_rounded(line: str) -> str:
    """Return a quick condition without which no number of a line :func:`is_rounded`."""
    return matches(line, _MAY_BE_ROUNDED)


def in_range(time: str, kind: DataType) -> str:
    """Return the condition that a date or time is of the years 1 to 9999, which Python and PyIceberg can read."""
    name = type_text(kind).upper()
    first, last = ("0001-01-01", "9999-12-31")
    if not isinstance(kind, DateType):
        first, last = (f"{first} 00:00:00", f"{last} 23:59:59.999999")
    return f"{time} BETWEEN {name}'{first}' AND {name}'{last}'"


def _field(value: str, field: StructField) -> str:
    return f"{value}.{quoted_name(field.name)}"


def _elements(value: str, read: DataType, declared: DataType) -> tuple[str, DataType, DataType] | None:
    if isinstance(read, ArrayType) and isinstance(declared, ArrayType):
        return value, read.elementType, declared.elementType
    if isinstance(read, MapType) and isinstance(declared, MapType):
        return f"map_values({value})", read.valueType, declared.valueType
    return None


def _is_exact(text: str, fitted: str, declared: DataType, kind: str) -> str:
    """Return the condition that a value has all digits of its text; the regular expressions come last."""
    match declared:
        case DecimalType():
            return f"{fitted} IS NOT NULL AND {_fits(text, declared.scale)}"
        case DateType():
            is_plain = f"octet_length({text}) = 10 AND {_has_dashes(text)}"
            is_day = f"({is_plain} AND NOT contains({text}, 'T') AND NOT contains({text}, ' '))"
            return f"{in_range(fitted, declared)} AND ({is_day} OR {matches(text, _MIDNIGHT)})"
        case TimestampType() | TimestampNTZType():
            return f"{in_range(fitted, declared)} AND {_is_exact_time(text, declared, kind)}"
        case DoubleType() | FloatType():
            names = ", ".join(f"'{name}'" for name in _INFINITE)
            is_finite = f"abs({fitted}) <> double('Infinity') AND ({_is_decimal_number(text)})"
            return f"{is_finite} OR lower(trim({text})) IN ({names})"
        case BooleanType():
            return f"{fitted} IS NOT NULL AND lower({text}) IN ('true', 'false')"
    return f"{fitted} IS NOT NULL"


def _is_decimal_number(text: str) -> str:
    """Return whether a number is written in decimals: Java also reads the seat 12D, 7F and 0x1p3 as numbers."""
    is_plain = f"right({text}, 1) BETWEEN '0' AND '9' AND NOT contains({text}, 'x') AND NOT contains({text}, 'X')"
    return f"({is_plain}) OR {matches(text, NUMBER)}"


def _fits(text: str, scale: int) -> str:
    """Return whether a decimal has no digit but zeros behind its scale, with an exponent too."""
    point = f"instr({text}, '.')"
    is_plain = f"NOT contains({text}, 'e') AND NOT contains({text}, 'E')"
    is_short = f"({point} = 0 OR octet_length({text}) - {point} <= {scale})"
    parts = f"lower(trim({text}))"
    mantissa = f"substring_index({parts}, 'e', 1)"
    fraction = f"CASE WHEN {point} > 0 THEN substring_index({mantissa}, '.', -1) ELSE '' END"
    exponent = f"CASE WHEN {is_plain} THEN 0 ELSE try_cast(substring_index({parts}, 'e', -1) AS INT) END"
    return f"(({is_plain} AND {is_short}) OR length(trim(TRAILING '0' FROM {fraction})) - ({exponent}) <= {scale})"


def _is_exact_time(text: str, declared: DataType, kind: str) -> str:
    # 2024-01-02T10:00:00, and up to seven signs more: too few for a digit of nanoseconds.
    is_plain = f"octet_length({text}) BETWEEN 17 AND 26 AND {_has_dashes(text)} AND substring({text}, 17, 1) = ':'"
    is_plain = f"{is_plain} AND (right({text}, 1) BETWEEN '0' AND '9' OR right({text}, 1) = 'Z')"
    has_day = matches(text, BEGINS_WITH_DAY)
    if isinstance(declared, TimestampNTZType):
        # The plain one may have a zone.
        is_plain, has_day = "false", matches(text, WITHOUT_ZONE)
    slowly = f"({has_day} AND NOT {matches(text, _NANOSECONDS)} AND NOT {matches(text, LETTERS_FOR_ZONE)})"
    may_be_seconds = kind == "json" and isinstance(declared, TimestampType)
    seconds = f" OR {matches(text, _SECONDS)}" if may_be_seconds else ""
    return f"(({is_plain}) OR {slowly}{seconds})"


def _has_dashes(text: str) -> str:
    """Return whether a text begins with a date such as 2024-01-02."""
    return f"substring({text}, 5, 1) = '-' AND substring({text}, 8, 1) = '-'"
