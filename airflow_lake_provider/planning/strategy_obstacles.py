"""Tell from a table's metadata why a strategy of an upsert is ruled out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.table_obstacles import foreign_partitions, without_spark
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy, refuses_delete_files, unfit_as_equality_key

if TYPE_CHECKING:
    from pyiceberg.table import Table


def spark_obstacle(table: Table) -> str | None:
    """Return why Spark can neither read nor write rows of a table; None where it can."""
    # Half a second to import, which no DAG file has to pay.
    from pyiceberg.schema import index_by_id

    schema = table.schema()
    fields = index_by_id(schema)
    types = {schema.find_column_name(id_) or field.name: str(field.field_type) for id_, field in fields.items()}
    return without_spark(types)


def strategy_obstacles(table: Table, strategy: UpsertStrategy, keys: Sequence[str]) -> Iterator[str]:
    """Yield what is in the way of a strategy; nothing of ``auto`` and ``merge``, which every table takes.

    :param keys: key columns, however they are spelled.
    """
    if strategy in (UpsertStrategy.POSITIONS, UpsertStrategy.EQUALITY):
        reason = refuses_delete_files(table.format_version, table.properties)
        if reason is not None:
            yield reason
    if strategy in (UpsertStrategy.AUTO, UpsertStrategy.MERGE):
        return
    if "encryption.key-id" in table.properties:
        yield "an encrypted table's files cannot be read and written by file here"
    if strategy is UpsertStrategy.EQUALITY:
        yield from _unfit_for_equality(table, keys)


def _unfit_for_equality(table: Table, keys: Sequence[str]) -> Iterator[str]:
    wanted = {name.lower() for name in keys}
    types = {field.name: str(field.field_type) for field in table.schema().fields if field.name.lower() in wanted}
    yield from filter(None, (unfit_as_equality_key(name, kind) for name, kind in types.items()))
    fields = [field for field in table.spec().fields if str(field.transform) != "void"]
    partitions = [(field.name, table.schema().find_column_name(field.source_id) or "") for field in fields]
    reason = foreign_partitions(partitions, list(types))
    if reason is not None:
        yield reason
