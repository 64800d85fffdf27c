"""JSON text of a change event to a value of the column's type; what does not convert is NULL here and told apart."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.sources.debezium.types import (
    DECIMAL,
    TIMESTAMP_UNITS,
    VARIABLE_DECIMAL,
    ConnectType,
)
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

_NUMBER = r"^\s*+[+-]?+\d++\s*+$"
_TWO_TO_64 = "18446744073709551616"


def convert(text: Column, target: types.DataType, connect: ConnectType | None) -> Column:
    """Return the value, or NULL where the text does not stand for a value of the target.

    :param text: JSON text of the value, strings without their quotes; NULL for null.
    :param target: type of the column.
    :param connect: its connect type in this event; None where events carry no schema.
    :raises UnsupportedError: a target type that no value of an event converts to.
    """
    if isinstance(target, types.ArrayType):
        items = connect.items if connect else None
        return sf.transform(_elements(text), lambda item: convert(item, target.elementType, items))
    if (
        connect
        and connect.name in TIMESTAMP_UNITS
        and isinstance(target, (types.TimestampType, types.TimestampNTZType))
    ):
        return _epoch(text, TIMESTAMP_UNITS[connect.name]).cast(target)
    if connect and connect.name == DECIMAL:
        text = _decimal_text(text, sf.lit(connect.scale or 0))
    if connect and connect.name == VARIABLE_DECIMAL:
        fields = sf.from_json(text, "scale INT, value STRING")
        text = _decimal_text(fields["value"], fields["scale"])
    return _converter(target)(text)


def not_converted(text: Column, value: Column, target: types.DataType) -> Column:
    """Tell whether a text that is there has no value, or an element of it."""
    lost = text.isNotNull() & value.isNull()
    if not isinstance(target, types.ArrayType):
        return lost
    pairs = sf.arrays_zip(_elements(text).alias("text"), value.alias("value"))
    inner = sf.exists(pairs, lambda pair: not_converted(pair["text"], pair["value"], target.elementType))
    return lost | sf.coalesce(inner, sf.lit(False))


def _elements(text: Column) -> Column:
    return sf.from_json(text, "ARRAY<STRING>")


def _converter(target: types.DataType) -> Callable[[Column], Column]:
    if isinstance(target, types.DecimalType):
        return lambda text: _decimal(text, target)
    if isinstance(target, types.MapType):
        return lambda text: try_cast(sf.from_json(text, "MAP<STRING, STRING>"), target)
    converters: dict[type[types.DataType], Callable[[Column], Column]] = {
        types.StringType: lambda text: text,
        types.BinaryType: lambda text: sf.try_to_binary(text, sf.lit("base64")),
        types.DateType: _date,
        types.TimestampType: _timestamp,
        types.TimestampNTZType: lambda text: _timestamp(text).cast("timestamp_ntz"),
    }
    if type(target) in converters:
        return converters[type(target)]
    if isinstance(target, (types.FloatType, types.DoubleType)):
        return lambda text: try_cast(_spelled_as_spark_does(text), target)
    if isinstance(target, (types.NumericType, types.BooleanType)):
        return lambda text: try_cast(text, target)
    raise UnsupportedError(
        f"values of change events cannot be turned into {target.simpleString()}; give the column a type of numbers, "
        "text, bytes, dates, timestamps, or arrays of these"
    )


def _decimal(text: Column, target: types.DecimalType) -> Column:
    # A cast rounds what has too many digits behind the point. Numbers in exponent form come from doubles anyway.
    fits = text.rlike(rf"^\s*+[+-]?+\d*+(\.\d{{0,{target.scale}}}+0*+)?+\s*+$") | text.rlike("[eE]")
    return sf.when(fits, try_cast(text, target))


def _spelled_as_spark_does(text: Column) -> Column:
    # What decimal.handling.mode=string makes of a numeric's infinity; its NAN is read without case.
    return sf.regexp_replace(sf.regexp_replace(text, "^POSITIVE_", ""), "^NEGATIVE_", "-")


def _date(text: Column) -> Column:
    days = sf.date_from_unix_date(try_cast(text, "int"))
    return sf.when(text.rlike(_NUMBER), days).otherwise(try_cast(text, "date"))


def _timestamp(text: Column) -> Column:
    # A bare number has no unit unless its connect type says it, and Spark would read a short one as a year.
    return sf.when(~text.rlike(_NUMBER), try_cast(text, "timestamp"))


def _epoch(text: Column, per_second: int) -> Column:
    number = try_cast(text, "bigint")
    if per_second == 1_000:
        return sf.timestamp_millis(number)
    if per_second == 1_000_000:
        return sf.timestamp_micros(number)
    # Rounded down, also before 1970: Spark keeps microseconds.
    return sf.timestamp_micros(sf.floor(number / sf.lit(1_000).cast("decimal(4,0)")).cast("bigint"))


def _decimal_text(text: Column, scale: Column) -> Column:
    """Two's complement in base64, at most 16 bytes, to the plain decimal text."""
    digits = sf.hex(sf.try_to_binary(text, sf.lit("base64")))
    negative = digits.rlike("^[89A-F]")
    padded = sf.call_function("lpad", digits, sf.lit(32), sf.when(negative, sf.lit("F")).otherwise(sf.lit("0")))
    two_to_64 = sf.lit(_TWO_TO_64).cast("decimal(20,0)")
    # Both halves have the sign of the number: a product further from zero than the number may have 39 digits.
    carried = sf.when(negative, sf.lit(1)).otherwise(sf.lit(0))
    high = (sf.conv(sf.substring(padded, 1, 16), 16, -10).cast("decimal(20,0)") + carried).cast("decimal(20,0)")
    low = sf.conv(sf.substring(padded, 17, 16), 16, 10).cast("decimal(20,0)") - two_to_64 * carried
    unscaled = sf.try_add(sf.try_multiply(high, two_to_64), low.cast("decimal(38,0)"))
    return sf.when((sf.length(digits) > 0) & (sf.length(digits) <= 32), _with_point(unscaled.cast("string"), scale))


def _with_point(unscaled: Column, scale: Column) -> Column:
    sign = sf.when(unscaled.startswith("-"), sf.lit("-")).otherwise(sf.lit(""))
    digits = sf.call_function("ltrim", sf.lit("-"), unscaled)
    digits = sf.call_function("lpad", digits, sf.greatest(sf.length(digits), scale + 1), sf.lit("0"))
    whole = sf.left(digits, sf.length(digits) - scale)
    return sf.when(scale == 0, unscaled).otherwise(sf.concat(sign, whole, sf.lit("."), sf.right(digits, scale)))
