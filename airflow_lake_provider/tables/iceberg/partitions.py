"""Partitions as manifests have them: types, names, the ranges that a manifest says, and the rows outside of one."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from ctypes import c_float
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote_plus

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import FloatType, IcebergType, PrimitiveType, TimestampType, TimestamptzType

from airflow_lake_provider.contracts.table_facts import PartitionField, TableShape

# Columns, and values of partitions, that need no quoting in any dialect and in no path. A hidden partition is no value.
_PLAIN_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]*")
_NO_VALUE = "null"
_NUMBER = re.compile(r"-?[0-9]{1,18}")
# What strptime takes beside these: other scripts' digits, and a month of one digit.
_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){0,3}")
_ZEROS_OF_FRACTION = re.compile(r"(\.[0-9]*[1-9])0+(?![0-9])")
# Words that Spark or PyIceberg takes for a value or a part of a predicate, and not for a column.
_WORD = re.compile(
    r"(all|and|any|array|between|by|case|cast|current_(date|time|timestamp|user)|distinct|else|end|escape|exists|false|from"
    r"|group|having|i?like|in|inf|infinity|interval|is|limit|map|nan|not|null|on|or|order|regexp|rlike|select|session_user"
    r"|some|struct|then|true|union|unknown|user|when|where)",
    re.IGNORECASE,
)
# What a name of a partition is read of, and a predicate may be made of.
_LONGEST = 300
_PATTERNS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}
_MOMENTS = ("date", "timestamp", "timestamptz")
# What a text or a number of a damaged manifest, or a column that the schema lacks now, ends in.
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, LookupError, struct.error)


def is_void(field: IcebergField) -> bool:
    """Tell whether a partition field has no values: the column was dropped from the spec of a table of version 1."""
    return isinstance(field.transform, VoidTransform)


def partition_types(metadata: TableMetadata) -> Mapping[int, Sequence[IcebergType | None]]:
    """Return the types of the partition fields of each spec, by the current schema; None of a void field."""
    schema = metadata.schema()
    return {
        spec.spec_id: [
            None if is_void(field) else kind.field_type
            for field, kind in zip(spec.fields, spec.partition_type(schema).fields, strict=True)
        ]
        for spec in metadata.partition_specs
    }


def partition_ranges(manifest: ManifestFile, types: Sequence[IcebergType | None]) -> tuple[tuple[Any, Any] | None, ...]:
    """Return the lowest and the highest value of each partition field of a manifest; None where it does not say.

    A void field has no values to meet, and is left out.
    """
    summaries = manifest.partitions or []
    return tuple(
        value_range(summary.lower_bound, summary.upper_bound, kind)
        for summary, kind in zip(summaries, types, strict=False)
        if kind is not None
    )


def value_range(low: bytes | None, high: bytes | None, kind: IcebergType) -> tuple[Any, Any] | None:
    """Return two bounds as values; None where one is missing or cannot be read."""
    if low is None or high is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        return from_bytes(kind, low), from_bytes(kind, high)
    except _UNREADABLE:
        return None


def partition_path(metadata: TableMetadata, spec_id: int, values: Hashable) -> str:
    """Return a partition as Iceberg's paths have it, ``day=2026-11-26``; its plain values where a column is gone.

    :param values: one for each field of the spec.
    """
    given = values if isinstance(values, tuple) else (values,)
    spec = metadata.specs().get(spec_id)
    if spec is None or not spec.fields:
        return ""
    try:
        kinds = [each.field_type for each in spec.partition_type(metadata.schema()).fields]
        texts = [_text(*each) for each in zip(spec.fields, kinds, given, strict=True)]
    except _UNREADABLE:
        pairs = zip((field.name for field in spec.fields), given, strict=False)
        return "/".join(f"{name}={value}" for name, value in pairs)
    return "/".join(f"{_escaped(field.name)}={_escaped(text)}" for field, text in zip(spec.fields, texts, strict=True))


def _text(field: IcebergField, kind: IcebergType, value: Any) -> str:
    """Return a value as Iceberg writes it, which PyIceberg does not do for numbers and times with a fraction."""
    if isinstance(value, float):
        return _number_of_java(value, is_single=isinstance(kind, FloatType))
    text = field.transform.to_human_string(kind, value)
    is_time = value is not None and isinstance(kind, (TimestampType, TimestamptzType))
    return _ZEROS_OF_FRACTION.sub(r"\1", text) if is_time else text


def _escaped(text: str) -> str:
    """Return a text as Java's ``URLEncoder`` has it: the driver compares these names."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _number_of_java(value: float, *, is_single: bool) -> str:
    """Return what ``Double.toString`` or ``Float.toString`` does; before Java 19 a few had a digit more."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    stored = (lambda text: c_float(float(text)).value) if is_single else float
    texts = (f"{value:.{digits}e}" for digits in range(1, 17))
    mantissa, _, exponent = next(text for text in texts if stored(text) == value).partition("e")
    if value and not -3 <= int(exponent) < 7:
        return f"{mantissa}E{int(exponent)}"
    whole, _, fraction = f"{Decimal(f'{mantissa}e{exponent}'):f}".partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def rows_outside(shape: TableShape, partition: str) -> str | None:
    """Return a predicate on the rows that are not in a partition, as Spark and PyIceberg read it alike.

    :param partition: its path, ``region=eu/day=2026-11-26``.
    :return: None where none is written: for buckets, truncated values, NULL, texts and columns that would need quoting,
        and names of more than 300 characters.
    """
    fields = {each.name: each for each in shape.partition_fields()} if shape.spec_id in shape.partition_specs else {}
    parts = [part.partition("=") for part in partition.split("/")]
    if not fields or [name for name, _, _ in parts] != list(fields) or len(partition) > _LONGEST:
        return None
    if not all(_is_plain_column(shape, field.source) for field in fields.values()):
        return None
    outside = [_outside(fields[name], shape.columns.get(fields[name].source, ""), value) for name, _, value in parts]
    return None if None in outside else f"({' OR '.join(map(str, outside))})"


def _is_plain_column(shape: TableShape, column: str) -> bool:
    """Tell whether a predicate can name a column as it is: a dot in a name is none between names to Spark."""
    parts = column.split(".")
    outer = [shape.columns.get(".".join(parts[:place]), "") for place in range(1, len(parts))]
    if len(parts) > 1 and (column in shape.names or not all(kind.startswith("struct<") for kind in outer)):
        return False
    return _PLAIN_COLUMN.fullmatch(column) is not None and not any(map(_WORD.fullmatch, parts))


def _outside(field: PartitionField, kind: str, value: str) -> str | None:
    column = field.source
    if value == _NO_VALUE:
        return None
    if field.transform in _PATTERNS and kind in _MOMENTS:
        try:
            start = _start(value, field.transform)
            low, high = _moment(start, kind), _moment(_end_of(field.transform, start), kind)
        except (ValueError, OverflowError):
            return None
        return f"{column} < '{low}' OR {column} >= '{high}' OR {column} IS NULL"
    literal = _literal(value, kind) if field.transform == "identity" else None
    return None if literal is None else f"{column} <> {literal} OR {column} IS NULL"


def _start(value: str, unit: str) -> datetime:
    """Return where a year, a month, a day or an hour begins, in the zone of its column.

    :raises ValueError: the text is none.
    """
    if _TIME.fullmatch(value) is None:
        raise ValueError(f"it is no {unit}")
    return datetime.strptime(value, _PATTERNS[unit])  # noqa: DTZ007


def _end_of(transform: str, start: datetime) -> datetime:
    if transform == "year":
        return start.replace(year=start.year + 1)
    if transform == "month":
        return (start + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=transform == "day", hours=transform == "hour")


def _moment(moment: datetime, kind: str) -> str:
    """Return a moment as Spark and PyIceberg read it alike."""
    if kind == "date":
        return moment.date().isoformat()
    return moment.isoformat() + ("+00:00" if kind == "timestamptz" else "")


def _literal(value: str, kind: str) -> str | None:
    if kind in ("int", "long"):
        return value if _NUMBER.fullmatch(value) else None
    if kind == "date":
        with suppress(ValueError):
            return f"'{_start(value, 'day').date().isoformat()}'"
        return None
    return f"'{value}'" if kind == "string" and _PLAIN_VALUE.fullmatch(value) else None
