"""Compute the changes between two snapshots of a v3 table, by row lineage; refuse a range that is gone.

A row is unchanged when it has the same ``_row_id`` and ``_last_updated_sequence_number`` at both ends. Compaction keeps
both, so it is invisible; rows born and deleted inside the range are live at neither end. The snapshots between are not
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from airflow_lake_provider.contracts.errors import InvalidSpecError, RangeUnavailableError, UnsupportedError
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.iceberg.column_types import changed_types, other_types
from airflow_lake_provider.iceberg.table_obstacles import with_change_columns, without_row_lineage
from airflow_lake_provider.spark_jobs.formats.commits import ChangeFilter
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.deleted_keys import (
    DeletedKeys,
    deletes_without_live_key,
    keys_apart,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.row_versions import (
    RowVersions,
    row_versions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import ROW_ID
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import rows_where
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import refuse_capitals
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.predicate import check_expression, check_predicate

# Metadata of a column of Spark's: SQL of Iceberg's ``initial-default``.
_INITIAL_DEFAULT = "EXISTS_DEFAULT"
UPSERT = "upsert"
DELETE = "delete"
_SINCE = "since the last commit, and changes up to there have the names of then. Run this again after the next commit"


@dataclass
class NetChanges:
    """Changes as a DataFrame of the chosen columns and ``_change_type``, ``upsert`` or ``delete``.

    Deletes have the values the row had at the start of the range.
    """

    dataframe: DataFrame
    _releases: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def close(self) -> None:
        """Release what the DataFrame holds in the driver and in Spark's storage; it can no longer run."""
        while self._releases:
            self._releases.pop()()


def net_changes(
    table: IcebergTable, from_snapshot: int | None, to_snapshot: int | None, wanted: ChangeFilter
) -> NetChanges:
    """Return what must be applied to the rows live at one snapshot to get the rows live at another.

    :param from_snapshot: exclusive start; None for everything live at ``to_snapshot`` as upserts.
    :param to_snapshot: inclusive end; None for the head of main. It may also precede ``from_snapshot`` or be on
        another branch of the history, as after a rollback.
    :raises UnsupportedError: the table has format version 1 or 2, or a column ``_change_type``.
    :raises RangeUnavailableError: a snapshot is not in the metadata, or ``from_snapshot`` is older than row lineage.
    :raises InvalidSpecError: unknown columns, or deletes without keys.
    """
    if (why := without_row_lineage(table.format_version)) is not None:
        raise UnsupportedError(f"{table.name}: {why}")
    end = to_snapshot if to_snapshot is not None else table.head()
    if end is None:
        refuse_range_of_empty_table(table, from_snapshot)
        rows = table.spark.table(table.sql_name).limit(0)
        _check_where(table, rows, wanted)
        return NetChanges(_select(rows, _Columns.of(table, rows.columns, wanted)).withColumn(*_mark(UPSERT)))
    after = snapshot_of(table, end, "to_snapshot")
    if from_snapshot is None:
        rows = table.rows_by_newest_schema(end) if wanted.is_head else table.rows_at(end)
        schema = None if wanted.is_head else table.schema_at(after.snapshotId())
        _check_where(table, rows, wanted, schema)
        columns = _Columns.of(table, rows.columns, wanted, schema)
        return NetChanges(_select(_matching_live(table, rows, end, wanted), columns).withColumn(*_mark(UPSERT)))
    names = _names_now(table, after) if wanted.is_head else {}
    if any(then != now for then, now in names.items()) or (names and [*names] != table.schema().names):
        return _by_names_now(table, before=from_snapshot, after=after, names=names, wanted=wanted)
    return _changes_since(table, from_snapshot, after, wanted)


def _changes_since(table: IcebergTable, from_snapshot: int, after: Any, wanted: ChangeFilter) -> NetChanges:
    """Return the changes by the names that columns had at the end of the range."""
    schema = table.schema_at(after.snapshotId())
    _check_where(table, table.rows_at(int(after.snapshotId())), wanted, schema)
    columns = _Columns.of(table, [str(item.name()) for item in schema.columns()], wanted, schema)
    before = snapshot_with_lineage(table, from_snapshot, after)
    refuse_other_types(table, before, after)
    return _diff(table, before, after, columns, wanted)


