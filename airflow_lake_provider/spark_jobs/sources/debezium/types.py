"""Types of columns of change events: declared, the table's, the connect schema's, or inferred from the values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import types

from airflow_lake_provider.contracts.errors import BadInputError

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
    """Parse the ``types`` of ``debezium_lines.read_events``: column -> its connect type."""
    return {field["column"]: _connect_type(field["self"], field.get("items")) for field in json.loads(text)}


def _connect_type(described: list[Any], items: list[Any] | None) -> ConnectType:
    kind, name, scale, precision = described
    inner = _connect_type(items, None) if items and items[0] else None
    return ConnectType(kind, name, _number(scale), _number(precision), inner)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None


def common_type(column: str, found: Iterable[ConnectType]) -> types.DataType:
    """Return one type for all connect types a column had in the batch.

    :raises BadInputError: they have nothing in common.
    """
    return reduce(lambda one, other: _wider(column, one, other), dict.fromkeys(c.natural_type() for c in found))


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


def inferred_type(found: types.DataType) -> types.DataType:
    """Return the type for what Spark inferred from plain JSON; objects stay text."""
    if isinstance(found, types.ArrayType):
        return types.ArrayType(inferred_type(found.elementType))
    return types.StringType() if isinstance(found, types.StructType) else found
