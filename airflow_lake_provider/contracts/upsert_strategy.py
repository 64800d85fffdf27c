"""Strategies by which an upsert reaches the rows that it replaces, and tables that rule one out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from airflow_lake_provider.contracts.argument_validation import choice

# The spec bans floating-point delete columns; Spark has no fixed, time or nanosecond columns, and writes uuid as text.
KEY_TYPES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary", "decimal")


class UpsertStrategy(str, Enum):
    """``positions`` resolves the keys and deletes their rows by position, ``copy-on-write`` writes the files that hold
    them anew.

    ``merge`` leaves all of it to Spark's ``MERGE INTO``. ``equality`` writes the keys themselves as deletes and looks
    for no row, as Flink does: every reader pays for it until the table is compacted, so ``auto`` never chooses it.
    """

    AUTO = "auto"
    POSITIONS = "positions"
    COPY_ON_WRITE = "copy-on-write"
    MERGE = "merge"
    EQUALITY = "equality"


def upsert_strategy(value: str | UpsertStrategy, name: str = "strategy") -> UpsertStrategy:
    """Return the strategy of an argument.

    :param name: of the argument.
    :raises InvalidSpecError: there is none of that name; it gives those that there are.
    """
    return choice(UpsertStrategy, value, name)


def refuses_delete_files(format_version: int, properties: Mapping[str, str]) -> str | None:
    """Return why a table takes, or wants, no delete files; None where it takes them.

    :param properties: of the table.
    """
    if format_version < 2:
        return "format version 1 has no deletes"
    if properties.get("write.merge.mode") == "copy-on-write":
        return "the table's write.merge.mode asks for copy-on-write"
    return None


def unfit_as_equality_key(column: str, iceberg_type: str) -> str | None:
    """Return why a column cannot be a key of equality deletes; None where it can.

    :param iceberg_type: as Iceberg writes it, ``decimal(9, 2)``.
    """
    if iceberg_type.partition("(")[0] in KEY_TYPES:
        return None
    return f"key column {column} is of type {iceberg_type}, and keys may be {', '.join(KEY_TYPES)}"