@dataclass(frozen=True)
class _Columns:
    keys: tuple[str, ...]
    chosen: tuple[str, ...]

    @classmethod
    def of(cls, table: IcebergTable, names: list[str], wanted: ChangeFilter, schema: Any = None) -> _Columns:
        """Choose among the names of a schema; None for the table's."""
        if (why := with_change_columns(names)) is not None:
            raise UnsupportedError(f"{table.name}: {why}")
        spelled = {**{name.lower(): name for name in names}, **{name: name for name in names}}

        def in_table(given: Sequence[str]) -> tuple[str, ...]:
            return tuple(spelled.get(name, spelled.get(name.lower(), name)) for name in given)

        asked_keys = in_table(wanted.keys)
        chosen = None if wanted.columns is None else in_table(wanted.columns)
        keys = asked_keys or tuple(identifiers_of(table, schema or table.java.schema()))
        if wanted.deletes and not keys:
            raise InvalidSpecError(
                f"{table.name}: deletes need keys, and the table has no identifier fields; give keys, or set them, of "
                "columns that are NOT NULL, with ALTER TABLE ... SET IDENTIFIER FIELDS, or take mode 'upserts'"
            )
        asked = {*asked_keys, *(chosen or ()), *(keys if wanted.deletes else ())}
        unknown = sorted(asked - set(names))
        if unknown:
            raise InvalidSpecError(f"{table.name}: has no top-level column {unknown}; it has {names}")
        return cls(keys, tuple(name for name in names if chosen is None or name in chosen or name in keys))


def identifiers_of(table: IcebergTable, schema: Any) -> list[str]:
    """Return the identifier fields that a table has now, by their names in a schema, which may be an earlier one."""
    now = table.java.schema()
    return sorted(str(schema.findColumnName(id_) or now.findColumnName(id_)) for id_ in now.identifierFieldIds())


def _diff(table: IcebergTable, before: Any, after: Any, columns: _Columns, wanted: ChangeFilter) -> NetChanges:
    is_ancestor = _is_ancestor(table, before, after)
    floor = int(before.sequenceNumber()) if is_ancestor else None
    versions = row_versions(table, before, after, from_sequence_number=floor)
    releases: list[Callable[[], object]] = [versions.close]
    parts = []
    upserts = _upserts(versions, floor, wanted)
    if upserts is not None:
        parts.append(_select(upserts, columns).withColumn(*_mark(UPSERT)))
    deletes = _deletes(table, versions, after, columns, wanted, releases) if wanted.deletes else None
    if deletes is not None:
        parts.append(_select(deletes, columns).withColumn(*_mark(DELETE)))
    if not parts:
        parts = [_select(table.rows_at(after.snapshotId()), columns).limit(0).withColumn(*_mark(UPSERT))]
    return NetChanges(reduce(DataFrame.unionByName, parts), releases)


def _deletes(
    table: IcebergTable,
    versions: RowVersions,
    after: Any,
    columns: _Columns,
    wanted: ChangeFilter,
    releases: list[Callable[[], object]],
) -> DataFrame | None:
    schema = table.schema_at(after.snapshotId())
    filtered = [str(item.name()) for item in schema.columns()] if wanted.where is not None else None
    has_values = set(columns.chosen) <= set(columns.keys) or versions.values_come_along(filtered or columns.chosen)
    brought = columns.chosen if has_values else columns.keys
    gone = _gone(versions, columns, wanted, brought, filtered or brought)
    if gone is None:
        return None
    gone.persist()
    releases.append(gone.unpersist)
    end = int(after.snapshotId())
    live_rows = _matching_live(table, table.rows_at(end), end, wanted)
    deletes = deletes_without_live_key(table, schema, gone, live_rows, columns.keys, ROW_ID)
    if deletes is None or has_values:
        return None if deletes is None else deletes.rows
    return _with_values(versions, deletes)


def _with_values(versions: RowVersions, deletes: DeletedKeys) -> DataFrame:
    """Return the rows with the values they had, read again: the keys of those that went cost less than all columns."""
    rows = versions.before()
    if rows is None:
        return deletes.rows
    ids = deletes.rows.select(sf.col(ROW_ID).alias("_lake_row_id"))
    return rows.join(
        sf.broadcast(ids) if deletes.are_few else ids, sf.col(ROW_ID) == sf.col("_lake_row_id"), "left_semi"
    )


