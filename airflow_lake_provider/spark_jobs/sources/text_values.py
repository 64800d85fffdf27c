"""Values of CSV and JSON that Spark's readers change without a word: read as text, and converted where nothing is lost.

Spark rounds decimals and takes the comma out of ``1,5``, cuts times off dates, takes ``10:00`` for a time of today and
``2024`` for its first day, cuts nanoseconds off, and makes infinity of ``1e400``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sf
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

from airflow_lake_provider.spark_jobs.sql.older_pyspark import keeps_number_texts, try_cast

_TIMES = {"locale", "enabledatetimeparsingfallback"}
# Options with which an author says how values of a type are written: then Spark's reader has them.
_SAID_BY: dict[type[DataType], set[str]] = {
    DecimalType: {"locale"},
    DateType: {"dateformat", *_TIMES},
    TimestampType: {"timestampformat", "timezone", *_TIMES},
    TimestampNTZType: {"timestampntzformat", *_TIMES},
    DoubleType: {"nanvalue", "positiveinf", "negativeinf"},
    FloatType: {"nanvalue", "positiveinf", "negativeinf"},
}
# In JSON these come as numbers, whose digits not every Spark keeps.
_NUMBERS = (DecimalType, DoubleType, FloatType)
_DAY = r"^\s*+[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_MIDNIGHT = rf"{_DAY}(?:[T ]00:00(?::00(?:\.0*+)?)?(?: ?(?:Z|UTC|[+-][0-9]{{2}}:?[0-9]{{2}}))?)?\s*+$"
# Without a zone, which Spark drops from a time that has none.
_LOCAL = rf"{_DAY}(?:[T ][0-9]{{1,2}}:[0-9]{{1,2}}(?::[0-9]{{1,2}}(?:\.[0-9]*+)?)?)?\s*+$"
_NANOSECONDS = r"\.[0-9]{6}0*+[1-9]"
# Seconds since 1970; four digits may be a year.
_SECONDS = r"^-?(?:[0-9]{1,3}|[0-9]{5,12})$"
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
    said_by = _SAID_BY.get(type(declared))
    if said_by is None or said_by & options.keys():
        return declared
    is_kept = kind == "csv" or not isinstance(declared, _NUMBERS) or keeps_number_texts()
    return StringType() if is_kept else declared


def converted(value: Column, read: DataType, declared: DataType, kind: str) -> Column:
    """Return a value in its declared type; NULL, or with NULL inside, where it would be another one."""
    if read == declared:
        return value
    match declared, read:
        case StructType(), StructType():
            pairs = zip(read, declared, strict=True)
            parts = [converted(value[had.name], had.dataType, f.dataType, kind).alias(f.name) for had, f in pairs]
            return sf.when(value.isNotNull(), sf.struct(*parts))
        case ArrayType(), ArrayType():
            return sf.transform(value, lambda item: converted(item, read.elementType, declared.elementType, kind))
        case MapType(), MapType():
            return sf.transform_values(value, lambda _, item: converted(item, read.valueType, declared.valueType, kind))
        case ArrayType() | MapType() | StructType(), _:
            return value
    return _exact(value, declared, kind)


def is_lost(value: Column, result: Column, read: DataType, declared: DataType, kind: str) -> Column:
    """Tell whether a value did not come through :func:`converted`.

    :param result: what it returned.
    """
    if read == declared:
        return sf.lit(False)
    if isinstance(declared, StructType) and isinstance(read, StructType):
        lost = sf.lit(False)
        for had, field in zip(read, declared, strict=True):
            lost = lost | is_lost(value[had.name], result[field.name], had.dataType, field.dataType, kind)
        return sf.coalesce(lost, sf.lit(False))
    inner = _elements(value, read, declared)
    if inner is not None:
        items, had_type, wanted = inner
        return sf.coalesce(
            sf.exists(items, lambda i: is_lost(i, converted(i, had_type, wanted, kind), had_type, wanted, kind)),
            sf.lit(False),
        )
    is_given = value.isNotNull() if kind == "json" else value.isNotNull() & (value != "")
    return is_given & result.isNull()


def _elements(value: Column, read: DataType, declared: DataType) -> tuple[Column, DataType, DataType] | None:
    if isinstance(read, ArrayType) and isinstance(declared, ArrayType):
        return value, read.elementType, declared.elementType
    if isinstance(read, MapType) and isinstance(declared, MapType):
        return sf.map_values(value), read.valueType, declared.valueType
    return None


def _exact(text: Column, declared: DataType, kind: str) -> Column:
    fitted = try_cast(text, declared)
    match declared:
        case DecimalType():
            return sf.when(_fits(text, declared.scale), fitted)
        case DateType():
            is_day = (fitted.cast("string") == text) | text.rlike(_MIDNIGHT)
            return sf.when(is_day & sf.year(fitted).between(1, 9999), fitted)
        case TimestampType() | TimestampNTZType():
            return _time(text, fitted, declared, kind)
        case DoubleType() | FloatType():
            return sf.when(~sf.abs(fitted).isin(float("inf")) | sf.lower(sf.trim(text)).isin(*_INFINITE), fitted)
        case BooleanType():
            return sf.when(sf.lower(text).isin("true", "false"), fitted)
    return fitted


def _fits(text: Column, scale: int) -> Column:
    """Tell whether a decimal has no digit but zeros behind its scale, with an exponent too."""
    point = sf.instr(text, ".")
    is_plain = ~(text.contains("e") | text.contains("E"))
    is_short = is_plain & ((point == 0) | (sf.length(text) - point <= scale))
    parts = sf.lower(sf.trim(text))
    mantissa = sf.substring_index(parts, "e", 1)
    fraction = sf.when(point > 0, sf.substring_index(mantissa, ".", -1)).otherwise("")
    digits = sf.length(sf.call_function("rtrim", sf.lit("0"), fraction))
    exponent = sf.when(is_plain, sf.lit(0)).otherwise(try_cast(sf.substring_index(parts, "e", -1), "int"))
    return sf.when(is_short, sf.lit(True)).otherwise(digits - exponent <= scale)


def _time(text: Column, fitted: Column, declared: DataType, kind: str) -> Column:
    starts_with_day = (sf.substring(text, 5, 1) == "-") & (sf.substring(text, 8, 1) == "-")
    has_day = text.rlike(_LOCAL) if isinstance(declared, TimestampNTZType) else starts_with_day | text.rlike(_DAY)
    is_exact = has_day & ~text.rlike(_NANOSECONDS)
    time = sf.when(is_exact & sf.year(fitted).between(1, 9999), fitted)
    if kind == "csv" or not isinstance(declared, TimestampType):
        return time
    seconds = sf.timestamp_seconds(sf.when(text.rlike(_SECONDS), try_cast(text, "bigint")))
    in_range = sf.when(sf.year(seconds).between(1, 9999), seconds)
    return sf.when(starts_with_day, time).otherwise(sf.coalesce(in_range, time))
