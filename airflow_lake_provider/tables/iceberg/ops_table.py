"""A table of this package's own, such as ``lake_ops.maintenance_history``: made, checked, written and read.

Each write is one commit that holds only for the version of the table that was loaded. PyIceberg's own retry would send
it again without a look at what came in between.
"""

from __future__ import annotations

import functools
import logging
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual, NotNull
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, PrimitiveType, StringType, TimestamptzType

from airflow_lake_provider.contracts.commit_retries import RETRIES, CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.table_name import TableName

log = logging.getLogger(__name__)
T = TypeVar("T")

# Several runs may end at the same moment; each commit is one small file.
_TRIES = CommitRetries(tries=10, shortest_wait=0.1, longest_wait=3)
# Property of a table of ours: what it is, and the version of its columns.
KIND = "lake.ops-table"
_TYPES: dict[Any, Callable[[], PrimitiveType]] = {
    str: StringType,
    int: LongType,
    float: DoubleType,
    datetime: TimestamptzType,
}
_FIRST_PARTITION_FIELD = 1000
# Every run commits to it, and nobody reads its past. Spark starts for it once a day at most, whatever part of it was
# written just now: a writer that loses against a compaction tries again.
_PROPERTIES = {
    "format-version": "2",
    "history.expire.max-snapshot-age-ms": str(24 * 3600 * 1000),
    "history.expire.min-snapshots-to-keep": "1",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "lake.maintenance.compaction.every": "P1D",
    "lake.maintenance.compaction.hot-within": "PT0S",
    "lake.maintenance.compaction.min-input-files": "50",
    "lake.maintenance.expiry.min-snapshots": "200",
    "lake.maintenance.manifests.mergeable": "50",
}


# Their signatures are those of pydantic's models, which they do not have.
_IN: Any = In
_AT_LEAST: Any = GreaterThanOrEqual
_AT_MOST: Any = LessThanOrEqual
_NOT_NULL: Any = NotNull


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """Rows that are read.

    :param at_least: lowest value of columns, as text.
    :param at_most: highest value of columns, as text.
    :param one_of: values of columns.
    :param not_null: columns that have a value.
    """

    at_least: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, str] = field(default_factory=dict)
    one_of: Mapping[str, Collection[str]] = field(default_factory=dict)
    not_null: Collection[str] = ()

    @property
    def expression(self) -> BooleanExpression:
        """The same as PyIceberg has it."""
        terms = (
            *(_AT_LEAST(name, lowest) for name, lowest in self.at_least.items()),
            *(_AT_MOST(name, highest) for name, highest in self.at_most.items()),
            *(_IN(name, tuple(values)) for name, values in self.one_of.items()),
            *(_NOT_NULL(name) for name in self.not_null),
        )
        none: BooleanExpression = AlwaysTrue()
        return functools.reduce(And, terms, none)


@dataclass(frozen=True, kw_only=True)
class RepeatedValues:
    """Values that groups of rows repeat.

    :param column: which has them.
    :param values: some of them.
    :param within: column of which rows with one value count once.
    :param fewest: how often a group has them at least.
    """

    column: str
    values: Collection[str]
    within: str
    fewest: int


