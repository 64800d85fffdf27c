"""Columns of whole numbers whose least values are in a partition of great ones.

``truncate(5, -2147483648)`` would be -2147483650, which no INT holds: Iceberg takes 2147483646. A range that begins so
low is projected to partitions from 2147483646 on, and finds none of its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable

_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_LEAST = {"int": -(2**31), "long": -(2**63)}


@dataclass(frozen=True)
class WrappedColumn:
    """A column that a partition spec of the table truncates.

    :param first_sure: the least value that is surely in a partition of its own order.
    """

    first_sure: int


def may_wrap(wrapped: Mapping[str, WrappedColumn], name: str, least: str) -> bool:
    """Tell whether a range of a column may be projected to partitions that do not have its rows.

    :param wrapped: of ``wrapped_columns``.
    :param least: where the range begins, as ``as_text`` has it.
    """
    column = wrapped.get(name.lower())
    return column is not None and int(least) < column.first_sure


def wrapped_columns(table: IcebergTable, schema: Any = None) -> dict[str, WrappedColumn]:
    """Return them by name, in lower case; of all specs, since files keep theirs.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    """
    schema = table.java.schema() if schema is None else schema
    found: dict[str, WrappedColumn] = {}
    for field in table.facts.shape.partition_fields(of_all_specs=True):
        width = _TRUNCATE.fullmatch(field.transform)
        source = schema.findField(field.source_id) if width else None
        least = None if source is None else _LEAST.get(str(source.type()))
        if width is None or least is None or least % int(width[1]) == 0:
            continue
        name = str(schema.findColumnName(field.source_id)).lower()
        first = max(least + int(width[1]), found[name].first_sure if name in found else least)
        found[name] = WrappedColumn(first_sure=first)
    return found
