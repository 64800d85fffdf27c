"""Refuse from metadata what cannot be read of a lake table: a moment, columns, changes whose start is gone."""

from __future__ import annotations

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.as_of import snapshot_as_of
from airflow_lake_provider.contracts.author.sources import TableSource
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, RangeUnavailableError
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.planning.early_refusals import refuse_predicate, refuse_unfit, unknown_names
from airflow_lake_provider.tables.base import LoadedTable


def refuse_read(spec: LoadSpec | DeleteRowsSpec, read: TableSource, table: LoadedTable) -> None:
    """Refuse a table that cannot be read as asked.

    :raises UnsupportedError: its format version, or a column, rules that out.
    :raises BadInputError: it has no such snapshot, tag or branch, or lacks a column.
    :raises InvalidSpecError: the predicate names a column that it lacks, or deletes have no keys.
    """
    refuse_unfit(read.capability, table)
    shape = table.facts.shape
    if read.moment is not None:
        snapshot_as_of(table.facts, read.moment)
    keys = read.key_columns(spec)
    for what, names in {"columns": read.columns or (), "keys": keys or ()}.items():
        if unknown := unknown_names(names, shape.names_ever):
            raise BadInputError(
                f"{read.table}: {what} names columns that the table lacks: {unknown}; it has {shape.names}"
            )
    if keys == () and not shape.identifiers:
        raise InvalidSpecError(
            f"{read.table}: deletes need keys, and the table has no identifier fields; give keys, set them with ALTER "
            "TABLE ... SET IDENTIFIER FIELDS, or take mode='upserts'"
        )
    # At another moment it may have had other columns.
    if read.moment is None:
        refuse_predicate(read.table, None if spec.allow_sql else read.where, table)


def refuse_gone_start(spec: LoadSpec, name: str, read: TableSource, table: LoadedTable, target: TableFacts) -> None:
    """Refuse changes since a snapshot that the table has not any more.

    :param name: of the input; empty for a single one.
    :raises RangeUnavailableError: naming it, and what to do.
    """
    applied = applied_of_source(target, spec.source_name)
    start = applied.position.of_input(name).snapshot
    if not read.tells_changes or start is None or spec.on_repeat is OnRepeat.APPLY:
        return
    before = table.facts.snapshots.get(start)
    why = f"{read.table}: snapshot {start} is not in the table's metadata: it was expired, or is of another table"
    if before is not None:
        incomparable = table.incomparable_since(before)
        if incomparable is None:
            return
        why = incomparable
    raise RangeUnavailableError(
        f"{spec.table}: source {spec.source_name} has applied {read.table} up to snapshot {start}, and the changes "
        f"since then cannot be told: {why}. on_repeat='apply' applies every row that is there now, once; keys that "
        "were deleted meanwhile stay in the target"
    )
