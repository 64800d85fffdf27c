"""Refuse rows with NULL in a key column: of a batch, of change events, and of what a transform returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import DataType

from airflow_lake_provider.contracts.errors import BadInputError


def refuse_null_keys(nulls: int, rows: int, by_key: Mapping[str, int]) -> None:
    """Refuse a batch with rows that have NULL in a key column.

    :param nulls: how many rows have one, of ``rows``.
    :param by_key: key column -> rows with NULL in it.
    :raises BadInputError: with the columns.
    """
    if nulls:
        parts = ", ".join(f"{name} in {count}" for name, count in by_key.items())
        raise BadInputError(
            f"{nulls} of {rows} rows have NULL in a key column: {parts}. Such a row has no identity in the table: fill "
            "the keys in the source, leave these rows out (Query('SELECT * FROM source WHERE ... IS NOT NULL')), or "
            "choose keys that are always there"
        )


def refuse_null_times(nulls: int, rows: int, time: str) -> None:
    """Refuse a batch of a history with rows that have no time.

    :param nulls: how many rows have none, of ``rows``.
    :param time: column from which a row is valid.
    :raises BadInputError: with the column.
    """
    if nulls:
        raise BadInputError(
            f"{nulls} of {rows} rows have NULL in {time}, the time from which a row of a History is valid: fill it in "
            "the source, or leave these rows out (Query('SELECT * FROM source WHERE ... IS NOT NULL'))"
        )


def refuse_null_values(rows: int, by_column: Mapping[str, int]) -> None:
    """Refuse a batch of rows to add with NULL in a column that they are compared by.

    :param by_column: column of ``deduplicate_by`` -> rows with NULL in it, of ``rows``.
    :raises BadInputError: with the columns.
    """
    if by_column:
        parts = ", ".join(f"{name} in {count}" for name, count in by_column.items())
        raise BadInputError(
            f"rows have NULL in a column of deduplicate_by, of {rows}: {parts}. Such a row is the same as no other: "
            "fill the column in the source, leave these rows out (Query('SELECT * FROM source WHERE ... IS NOT "
            "NULL')), or compare by columns that are always there"
        )


def refuse_null_event_keys(events: int, by_key: Mapping[str, int], types: Mapping[str, DataType]) -> None:
    """Refuse change events whose key is NULL or does not convert.

    :param by_key: key column -> events without it.
    :raises BadInputError: with the columns and their types.
    """
    if events:
        parts = ", ".join(f"{count} of {name} as {types[name].simpleString()}" for name, count in by_key.items())
        raise BadInputError(
            f"{events} events have a key that is NULL or cannot be read: {parts}. Give the source table's primary key "
            "as keys, whose columns are never NULL; or give them a type in the source's schema that holds their values"
        )


def refuse_null_transform_keys(table: str, rows: int, keys: Sequence[str]) -> None:
    """Refuse what a transform returns where rows of it have NULL in a key column.

    :raises BadInputError: with the key columns.
    """
    if rows:
        raise BadInputError(f"{table}: {rows} rows of the transform have NULL in the key ({', '.join(keys)})")


def refuse_null_keys_of_table(table: str, rows: int, keys: Sequence[str]) -> None:
    """Refuse to make a table what its source holds where rows of the table have NULL in a key column.

    :raises BadInputError: with the key columns.
    """
    if rows:
        raise BadInputError(
            f"{table}: {rows} rows of the table have NULL in a key column of {list(keys)}, so that no batch can say "
            "whether they stay; delete them by LakeDeleteRowsOperator, or choose other keys"
        )
