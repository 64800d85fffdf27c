"""Types of a change event's values, and JSON text to a value of the column's type; what does not convert is NULL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.debezium_connector import BinaryHandling
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.spark_jobs.sources.text_values import LETTERS_FOR_ZONE, NUMBER
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

_NUMBER = r"^\s*+[+-]?+\d++\s*+$"
_TWO_TO_64 = "18446744073709551616"
_ELEMENT = r"(?:-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|null)"
# An array of JSON that holds nothing but numbers, a fraction among them.
NUMBERS = rf"\[(?=[^\]]*\.)\s*+{_ELEMENT}(?:\s*+,\s*+{_ELEMENT})*+\s*+\]"
# What Python, and so PyIceberg, can read: the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_SECOND, _END_SECOND = _FIRST_DAY * 86_400, (_LAST_DAY + 1) * 86_400
_MIDNIGHT = r"(?:[T ]00:00(?::00(?:\.0++)?)?)?"
_ISO_DATE = rf"^\s*+(\d{{4}}-\d{{1,2}}-\d{{1,2}}){_MIDNIGHT}(?:Z|[+-]00:00)?\s*+$"
# Spark would read a time of day as one of today.
_STARTS_WITH_DATE = r"^\s*+\d{4}-\d{1,2}-\d{1,2}(?:[T ]|\s*+$)"
# Any other offset would be dropped, or move the time.
_LOCAL_OR_UTC = r"^\s*+\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}(?::\d{1,2}){0,2}(?:\.\d*+)?)?\s*+(?:Z|UTC|[+-]00:?00)?\s*+$"
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
    # Spark's parser rounds fractions to a double.
    numbers = sf.split(sf.regexp_replace(text, r"[\[\]\s]", ""), ",")
    exact = sf.transform(numbers, lambda number: sf.nullif(number, sf.lit("null")))
    return sf.when(text.rlike(rf"^\s*+{NUMBERS}\s*+$"), exact).otherwise(sf.from_json(text, "ARRAY<STRING>"))


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
        types.TimestampNTZType: lambda text: _timestamp(sf.when(text.rlike(_LOCAL_OR_UTC), text)).cast("timestamp_ntz"),
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
    # Java also reads the seat 12D, 7F and 0x1p3 as numbers.
    is_finite = (sf.abs(value) != float("inf")) & spelled.rlike(NUMBER)
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
    whole = text.rlike(_STARTS_WITH_DATE) & ~text.rlike(_BELOW_MICROSECONDS) & ~text.rlike(LETTERS_FOR_ZONE)
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


DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
# Epoch numbers that are a local date and time, with how many of them make a second.
TIMESTAMP_UNITS = {
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
}
# Days since 1970-01-01.
DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
# Names of bytes that are nothing else.
PLAIN_BYTES = (None, "io.debezium.data.Bits")
_NAMED: dict[str, types.DataType] = {
    **dict.fromkeys((*DATES, "io.debezium.time.IsoDate"), types.DateType()),
    "io.debezium.time.ZonedTimestamp": types.TimestampType(),
    # A local date and time, whatever its Z says.
    "io.debezium.time.IsoTimestamp": types.TimestampNTZType(),
    **dict.fromkeys(TIMESTAMP_UNITS, types.TimestampNTZType()),
    # A struct of scale and value; no single DECIMAL holds all of its values.
    VARIABLE_DECIMAL: types.StringType(),
}
_PLAIN: dict[str, types.DataType] = {
    "int8": types.IntegerType(),
    "int16": types.IntegerType(),
    "int32": types.IntegerType(),
    "int64": types.LongType(),
    "float": types.FloatType(),
    "float32": types.FloatType(),
    "double": types.DoubleType(),
    "float64": types.DoubleType(),
    "boolean": types.BooleanType(),
    "bytes": types.BinaryType(),
}
_MOST_DIGITS = 38
_WIDER = (types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType())


@dataclass(frozen=True)
class ConnectType:
    """A field of a connect schema.

    :param kind: ``int32``, ``string``, ``bytes``, ``array`` and so on.
    :param name: semantic type, such as ``io.debezium.time.Date``.
    :param scale: of a decimal.
    :param precision: of a decimal, where the connector says it.
    :param items: of an array.
    """

    kind: str
    name: str | None = None
    scale: int | None = None
    precision: int | None = None
    items: ConnectType | None = None

    def natural_type(self) -> types.DataType:
        """Return the Spark type that loses nothing; times of day and durations stay numbers, JSON and UUID text."""
        if self.name == DECIMAL:
            return _decimal_type(self.precision, self.scale or 0)
        if self.name in _NAMED:
            return _NAMED[self.name]
        if self.kind == "array" and self.items:
            return types.ArrayType(self.items.natural_type())
        return _PLAIN.get(self.kind, types.StringType())


def _decimal_type(precision: int | None, scale: int) -> types.DataType:
    """Return the DECIMAL of a numeric, whose scale may be negative or larger than any DECIMAL's."""
    if scale > _MOST_DIGITS:
        return types.StringType()
    return types.DecimalType(min((precision or _MOST_DIGITS) + max(-scale, 0), _MOST_DIGITS), max(scale, 0))


def parse_types(text: str) -> dict[str, ConnectType]:
    """Parse the ``types`` of ``envelope.read_events``: column -> its connect type."""
    return {field["column"]: _connect_type(field["self"], field.get("items")) for field in json.loads(text)}


def _connect_type(described: list[Any], items: list[Any] | None) -> ConnectType:
    kind, name, scale, precision = described
    inner = _connect_type(items, None) if items and items[0] else None
    return ConnectType(kind, name, _number(scale), _number(precision), inner)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None


def common_type(column: str, connect_types: Iterable[ConnectType]) -> types.DataType:
    """Return one type for all connect types a column had in the batch.

    :raises BadInputError: they have nothing in common.
    """
    return reduce(lambda one, other: _wider(column, one, other), dict.fromkeys(c.natural_type() for c in connect_types))


def _wider(column: str, one: types.DataType, other: types.DataType) -> types.DataType:
    if one in _WIDER and other in _WIDER:
        return max(one, other, key=_WIDER.index)
    if isinstance(one, types.DecimalType) and isinstance(other, types.DecimalType):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return types.DecimalType(min(whole + scale, 38), scale)
    if one == other:
        return one
    raise BadInputError(
        f"column {column} is {one.simpleString()} in some events and {other.simpleString()} in others; "
        "say in the source's schema which it is to be"
    )


def inferred_type(inferred: types.DataType) -> types.DataType:
    """Return the type for what Spark inferred from plain JSON; objects stay text."""
    if isinstance(inferred, types.ArrayType):
        return types.ArrayType(inferred_type(inferred.elementType))
    return types.StringType() if isinstance(inferred, types.StructType) else inferred