@dataclass(frozen=True, kw_only=True)
class OpsTable:
    """A table whose columns are the fields of a dataclass.

    :param catalog: in which it is.
    :param name: of the table.
    :param row: the dataclass; its fields are texts, integers, floats and times, some of them optional.
    :param kind: what the table is, with the version of its columns: ``maintenance-history/1``.
    :param partition: field that partitions the table; None for none.
    """

    catalog: Catalog
    name: TableName
    row: type[Any]
    kind: str
    partition: str | None = None

    @cached_property
    def schema(self) -> Schema:
        """Columns of a new table."""
        hints = typing.get_type_hints(self.row)
        return Schema(*(_column(number, each, hints[each]) for number, each in enumerate(self.columns, 1)))

    @property
    def columns(self) -> list[str]:
        """Names of the columns; the table may have more of somebody else's."""
        return [each.name for each in fields(self.row)]

    def load(self) -> Table:
        """Load it.

        :raises NoSuchTableError: it, or its namespace, is not there.
        :raises UnsupportedError: a table of that name is somebody else's, or of another version.
        """
        table = self.catalog.load_table(self.name.levels)
        kind = table.metadata.properties.get(KIND)
        if kind != self.kind:
            whose = f"is {kind!r}, a table of another version" if kind else "is no table of this package"
            raise UnsupportedError(
                f"{self.name}: expected {self.kind!r}, and it {whose}; it is left alone. Rename it, or name another"
            )
        missing = [each.name for each in self.schema.fields if not _has(table, each)]
        if missing:
            raise UnsupportedError(
                f"{self.name}: its columns {', '.join(missing)} are gone or have other types; it is left alone. "
                "Rename it, or name another"
            )
        return table

    def load_if_there(self) -> Table | None:
        """Load it; None where it, or its namespace, is missing.

        :raises UnsupportedError: as :meth:`load`.
        """
        with suppress(NoSuchTableError):
            return self.load()
        return None

    def load_or_create(self) -> Table:
        """Load it, and make it and its namespaces where they are missing.

        :raises UnsupportedError: as :meth:`load`.
        """
        if (table := self.load_if_there()) is not None:
            return table
        try:
            self._create()
        except NoSuchNamespaceError:
            for depth in range(1, len(self.name.levels)):
                with suppress(NamespaceAlreadyExistsError):
                    self.catalog.create_namespace(self.name.levels[:depth])
            self._create()
        return self.load()

    def _create(self) -> None:
        # Another run may have been quicker.
        with suppress(TableAlreadyExistsError):
            self.catalog.create_table(
                self.name.levels,
                self.schema,
                partition_spec=self._spec,
                properties={**_PROPERTIES, KIND: self.kind},
            )

    @property
    def _spec(self) -> PartitionSpec:
        if self.partition is None:
            return PartitionSpec()
        column = self.schema.find_field(self.partition)
        by = PartitionField(column.field_id, _FIRST_PARTITION_FIELD, IdentityTransform(), column.name)
        return PartitionSpec(by)

    def committed(self, change: Callable[[int], T]) -> T:
        """Return what a change returns; where another commit came first, it is made again.

        :param change: loads the table and commits to what it has loaded; gets 1, 2, ...
        :raises CommitConflictError: other commits came first each time; nothing changed.
        """
        for attempt in _TRIES.attempts(log.info):
            with suppress(CommitFailedException):
                return change(attempt)
        raise CommitConflictError(f"{self.name}: other commits came first {_TRIES.tries} times; nothing changed")

    def append(self, table: Table, rows: Sequence[Any], summary: Mapping[str, str]) -> None:
        """Append rows to the version that was loaded.

        :param summary: properties of the snapshot.
        :raises CommitFailedException: another commit came in between; nothing changed.
        """
        _strict(table).append(self._arrow(rows), snapshot_properties=dict(summary))

    def replace(self, table: Table, rows: Sequence[Any], summary: Mapping[str, str]) -> None:
        """Put rows in place of all that the version has that was loaded.

        :raises CommitFailedException: another commit came in between; nothing changed.
        """
        head = table.current_snapshot()
        if head is None or not head.summary or head.summary.additional_properties.get("total-data-files") == "0":
            self.append(table, rows, summary)
        else:
            _strict(table).overwrite(self._arrow(rows), AlwaysTrue(), snapshot_properties=dict(summary))

    def rows(
        self, table: Table, where: RowFilter | None = None, columns: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a loaded version as mappings, in no order.

        :param where: which of them; None for all.
        :param columns: that are read; empty for all.
        """
        for batch in _scanned(table, where, columns).to_batches():
            yield from batch.to_pylist()

    def rows_of_groups(
        self,
        table: Table,
        where: RowFilter,
        columns: Sequence[str],
        *,
        group: Sequence[str],
        newest: str,
        repeated: RepeatedValues | None = None,
    ) -> list[dict[str, Any]]:
        """Return the newest rows of each group, and all rows of those that repeat certain values; by one scan.

        Some rows are there twice.

        :param where: rows that are read.
        :param columns: that are read, those that are named here included.
        :param group: columns whose values tell the groups apart.
        :param newest: column of moments.
        :param repeated: values, and how often a group has them; None for the newest rows alone.
        """
        rows = _scanned(table, where, columns)
        last = rows.group_by(group).aggregate([(newest, "max")]).rename_columns([*group, newest])
        chosen = [rows.join(last, [*group, newest], join_type="left semi")]
        if repeated is not None:
            among = rows.filter(_is_in(rows, repeated.column, repeated.values)).group_by(group)
            counts = among.aggregate([(repeated.within, "count_distinct")]).rename_columns([*group, "count"])
            often = counts.filter(pc.greater_equal(counts["count"], repeated.fewest)).select(group)
            chosen.append(rows.join(often, list(group), join_type="left semi"))
        return [row for each in chosen for row in each.to_pylist()]

    def _arrow(self, rows: Sequence[Any]) -> pa.Table:
        plain = [{name: getattr(row, name) for name in self.columns} for row in rows]
        return pa.Table.from_pylist(plain, schema=schema_to_pyarrow(self.schema))


def _scanned(table: Table, where: RowFilter | None, columns: Sequence[str]) -> pa.Table:
    chosen = AlwaysTrue() if where is None else where.expression
    return table.scan(chosen, selected_fields=tuple(columns) or ("*",)).to_arrow()


def _is_in(rows: pa.Table, column: str, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(rows[column], value_set=pa.array(list(values), rows[column].type))


def _column(number: int, name: str, hint: Any) -> NestedField:
    given = typing.get_args(hint)
    kind = _TYPES[given[0] if given else hint]
    return NestedField(number, name, kind(), required=not given)


def _has(table: Table, column: NestedField) -> bool:
    there = table.schema().as_struct().field_by_name(column.name)
    return there is not None and there.field_type == column.field_type


def _strict(table: Table) -> Table:
    """Return a table whose commit is sent once, with files of Parquet: PyIceberg writes no others."""
    properties = {**table.metadata.properties, RETRIES: "0", "write.format.default": "parquet"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
