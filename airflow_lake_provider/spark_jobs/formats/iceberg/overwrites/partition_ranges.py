"""Ranges that the rows of a partition are in, and what they prove of a predicate.

Iceberg proves less. To it ``=`` and ``IN`` never hold for all of a day. It also distrusts times before 1970, which its
first writers rounded towards 1970 (``ProjectionUtil.fixStrictTimeProjection``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

from pyspark.sql.types import DataType, DateType, StringType, TimestampNTZType, TimestampType

from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import truncate_width
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems

# Least and greatest value of a column, by its name in lower case; None where it is NULL.
Ranges = Mapping[str, tuple[Any, Any] | None]

_EPOCH = date(1970, 1, 1)
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
_COMPARISONS: Mapping[str, Callable[[Any, Any, Any], bool]] = {
    "LT": lambda _, high, value: high < value,
    "LT_EQ": lambda _, high, value: high <= value,
    "GT": lambda low, _, value: low > value,
    "GT_EQ": lambda low, _, value: low >= value,
    "EQ": lambda low, high, value: low == high == value,
    "NOT_EQ": lambda low, high, value: value < low or high < value,
}
# Of each value that is listed.
_LISTS = {"IN": ("EQ", any), "NOT_IN": ("NOT_EQ", all)}


def is_true_within(expression: Any) -> Callable[[Ranges], bool]:
    """Return what tells whether an expression is true for all rows of some ranges; False where they cannot tell.

    :param expression: ``org.apache.iceberg.expressions.Expression`` without NOT; it is read once.
    """
    operation = str(expression.op())
    if operation in ("AND", "OR"):
        parts = [is_true_within(part) for part in (expression.left(), expression.right())]
        joined = all if operation == "AND" else any
        return lambda ranges: joined(part(ranges) for part in parts)
    if operation in ("TRUE", "FALSE"):
        return lambda _: operation == "TRUE"
    column, is_reference = str(expression.ref().name()).lower(), str(expression.term()).startswith("ref(")
    if operation == "IS_NULL":
        return lambda ranges: ranges.get(column, ()) is None
    if operation == "NOT_NULL":
        return lambda ranges: ranges.get(column) is not None
    name, joined = _LISTS.get(operation, (operation, all))
    compare = _COMPARISONS.get(name)
    if compare is None or not is_reference:
        return lambda _: False
    literals = list(expression.literals()) if operation in _LISTS else [expression.literal()]
    values = [_in_order(literal.value()) for literal in literals]

    def of_ranges(ranges: Ranges) -> bool:
        limits = ranges.get(column)
        return limits is not None and joined(compare(*limits, value) for value in values)

    return of_ranges


def ranges_of(table: IcebergTable, spec: Any, partition: Any) -> Ranges:
    """Return the ranges that the rows of a partition are in; columns without one are left out.

    :param spec: ``org.apache.iceberg.PartitionSpec`` of the partition, an ``org.apache.iceberg.StructLike``.
    """
    kinds, classes = {field.name.lower(): field.dataType for field in table.schema()}, spec.javaClasses()
    ranges: dict[str, tuple[Any, Any] | None] = {}
    for place, field in enumerate(JavaItems(table.spark, spec.fields())):
        name, transform = str(table.java.schema().findColumnName(field.sourceId())).lower(), str(field.transform())
        value, kind = partition.get(place, classes[place]), kinds.get(name)
        if kind is None or transform == "void":
            continue
        if value is None:
            ranges[name] = None
        elif (limits := _limits_of(transform, kind, value)) is not None:
            low, high = limits
            least, greatest = ranges.get(name) or limits
            ranges[name] = max(low, least), min(high, greatest)
    return ranges


def _limits_of(transform: str, kind: DataType, value: Any) -> tuple[Any, Any] | None:
    """Return the least and the greatest value of a column in a partition, to be compared; None for none."""
    width = truncate_width(transform)
    if isinstance(kind, StringType) and isinstance(value, str) and width is not None:
        start = _in_order(value)
        # A shorter text was not cut. Behind each text that begins as another does is this one with infinity.
        return start, start if len(value) < width else (*start, math.inf)
    texts = range_of(transform, kind, value)
    if texts is None:
        return None
    low, high = map(_in_order if isinstance(kind, StringType) else int, texts)
    return low, high


def _in_order(value: Any) -> Any:
    """Return a value as it is compared: a text by its characters."""
    return tuple(map(ord, value)) if isinstance(value, str) else value


def range_of(transform: str, kind: DataType, value: Any) -> tuple[str, str] | None:
    """Return the least and the greatest value of a column in a partition, as literals are made of; None for none.

    :param transform: as Iceberg writes it.
    :param value: of the partition: days, months or years since 1970, hours of a timestamp, or the column's own.
    """
    if transform == "identity":
        return (str(value), str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if isinstance(kind, StringType) or not isinstance(value, int):
        return None
    if transform == "hour":
        return (str(value * _HOUR), str((value + 1) * _HOUR - 1))
    days = _days_of(transform, value)
    if days is None:
        return None
    first, after = days
    if isinstance(kind, DateType):
        return str(first), str(after - 1)
    return (str(first * _DAY), str(after * _DAY - 1)) if isinstance(kind, TimestampType | TimestampNTZType) else None


def _days_of(transform: str, value: int) -> tuple[int, int] | None:
    """Return the first day of a partition and the day after it, as days since 1970; None for other transforms."""
    if transform == "day":
        return value, value + 1
    months = {"month": 1, "year": 12}.get(transform)
    if months is None:
        return None
    try:
        return _first_day(value * months), _first_day((value + 1) * months)
    except (ValueError, OverflowError):
        return None


def _first_day(months: int) -> int:
    return (date(1970 + months // 12, months % 12 + 1, 1) - _EPOCH) // timedelta(days=1)