def _upserts(versions: RowVersions, floor: int | None, wanted: ChangeFilter) -> DataFrame | None:
    if floor is not None:
        added = versions.added()
        return None if added is None else _matching(added.where(sf.col(LAST_UPDATED) > floor), wanted)
    after, before = versions.after(), versions.before()
    if after is None:
        return None
    after = _matching(after, wanted)
    if before is None:
        return after
    unchanged = _matching(before, wanted).select(
        sf.col(ROW_ID).alias("_lake_row_id"), sf.col(LAST_UPDATED).alias("_lake_last_updated")
    )
    same = (sf.col(ROW_ID) == sf.col("_lake_row_id")) & (sf.col(LAST_UPDATED) == sf.col("_lake_last_updated"))
    return after.join(unchanged, same, "left_anti")


def _gone(
    versions: RowVersions, columns: _Columns, wanted: ChangeFilter, brought: Sequence[str], read: Sequence[str]
) -> DataFrame | None:
    """Return the rows that are not live any more under the same key.

    :param brought: the columns to return beside ``_row_id``, the keys among them.
    :param read: these, and what the filter reads.
    """
    left, arrived = versions.left_and_arrived(read)
    if left is None:
        return None
    gone = _matching(left, wanted).select(*(quoted(name) for name in brought), ROW_ID)
    if arrived is None:
        return gone
    # A row whose key was changed keeps its row id: it is gone as far as its old key is concerned.
    renamed, same_keys = keys_apart(_matching(arrived, wanted), columns.keys, sf.col(ROW_ID).alias("_lake_row_id"))
    return gone.join(renamed, (sf.col(ROW_ID) == sf.col("_lake_row_id")) & same_keys, "left_anti")


def _is_ancestor(table: IcebergTable, before: Any, after: Any) -> bool:
    """Follow the parents; an expired one proves nothing, and the slower general rule answers then."""
    wanted, floor = before.snapshotId(), before.sequenceNumber()
    snapshot = after
    while snapshot is not None and snapshot.sequenceNumber() >= floor:
        if snapshot.snapshotId() == wanted:
            return True
        parent = snapshot.parentId()
        snapshot = table.java.snapshot(int(parent)) if parent is not None else None
    return False


def _names_now(table: IcebergTable, after: Any) -> dict[str, str | None]:
    """Return the names of a head's columns by those that they had at its commit; None of a column that was dropped.

    :raises UnsupportedError: fields inside of a column were renamed or dropped.
    """
    end = int(after.snapshotId())
    if not table.branches_at(end) or not table.has_new_schema(end):
        return {}
    then, now = table.schema_at(after.snapshotId()), table.java.schema()
    names = {str(field.name()): now.findColumnName(field.fieldId()) for field in then.columns()}
    others = []
    for entry in JavaItems(table.spark, table.iceberg.types.TypeUtil.indexByName(then.asStruct()).entrySet()):
        name, present = str(entry.getKey()), now.findColumnName(entry.getValue())
        column = next((each for each in names if name.startswith(f"{each}.")), None)
        if column is not None and names[column] is not None and name != present:
            others += [name] if present is None or name.rpartition(".")[2] != present.rpartition(".")[2] else []
    if others:
        raise UnsupportedError(f"{table.name}: fields {sorted(others)} were renamed or dropped {_SINCE}")
    return names


def _by_names_now(
    table: IcebergTable, before: int, after: Any, names: Mapping[str, str | None], wanted: ChangeFilter
) -> NetChanges:
    """Return the changes up to a head in the columns of now: without those that were dropped, with those that are new.

    :param names: of :func:`_names_now`.
    :raises UnsupportedError: a predicate would be asked of the names of then, or a key is a new column.
    """
    others = sorted(then for then, now in names.items() if then != now)
    if wanted.where is not None and others:
        raise UnsupportedError(f"{table.name}: columns {others} were renamed or dropped {_SINCE}, or leave where out")
    then = {now: name for name, now in names.items() if now is not None}
    columns = _Columns.of(table, table.schema().names, wanted)
    if new := sorted(set(columns.keys) - then.keys()):
        raise UnsupportedError(f"{table.name}: key columns {new} were added {_SINCE}")
    chosen = tuple(then[name] for name in columns.chosen if name in then)
    keys = tuple(then[key] for key in columns.keys)
    changes = _changes_since(table, before, after, replace(wanted, keys=keys, columns=chosen))
    fields = {field.name: field for field in table.schema()}
    values = [quoted(then[name]) if name in then else _in_old_rows(fields[name]) for name in columns.chosen]
    named = (value.alias(name) for value, name in zip(values, columns.chosen, strict=True))
    changes.dataframe = changes.dataframe.select(*named, CHANGE_TYPE)
    return changes


