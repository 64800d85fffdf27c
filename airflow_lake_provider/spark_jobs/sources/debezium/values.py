"""JSON text of a change event to a value of the column's type; what does not convert is NULL here and told apart."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.sources import BinaryHandling
from airflow_lake_provider.spark_jobs.sources.debezium.types import (
    DATES,
    DECIMAL,
    PLAIN_BYTES,
    TIMESTAMP_UNITS,
    VARIABLE_DECIMAL,
    ConnectType,
)
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

_NUMBER = r"^\s*+[+-]?+\d++\s*+$"
_TWO_TO_64 = "18446744073709551616"
# What Python, and so PyIceberg, can read: the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_SECOND, _END_SECOND = _FIRST_DAY * 86_400, (_LAST_DAY + 1) * 86_400
_MIDNIGHT = r"(?:[T ]00:00(?::00(?:\.0++)?)?)?"
_ISO_DATE = rf"^\s*+(\d{{4}}-\d{{1,2}}-\d{{1,2}}){_MIDNIGHT}(?:Z|[+-]00:00)?\s*+$"
# Spark would read a time of day as one of today.
_STARTS_WITH_DATE = r"^\s*+\d{4}-\d{1,2}-\d{1,2}(?:[T ]|\s*+$)"
_BELOW_MICROSECONDS = r"\.\d{6}0*+[1-9]"
_EXPONENT = r"^\s*+[+-]?(\d*+)(?:\.(\d*+))?[eE]([+-]?\d{1,6})\s*+$"
_MOST_NANOS = 2**63 - 1
_INFINITE = tuple(f"{sign}{name}" for sign in ("", "+", "-") for name in ("inf", "infinity"))
# Longer integers may have no float of their own.
_SURE_DIGITS: dict[type[types.DataType], int] = {types.FloatType: 7, types.DoubleType: 15}


def convert(
    text: Column, target: types.DataType, connect: ConnectType | None, binary: BinaryHandling | None = None
) -> Column:
    """Return the value, or NULL where the text does not stand for a value of the target.

    :param text: JSON text of the value, strings without their quotes; NULL for null.
    :param target: type of the column.
    :param connect: its connect type in this event; None where events carry no schema.
    :param binary: how bytes are written, where the author says it.
    :raises UnsupportedError: a target type that no value of an event converts to.
    """
    if isinstance(target, types.ArrayType):
        items = connect.items if connect else None
        return sf.transform(_elements(text), lambda item: convert(item, target.elementType, items, binary))
    if isinstance(target, types.MapType):
        return _map_of(text, target, connect, binary)
    if isinstance(target, types.BinaryType):
        return _bytes(text, connect, binary)
    if connect and connect.name in TIMESTAMP_UNITS:
        moment = _epoch(text, TIMESTAMP_UNITS[connect.name])
        if isinstance(target, (types.TimestampType, types.TimestampNTZType)):
            return moment.cast(target)
        if isinstance(target, types.DateType):
            of_day = try_cast(text, "bigint") % (86_400 * TIMESTAMP_UNITS[connect.name])
            return sf.when(of_day == 0, moment.cast(target))
    if isinstance(target, types.DateType):
        # Any other number has another meaning.
        return _date(text, may_be_days=connect is None or connect.name in DATES)
    if connect and connect.name in (DECIMAL, VARIABLE_DECIMAL):
        text = _unscaled_text(text, connect)
        # This text is long to write down, and has no exponent.
        return _plain_decimal(text, target) if isinstance(target, types.DecimalType) else _converter(target)(text)
    return _converter(target)(text)


def not_converted(text: Column, value: Column, target: types.DataType) -> Column:
    """Tell whether a text that is there has no value, or an element of it."""
    lost = text.isNotNull() & value.isNull()
    if isinstance(target, types.MapType):
        texts, values, kind = sf.map_values(_entries(text)), sf.map_values(value), target.valueType
    elif isinstance(target, types.ArrayType):
        texts, values, kind = _elements(text), value, target.elementType
    else:
        return lost
    pairs = sf.arrays_zip(texts.alias("text"), values.alias("value"))
    inner = sf.exists(pairs, lambda pair: not_converted(pair["text"], pair["value"], kind))
    return lost | sf.coalesce(inner, sf.lit(False))


def _elements(text: Column) -> Column:
    return sf.from_json(text, "ARRAY<STRING>")


def _entries(text: Column) -> Column:
    return sf.from_json(text, "MAP<STRING, STRING>")


def _map_of(text: Column, target: types.MapType, connect: ConnectType | None, binary: BinaryHandling | None) -> Column:
    """Return a map whose keys and values are converted as the text of a column is."""
    entries = _entries(text)
    # Of a connect type this is an hstore, whose keys and values are text.
    inner = connect and ConnectType("string")
    if isinstance(target.keyType, types.StringType):
        return sf.transform_values(entries, lambda _, value: convert(value, target.valueType, inner, binary))
    keys = sf.transform(sf.map_keys(entries), lambda key: convert(key, target.keyType, inner, binary))
    values = sf.transform(sf.map_values(entries), lambda value: convert(value, target.valueType, inner, binary))
    are_keys = ~sf.exists(keys, lambda key: key.isNull()) & (sf.size(sf.array_distinct(keys)) == sf.size(keys))
    return sf.when(are_keys, sf.map_from_arrays(keys, values))


def _converter(target: types.DataType) -> Callable[[Column], Column]:
    if isinstance(target, types.DecimalType):
        return lambda text: _decimal(text, target)
    converters: dict[type[types.DataType], Callable[[Column], Column]] = {
        types.StringType: lambda text: text,
        types.TimestampType: _timestamp,
        types.TimestampNTZType: lambda text: _timestamp(text).cast("timestamp_ntz"),
    }
    if type(target) in converters:
        return converters[type(target)]
    if isinstance(target, (types.FloatType, types.DoubleType)):
        return lambda text: _float(text, target)
    if isinstance(target, (types.NumericType, types.BooleanType)):
        return lambda text: try_cast(text, target)
    raise UnsupportedError(
        f"values of change events cannot be turned into {target.simpleString()}; give the column a type of numbers, "
        "text, bytes, dates, timestamps, or arrays of these"
    )


def _bytes(text: Column, connect: ConnectType | None, binary: BinaryHandling | None) -> Column:
    """Return bytes as the event has them: base64 of a connect type of bytes, else what the author says.

    Without either, a text that may be hex as well as base64 is neither.
    """
    base64 = sf.try_to_binary(text, sf.lit("base64"))
    if connect is not None and connect.kind == "bytes":
        return base64 if connect.name in PLAIN_BYTES else sf.lit(None).cast("binary")
    if connect is not None and (connect.kind, connect.name) != ("string", None):
        return sf.lit(None).cast("binary")
    is_hex = text.rlike("^[0-9A-Fa-f]*+$") & (sf.length(text) % 2 == 0)
    match binary:
        case BinaryHandling.HEX:
            return sf.when(is_hex, sf.try_to_binary(text, sf.lit("hex")))
        case BinaryHandling.BASE64:
            return base64
        case BinaryHandling.BASE64_URL_SAFE:
            return sf.try_to_binary(sf.translate(text, "-_", "+/"), sf.lit("base64"))
        case BinaryHandling.BYTES:
            return base64 if connect is None else sf.lit(None).cast("binary")
    return sf.when(~is_hex | (text == ""), base64) if connect is None else sf.lit(None).cast("binary")


def _unscaled_text(text: Column, connect: ConnectType) -> Column:
    if connect.name == DECIMAL:
        return _decimal_text(text, sf.lit(connect.scale or 0))
    fields = sf.from_json(text, "scale INT, value STRING")
    return _decimal_text(fields["value"], fields["scale"])


def _decimal(text: Column, target: types.DecimalType) -> Column:
    with_exponent = sf.when(_fits_with_exponent(text, target.scale), try_cast(text, target))
    return sf.when(text.rlike("[eE]"), with_exponent).otherwise(_plain_decimal(text, target))


def _plain_decimal(text: Column, target: types.DecimalType) -> Column:
    # A cast rounds what has too many digits behind the point.
    fits = text.rlike(rf"^\s*+[+-]?+\d*+(\.\d{{0,{target.scale}}}+0*+)?+\s*+$")
    return sf.when(fits, try_cast(text, target))


def _fits_with_exponent(text: Column, scale: int) -> Column:
    """Tell a number in exponent form whose last digit that is not 0 stands within the scale."""
    whole, fraction, exponent = (sf.regexp_extract(text, _EXPONENT, group) for group in (1, 2, 3))
    digits = sf.concat(whole, fraction)
    significant = sf.regexp_replace(digits, "(?<!0)0+$", "")
    zeros = sf.length(digits) - sf.length(significant)
    place = try_cast(exponent, "int") - sf.length(fraction) + zeros
    return text.rlike(_EXPONENT) & ((sf.length(significant) == 0) | (place >= -scale))


def _float(text: Column, target: types.DataType) -> Column:
    spelled = _spelled_as_spark_does(text)
    value = try_cast(spelled, target)
    whole = text.rlike(rf"^\s*+[+-]?\d{{{_SURE_DIGITS[type(target)] + 1},}}+\s*+$")
    # An integer is a number of something, or an identity: the nearest float is another one.
    is_same = try_cast(value, "decimal(38,0)") == try_cast(text, "decimal(38,0)")
    # A cast makes infinity of a number that is too great.
    is_finite = sf.abs(value) != float("inf")
    is_sound = is_finite | sf.lower(sf.trim(spelled)).isin(*_INFINITE)
    return sf.when(is_sound & (~whole | sf.coalesce(is_same, sf.lit(False))), value)


def _spelled_as_spark_does(text: Column) -> Column:
    # What decimal.handling.mode=string makes of a numeric's infinity; its NAN is read without case.
    return sf.regexp_replace(sf.regexp_replace(text, "^POSITIVE_", ""), "^NEGATIVE_", "-")


def _date(text: Column, *, may_be_days: bool) -> Column:
    days = sf.date_from_unix_date(sf.when(text.rlike(_NUMBER), try_cast(text, "int"))) if may_be_days else None
    iso = try_cast(sf.when(text.rlike(_ISO_DATE), sf.regexp_extract(text, _ISO_DATE, 1)), "date")
    date = iso if days is None else sf.coalesce(days, iso)
    return sf.when(sf.unix_date(date).between(_FIRST_DAY, _LAST_DAY), date)


def _timestamp(text: Column) -> Column:
    # A bare number has no unit unless its connect type says it, and Spark would read a short one as a year.
    whole = text.rlike(_STARTS_WITH_DATE) & ~text.rlike(_BELOW_MICROSECONDS)
    return _in_years(sf.when(whole, try_cast(text, "timestamp")))


def _in_years(moment: Column) -> Column:
    micros = sf.unix_micros(moment)
    return sf.when((micros >= _FIRST_SECOND * 1_000_000) & (micros < _END_SECOND * 1_000_000), moment)


def _epoch(text: Column, per_second: int) -> Column:
    number = try_cast(text, "bigint")
    if per_second == 1_000_000_000:
        # The greatest and the least one stand for infinity, and are within the years.
        finite = sf.when((number < _MOST_NANOS) & (number > -_MOST_NANOS - 1), number)
        # Rounded down, also before 1970: Spark keeps microseconds.
        return sf.timestamp_micros(sf.floor(finite / sf.lit(1_000).cast("decimal(4,0)")).cast("bigint"))
    in_years = sf.when((number >= _FIRST_SECOND * per_second) & (number < _END_SECOND * per_second), number)
    return sf.timestamp_millis(in_years) if per_second == 1_000 else sf.timestamp_micros(in_years)


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
    digits = sf.regexp_replace(unscaled, "^-+", "")
    digits = sf.call_function("lpad", digits, sf.greatest(sf.length(digits), scale + 1), sf.lit("0"))
    whole = sf.left(digits, sf.length(digits) - scale)
    zeros = sf.when(unscaled == "0", sf.lit(0)).otherwise(-scale)
    multiple = sf.call_function("rpad", unscaled, sf.length(unscaled) + zeros, sf.lit("0"))
    return sf.when(scale <= 0, multiple).otherwise(sf.concat(sign, whole, sf.lit("."), sf.right(digits, scale)))
