"""Refuse from a table's metadata what the driver would refuse once Spark has started.

The driver decides: it looks again, at the newest metadata and at the rows. Nothing is refused here that it would take,
but for a consumer whose tags another target needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.author.schema_contract import Evolution, SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout, partition_terms, sort_terms
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidSpecError,
    LakeProviderError,
    MissingTableError,
    RangeUnavailableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.row_age import without_age
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec, other_target
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, RowExpirySpec, StatisticsSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_facts import TableFacts, TableShape
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX, tag_of
from airflow_lake_provider.planning.nothing_new import position_id
from airflow_lake_provider.tables.base import LoadedTable


def refuse_append(spec: AppendSpec, target: LoadedTable | None, source: LoadedTable | None) -> None:
    """Refuse an append that cannot be applied to its target.

    :param target: None where it does not exist.
    :param source: a lake table that is read as it is; None for files and queries.
    :raises MissingTableError: the target does not exist and may not be created.
    :raises UnsupportedError: Spark cannot read one of the two tables.
    :raises BadInputError: a column is missing.
    """
    _refuse_missing_target(spec.table, target, spec.create)
    refuse_unfit("append", target)
    refuse_unfit("lake-table-source", source)
    if source is not None:
        _refuse_unknown_in_batch("deduplicate_by", spec.deduplicate_by, source)
    if target is not None:
        _refuse_frozen(spec.table, target.facts.shape, "deduplicate_by", spec.deduplicate_by, spec.schema_contract)


def refuse_overwrite(spec: OverwritePartitionsSpec, target: LoadedTable | None, source: LoadedTable | None) -> None:
    """Refuse an overwrite of partitions that cannot be applied to its target.

    :param target: None where it does not exist.
    :param source: a lake table that is read as it is; None for files and queries.
    :raises MissingTableError: the target does not exist and may not be created.
    :raises UnsupportedError: Spark cannot read one of the two tables, or no rows of the target can be deleted.
    :raises BadInputError: a column is missing.
    :raises InvalidSpecError: ``where`` is no predicate of partitions, or the table has none.
    """
    _refuse_missing_target(spec.table, target, spec.create)
    refuse_unfit("overwrite-partitions", target)
    refuse_unfit("delete-rows", target if spec.allow_rows else None)
    refuse_unfit("read-changes", target if spec.keys else None)
    refuse_unfit("lake-table-source", source)
    if source is not None:
        _refuse_unknown_in_batch("deduplicate_by", spec.deduplicate_by, source)
        _refuse_unknown_in_batch("keys", spec.keys, source)
    if target is not None:
        _refuse_frozen(spec.table, target.facts.shape, "keys", spec.keys, spec.schema_contract)
        refuse_predicate(spec.table, None if spec.is_whole_table else spec.where, target)
    _refuse_other_than_partitions(spec, target)


def _refuse_other_than_partitions(spec: OverwritePartitionsSpec, target: LoadedTable | None) -> None:
    """Refuse what can be seen to select no whole partitions; the driver asks the files."""
    if target is not None:
        columns = [each.source for each in target.facts.shape.partition_fields() if each.transform != "void"]
    else:
        terms = partition_terms(spec.create.partition_by) if spec.create is not None else ()
        columns = [".".join(each.column) for each in terms]
    if spec.is_whole_table or spec.allow_rows:
        return
    if not columns:
        raise InvalidSpecError(
            f"{spec.table}: the table has no partitions; where='true' replaces all of its rows, and allow_rows=True "
            "those of another where"
        )
    try:
        named = target.columns_in(spec.where) if target is not None and spec.where is not None else []
    except InvalidSpecError:
        # What the worker cannot read is left to the driver.
        return
    if others := unknown_names(named, columns):
        raise InvalidSpecError(
            f"{spec.table}: where names {others}, by which the table is not partitioned, so it selects no whole "
            f"partitions. Name {sorted(set(columns))} alone, or delete single rows with allow_rows=True"
        )


def _refuse_unknown_in_batch(what: str, names: Iterable[str], source: LoadedTable) -> None:
    columns = source.facts.shape.names_ever
    if unknown := unknown_names(names, columns):
        raise BadInputError(f"{what} names columns that the batch lacks: {unknown}; it has {sorted(columns)}")


def refuse_upsert(spec: UpsertSpec, target: LoadedTable | None, source: LoadedTable | None) -> None:
    """Refuse an upsert that cannot be applied to its target.

    :param target: None where it does not exist.
    :param source: a lake table whose rows are the batch; None for files and queries.
    :raises MissingTableError: the target does not exist and may not be created.
    :raises UnsupportedError: the target's format version or properties rule the strategy out, or Spark cannot read one
        of the two tables.
    :raises BadInputError: a column is missing.
    """
    _refuse_missing_target(spec.table, target, spec.create)
    refuse_unfit("upsert", target)
    if source is not None:
        _refuse_unknown_in_batch("keys", spec.keys, source)
        _refuse_unknown_in_batch("order_by", spec.order_by, source)
    if target is None:
        return
    _refuse_frozen(spec.table, target.facts.shape, "keys", spec.keys, spec.schema_contract)
    asked = spec.strategy
    if asked != "auto" and (obstacle := target.unfit_for(f"strategy-{asked}", spec.keys)):
        raise UnsupportedError(f"{spec.table}: strategy={asked!r} is not possible, {obstacle}; use 'auto'")


def refuse_incremental(spec: IncrementalSpec, target: LoadedTable | None, source: LoadedTable) -> None:
    """Refuse an incremental run whose source cannot tell its changes, or whose target cannot take them.

    :param target: None where it does not exist.
    :raises UnsupportedError: the source has format version 1 or 2, or a column ``_change_type``, or Spark cannot read
        one of the two tables.
    :raises InvalidSpecError: the source has no keys, or lacks a column that was named as one.
    :raises RangeUnavailableError: the start of the range was expired, and ``on_gap`` is ``fail``.
    :raises BadInputError: another transform filled the target.
    :raises MissingTableError: the target does not exist and may not be created.
    """
    _refuse_missing_target(spec.table, target, spec.create)
    refuse_unfit("upsert", target)
    refuse_unfit("read-changes", source)
    _refuse_source_columns(spec, source.facts.shape)
    if target is not None:
        _refuse_frozen(spec.table, target.facts.shape, "keys", spec.keys, spec.schema_contract)
    if not spec.full_refresh:
        _refuse_start(spec, target.facts if target is not None else None, source)


def refuse_tags_of_another_target(
    spec: IncrementalSpec,
    target: LoadedTable | None,
    source: LoadedTable,
    find: Callable[[str], LoadedTable | None],
) -> None:
    """Refuse a consumer that another table is filled by, which has read something of the source.

    :param target: None where it does not exist.
    :param find: loads a table by its name; None where it does not exist.
    :raises InvalidSpecError: naming the other table.
    """
    named = source.facts.properties.get(f"{tag_of(spec.consumer)}.target")
    if not spec.protect_source or named in (None, spec.table):
        return
    other = None
    # Anybody may write the property. What cannot be looked at does not stop this consumer.
    with suppress(LakeProviderError):
        other = find(str(named))
    # The target may have had another name.
    is_same = other is not None and target is not None and other.facts.uuid == target.facts.uuid
    position = f"{POSITION_PREFIX}{position_id(source.facts, spec.consumer)}"
    if other is None or is_same or position not in other.facts.properties:
        return
    raise InvalidSpecError(other_target(spec, str(named)))


def refuse_row_change(
    spec: DeleteRowsSpec | UpdateRowsSpec, table: LoadedTable, keys: LoadedTable | None = None
) -> None:
    """Refuse a deletion or an update that the table cannot take.

    :param keys: a lake table of keys, fit to be read; None for files and predicates.
    :raises UnsupportedError: the table has format version 1, is encrypted, or Spark cannot read it.
    :raises InvalidSpecError: the predicate or an assignment names a column that the table lacks.
    :raises BadInputError: a key column is missing.
    """
    if (why := table.unfit_for(spec.action)) is not None:
        raise UnsupportedError(f"{spec.table}: rows cannot be changed: {why}")
    if isinstance(spec, UpdateRowsSpec):
        refuse_predicate(spec.table, None if spec.allow_sql else spec.where, table)
        _refuse_assignments(spec, table.facts.shape)
        return
    refuse_predicate(spec.table, None if spec.allow_sql else spec.where, table, is_secret=True)
    shapes = [each.facts.shape for each in (table, keys) if each is not None]
    missing = [name for shape in shapes for name in unknown_names(spec.keys, shape.names_ever)]
    if missing:
        raise BadInputError(f"{spec.table}: key columns {sorted(set(missing))} are not in both the table and the keys")


def refuse_compaction(spec: CompactionSpec, table: LoadedTable) -> None:
    """Refuse a compaction in an order that nobody names, or whose order or predicate names columns that are not there.

    :raises UnsupportedError: Spark cannot read the table.
    :raises InvalidSpecError: naming them.
    """
    refuse_unfit("compaction", table)
    shape = table.facts.shape
    is_sort = spec.strategy is CompactionStrategy.SORT
    if is_sort and not spec.sort_by and not shape.sort_order:
        raise InvalidSpecError(
            f"{spec.table}: strategy 'sort' needs an order, and the table has none; give sort_by, give the table an "
            "order by ALTER TABLE ... WRITE ORDERED BY, or take strategy 'binpack'"
        )
    columns = [".".join(term.column) for term in sort_terms(spec.sort_by)] if is_sort else spec.sort_by
    if unknown := unknown_names(columns, shape.columns):
        raise InvalidSpecError(
            f"{spec.table}: sort_by names columns that the table lacks: {unknown}; it has {shape.names}"
        )
    refuse_predicate(spec.table, spec.where, table)


def refuse_statistics(spec: StatisticsSpec, table: LoadedTable) -> None:
    """Refuse statistics of columns that the table lacks.

    :raises UnsupportedError: Spark cannot read the table.
    :raises InvalidSpecError: naming them.
    """
    refuse_unfit("statistics", table)
    shape = table.facts.shape
    if unknown := sorted(set(spec.of_columns) - shape.columns.keys()):
        raise InvalidSpecError(
            f"{spec.table}: columns names columns that the table lacks: {unknown}; it has {shape.names}"
        )


def refuse_row_expiry(spec: RowExpirySpec, table: LoadedTable) -> None:
    """Refuse an expiry by a column that the table lacks, or by which rows have no age.

    :raises UnsupportedError: its rows cannot be changed.
    :raises InvalidSpecError: naming the column.
    """
    refuse_unfit("row-expiry", table)
    shape = table.facts.shape
    if (why := without_age(spec.column, {name: shape.columns[name] for name in shape.names})) is not None:
        raise InvalidSpecError(f"{spec.table}: {why}")


def refuse_unfit(capability: str, table: LoadedTable | None) -> None:
    """Refuse a table that rules a capability out.

    :param table: None for none.
    :raises UnsupportedError: saying why.
    """
    if table is not None and (why := table.unfit_for(capability)) is not None:
        raise UnsupportedError(f"{table.facts.name}: {why}")


def _refuse_missing_target(name: str, target: LoadedTable | None, create: TableLayout | None) -> None:
    if target is None and create is None:
        raise MissingTableError(f"{name}: the table does not exist and create=False was asked for")


def _refuse_frozen(name: str, target: TableShape, what: str, columns: Sequence[str], contract: SchemaContract) -> None:
    unknown = [each for each in unknown_names(columns, target.names) if contract.of_new(each) is not Evolution.EVOLVE]
    if unknown:
        raise BadInputError(
            f"{name}: {what} names columns that the table lacks: {unknown}, and its schema_contract freezes it; it has "
            f"{target.names}"
        )


def _refuse_source_columns(spec: IncrementalSpec, source: TableShape) -> None:
    if not (spec.source_keys or source.identifiers):
        raise InvalidSpecError(
            f"{spec.source}: deletes need keys, and the table has no identifier fields; give source_keys, or set them, "
            "of columns that are NOT NULL, with ALTER TABLE ... SET IDENTIFIER FIELDS"
        )
    if unknown := unknown_names(spec.source_keys, source.names_ever):
        raise InvalidSpecError(f"{spec.source}: has no top-level column {unknown}; it has {source.names}")


def _refuse_start(spec: IncrementalSpec, target: TableFacts | None, source: LoadedTable) -> None:
    properties = target.properties if target is not None else {}
    source_name = position_id(source.facts, spec.consumer)
    position = applied_of_source(target, source_name).position
    start = spec.from_snapshot or position.range_start
    if start is not None:
        source.capabilities.refuse_broken_start(spec.table, source_name, start)
    elif position.snapshot is None:
        return
    if spec.replaces_transform(properties):
        if spec.on_transform_change == "full":
            return
        raise BadInputError(spec.other_transform())
    if start is None or spec.on_gap != "fail":
        return
    before = source.facts.snapshots.get(start)
    if before is None:
        raise RangeUnavailableError(
            f"{spec.source}: from_snapshot {start} is not in the table's metadata: it was expired, or is of another "
            "table. Rebuild with full_refresh=True, or let on_gap='full' do so"
        )
    if (why := source.incomparable_since(before)) is not None:
        raise RangeUnavailableError(why)


def _refuse_assignments(spec: UpdateRowsSpec, table: TableShape) -> None:
    if unknown := unknown_names(spec.assignments, table.names):
        raise InvalidSpecError(
            f"{spec.table}: assignments name columns that the table lacks: {unknown}; it has {table.names}"
        )
    given = {name.lower() for name in spec.assignments}
    identifying = [name for name in table.identifiers if name.lower() in given]
    if identifying:
        raise InvalidSpecError(
            f"{spec.table}: assignments may not change the identifier columns {identifying}: two rows could get one "
            "key. Delete the rows and insert them under their new keys"
        )


def refuse_predicate(name: str, where: str | None, table: LoadedTable, *, is_secret: bool = False) -> None:
    """Refuse columns that the table lacks, where the worker reads the predicate as Spark would.

    :param is_secret: keep all of the text out of the message.
    """
    # Quotes mean other things to the two; what the worker cannot read at all is left to the driver.
    if where is None or any(quote in where for quote in ('"', "`")):
        return
    try:
        named = table.columns_in(where)
    except InvalidSpecError:
        return
    if unknown := unknown_names(named, table.facts.shape.columns):
        shown = "a column, its name is withheld," if is_secret else f"columns {unknown}"
        raise InvalidSpecError(f"{name}: where names {shown} that the table lacks; it has {table.facts.shape.names}")


def unknown_names(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names, sorted, that a table has in no spelling."""
    present = {name.lower() for name in known}
    return sorted(name for name in names if name.lower() not in present)
