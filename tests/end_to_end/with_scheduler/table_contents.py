"""Rows and run keys of a table, as PyIceberg reads them."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of


def rows_of(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table.scan().to_arrow().to_pylist())


def run_keys(table: Table) -> list[str]:
    """Return the run keys of a table's commits, newest first."""
    summaries = [each.summary for each in ancestors_of(table.current_snapshot(), table.metadata) if each.summary]
    return [summary["lake.run-key"] for summary in summaries if summary["lake.run-key"]]
