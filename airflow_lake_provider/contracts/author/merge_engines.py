"""Merge engines: what the rows of one key become together, named as Paimon's users know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, cast

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, groups, text, texts
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError

AGGREGATES = (
    "sum",
    "max",
    "min",
    "last",
    "last_non_null",
    "count",
    "bool_and",
    "bool_or",
    "listagg",
    "collect",
)
_ORDERED = {"last", "last_non_null", "listagg", "collect"}


class Deletes(str, Enum):
    """``hard`` removes the row, ``soft`` sets a flag column, ``ignore`` drops deletes as if they had not come."""

    HARD = "hard"
    SOFT = "soft"
    IGNORE = "ignore"


def _aggregates(value: object, name: str) -> dict[str, str]:
    functions = texts(value, name, "a column to its function")
    unknown = sorted(set(functions.values()) - set(AGGREGATES))
    if unknown:
        raise InvalidSpecError(f"{name} has no {unknown}; it takes {', '.join(AGGREGATES)}")
    if not functions:
        raise InvalidSpecError(f"{name} must name one or more columns, got none")
    return functions


@dataclass(frozen=True)
class MergeEngine(ArgumentObject):
    """Base of all merge engines.

    :param deletes: ``"hard"`` removes the row, ``"soft"`` sets ``deleted_column``, ``"ignore"`` drops deletes.
    :param deleted_column: boolean column of the table that soft deletes set.
    """

    deletes: Deletes | str = field(default=Deletes.HARD, kw_only=True, metadata=reads(choice_of(Deletes)))
    deleted_column: str = field(default="is_deleted", kw_only=True, metadata=reads(text))

    # Value of a column that the batch lacks, where neither the schema contract nor the source says.
    missing_columns: ClassVar[MissingColumns] = MissingColumns.FAIL
    # Of an engine that has no such field.
    ignore_stale = False
    aggregates = cast("Mapping[str, str]", MappingProxyType({}))
    sequence_groups = cast("Mapping[str, Sequence[str]]", MappingProxyType({}))

    @property
    def combines_rows(self) -> bool:
        """True where more than the last row of a key counts."""
        return not isinstance(self, Deduplicate)

    @property
    def counts_rows(self) -> bool:
        """True where a row that is applied twice counts twice."""
        return isinstance(self, Aggregation)

    @property
    def is_plain(self) -> bool:
        """True where the table's row is replaced or deleted without being looked at."""
        return not self.combines_rows and not self.ignore_stale and self.deletes is not Deletes.SOFT

    def depends_on_order(self, column: str) -> bool:
        """Return whether the order of a key's rows, none of which deletes, decides the value of a column."""
        return not isinstance(self, Aggregation) or self.function_of(column) in _ORDERED

    def function_of(self, column: str) -> str:
        """Return the function of :data:`AGGREGATES` by which a column's values are merged, where no group has it."""
        chosen = {name.lower(): function for name, function in self.aggregates.items()}
        return chosen.get(column.lower(), "last_non_null")

    @property
    def named_columns(self) -> list[str]:
        """Columns that the engine names, but for the one that flags deletes; as the author spells them."""
        return [*self.aggregates, *(name for order, group in self.sequence_groups.items() for name in (order, *group))]

    @property
    def needs(self) -> tuple[str, ...]:
        """Its merge, and what it looks at or writes of the table's rows."""
        soft = ("soft-deletes",) if self.deletes is Deletes.SOFT else ()
        return (f"merge-{self.kind}", *soft, *(() if self.is_plain else ("kept-values",)))

    @property
    def column_names(self) -> Mapping[str, Iterable[str]]:
        """The column that soft deletes set."""
        return {"deleted_column": (self.deleted_column,)}

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse columns, an order or a policy that do not go with how rows are merged."""
        if spec.source.on_source_change.value == "replay" and self.counts_rows:
            raise InvalidSpecError(
                f"{spec.table}: on_source_change='replay' would count all files again; an Aggregation takes "
                "'continue' or 'fail'"
            )
        if spec.is_complete and (self.combines_rows or self.ignore_stale or self.deletes is Deletes.IGNORE):
            raise InvalidSpecError(
                f"{spec.table}: complete=True makes the rows of the batch those of the table, and deletes the keys "
                "that it lacks: merge_engine may only be a Deduplicate, without ignore_stale and deletes='ignore', got "
                f"{self!r}"
            )
        self.refuse_columns(spec.table, spec.keys)
        self.refuse_order(spec.table, spec.order_by)
        excluded = {name.lower() for name in spec.exclude_columns}
        for order, group in self.sequence_groups.items():
            # Without its order a group keeps the table's values for ever.
            if not {name.lower() for name in group} <= excluded:
                spec.refuse_excluded("the order of a sequence group", (order,))
        if not self.ignore_stale:
            return
        if not spec.order_by:
            raise InvalidSpecError(
                f"{spec.table}: ignore_stale compares order_by with what the table holds; give order_by"
            )
        spec.refuse_excluded("columns of order_by, which ignore_stale compares,", spec.order_by)
        if spec.delete_when and self.deletes is Deletes.HARD:
            raise InvalidSpecError(
                f"{spec.table}: ignore_stale cannot tell a late row of a key whose row, and its order, is gone; "
                "use deletes='soft', which keeps the order, or deletes='ignore'"
            )

    def refuse_columns(self, table: str, keys: tuple[str, ...]) -> None:
        """Refuse key columns where values are merged.

        :raises InvalidSpecError: naming them.
        """
        merged = set(self.named_columns)
        if self.deletes is Deletes.SOFT:
            merged.add(self.deleted_column)
        both = sorted({name.lower() for name in merged} & {key.lower() for key in keys})
        if both:
            raise InvalidSpecError(f"{table}: key columns {both} identify a row and cannot be merged or flag a delete")

    def refuse_order(self, table: str, order_by: tuple[str, ...]) -> None:
        """Refuse order columns with a merge of their own: they are those of the row that is the last.

        :raises InvalidSpecError: naming them.
        """
        ordering = [name.lower() for name in order_by]
        # The greatest of the first order column is that of the last row, and so is the newest of a group's order.
        fitting = {name.lower() for name, function in self.aggregates.items() if function == "max"}
        fitting |= {name.lower() for name in self.sequence_groups}
        always = {name.lower() for name, function in self.aggregates.items() if function == "last"}
        merged = {name.lower() for name in self.named_columns}
        clashes = sorted((merged & set(ordering)) - (fitting & set(ordering[:1])) - always)
        if clashes:
            raise InvalidSpecError(
                f"{table}: order_by columns {clashes} are those of the last row of a key, and merge_engine merges them "
                "otherwise. The first of order_by may be aggregated by 'max' or be the order of a sequence group; "
                "for anything else order by another column"
            )


@dataclass(frozen=True)
class Deduplicate(MergeEngine):
    """Keep the last row of a key.

    :param ignore_stale: a row whose ``order_by`` is older than that of the table's row changes nothing.
    """

    kind: ClassVar[str] = "deduplicate"
    ignore_stale: bool = field(default=False, metadata=reads(flag))


@dataclass(frozen=True)
class FirstRow(MergeEngine):
    """Keep the first row of a key, until the key is deleted."""

    kind: ClassVar[str] = "first-row"


@dataclass(frozen=True)
class PartialUpdate(MergeEngine):
    """Keep the last value of each column that is not NULL.

    :param sequence_groups: order column -> columns that change only together with it. They change only when that column
        is not older than the table's. A NULL in it leaves the group as it is.
    """

    kind: ClassVar[str] = "partial-update"
    # To it absent and NULL are the same.
    missing_columns: ClassVar[MissingColumns] = MissingColumns.KEEP
    sequence_groups: Mapping[str, Sequence[str]] = field(default_factory=dict, metadata=reads(groups))

    def complete(self) -> None:
        """Refuse a column in two places."""
        grouped = [name.lower() for name in self.named_columns]
        twice = sorted({name for name in grouped if grouped.count(name) > 1})
        if twice:
            raise InvalidSpecError(f"columns {twice} are in more than one place of sequence_groups")


@dataclass(frozen=True)
class Aggregation(MergeEngine):
    """Apply a function to all values of a column.

    :param aggregates: column -> function, one of ``sum``, ``max``, ``min``, ``last``, ``last_non_null``, ``count``,
        ``bool_and``, ``bool_or``, ``listagg`` and ``collect``; other columns keep their last value that is not NULL.
    """

    kind: ClassVar[str] = "aggregation"
    # To it absent and NULL are the same.
    missing_columns: ClassVar[MissingColumns] = MissingColumns.KEEP
    aggregates: Mapping[str, str] = field(metadata=reads(_aggregates, {"a_column": "sum"}))


def merge_engine(value: object, name: str = "merge_engine") -> MergeEngine:
    """Return the merge engine that an author gives.

    :param value: an engine, a mapping of its fields with ``type``, or that type alone, such as ``"first-row"``.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, MergeEngine):
        return value
    if isinstance(value, Mapping):
        return MergeEngine.from_mapping(value, name)
    if isinstance(value, str):
        return MergeEngine.from_mapping({"type": value}, name)
    names = ", ".join(kind.__name__ for kind in MergeEngine.kinds().values())
    raise InvalidSpecError(f"{name} must be a type, a mapping with type, or one of {names}, got {value!r}")
