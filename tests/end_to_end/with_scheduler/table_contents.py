"""Rows of a table, as PyIceberg reads them."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table


def rows_of(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table.scan().to_arrow().to_pylist())