def _in_old_rows(field: StructField) -> Column:
    """Return the value of a column in rows of files without it: NULL, or its default."""
    return sf.expr(field.metadata.get(_INITIAL_DEFAULT, "NULL")).cast(field.dataType)


def _matching_live(table: IcebergTable, rows: DataFrame, snapshot: int, wanted: ChangeFilter) -> DataFrame:
    return rows_where(table, rows, wanted.where, snapshot) if wanted.where else rows


def _check_where(table: IcebergTable, rows: DataFrame, wanted: ChangeFilter, schema: Any = None) -> None:
    if wanted.where is None:
        return
    if wanted.allow_sql:
        check_expression(table.spark, wanted.where, str(table.name))
        return
    otherwise = ", or set allow_sql=True, which makes it code"
    check_predicate(table.spark, wanted.where, rows.schema, str(table.name), otherwise=otherwise)
    refuse_capitals(table, wanted.where, schema)


def _matching(rows: DataFrame, wanted: ChangeFilter) -> DataFrame:
    return rows.where(wanted.where) if wanted.where else rows


def _select(rows: DataFrame, columns: _Columns, *more: str) -> DataFrame:
    return rows.select(*(quoted(name) for name in (*columns.chosen, *more)))


def _mark(change_type: str) -> tuple[str, Column]:
    return CHANGE_TYPE, sf.lit(change_type)


def snapshot_of(table: IcebergTable, snapshot_id: int, role: str) -> Any:
    """Return a snapshot of the table's metadata.

    :param role: of the range, such as ``from_snapshot``.
    :raises RangeUnavailableError: it was expired, or is of another table.
    """
    snapshot = table.java.snapshot(snapshot_id)
    if snapshot is None:
        snapshot = table.refresh().java.snapshot(snapshot_id)
    if snapshot is None:
        raise RangeUnavailableError(
            f"{table.name}: {role} {snapshot_id} is not in the table's metadata: it was expired, or is of another "
            "table. Rebuild with full_refresh=True, or let on_gap='full' do so; with read_changes, read from None"
        )
    return snapshot


def snapshot_with_lineage(table: IcebergTable, from_snapshot: int, after: Any) -> Any:
    """Return the start of a range, whose rows have row ids, as those of its end have.

    :raises RangeUnavailableError: it was expired, or one of the two was written before format version 3.
    """
    before = snapshot_of(table, from_snapshot, "from_snapshot")
    for snapshot in (before, after):
        if snapshot.firstRowId() is None:
            raise RangeUnavailableError(
                f"{table.name}: snapshot {snapshot.snapshotId()} was written before the table had format version 3, so "
                "its rows have no row ids to compare by. Rebuild once with full_refresh=True, or let on_gap='full' do "
                "so; with read_changes, read from None"
            )
    return before


def refuse_other_types(table: IcebergTable, before: Any, after: Any) -> None:
    """Refuse a range over a replacement of the table in which a column got another type under its old id.

    :raises RangeUnavailableError: rows of the start cannot be read beside those of the end.
    """
    changed = changed_types(table.schema_of(before.snapshotId()), table.schema_of(after.snapshotId()))
    if changed:
        raise RangeUnavailableError(other_types(str(table.name), str(before.snapshotId()), changed))


def refuse_range_of_empty_table(table: IcebergTable, from_snapshot: int | None) -> None:
    """Refuse a range that has a start and no end.

    :raises RangeUnavailableError: main has no snapshot.
    """
    if from_snapshot is not None:
        snapshot_of(table, from_snapshot, "from_snapshot")
        raise RangeUnavailableError(
            f"{table.name}: main has no snapshot, so there is no end for a range from {from_snapshot}; give to_snapshot"
        )
