"""Merge engines: what the rows of one key become together, named as Paimon's users know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, cast

from airflow_lake_provider.contracts.argument_validation import (
    choice_of,
    different_columns,
    flag,
    groups,
    names,
    optional,
    text,
    texts,
)
from airflow_lake_provider.contracts.as_of import time_in_utc
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
    different_columns(functions, name)
    return functions


@dataclass(frozen=True)
class MergeEngine(ArgumentObject):
    """Base of all merge engines.

    :param deletes: ``"hard"`` removes the row, ``"soft"`` sets ``deleted_column``, ``"ignore"`` drops deletes.
    :param deleted_column: boolean column of the table that soft deletes set.
    """

    deletes: Deletes | str = field(default=Deletes.HARD, kw_only=True, metadata=reads(choice_of(Deletes)))
    deleted_column: str = field(default="is_deleted", kw_only=True, metadata=reads(text, "a flag"))

    # Value of a column that the batch lacks, where neither the schema contract nor the source says.
    missing_columns: ClassVar[MissingColumns] = MissingColumns.FAIL
    # Of an engine that has no such field.
    ignore_stale = False
    aggregates = cast("Mapping[str, str]", MappingProxyType({}))
    sequence_groups = cast("Mapping[str, Sequence[str]]", MappingProxyType({}))

    @property
    def history_columns(self) -> Sequence[str]:
        """Columns that it adds to those of a batch."""
        return ()

    @property
    def combines_rows(self) -> bool:
        """True where more than the last row of a key counts."""
        return not isinstance(self, (Deduplicate, History))

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

    def identity_in_batch(self, keys: Sequence[str], order_by: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the columns of which a batch keeps one row for each value, and the order in which it is the last."""
        return keys, order_by

    def identity_in_table(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that identify a row of the table."""
        return tuple(keys)

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
        if not spec.order_by and spec.is_final("order_by"):
            raise InvalidSpecError(
                f"{spec.table}: ignore_stale compares order_by with what the table holds; give order_by"
            )
        spec.refuse_excluded("columns of order_by, which ignore_stale compares,", spec.order_by)
        is_hard = self.deletes is Deletes.HARD and self.is_final("deletes")
        if is_hard and (spec.delete_when or spec.source.tells_deletes(spec.keys)):
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
    aggregates: Mapping[str, str] = field(metadata=reads(_aggregates, {"a value": "sum"}))


@dataclass(frozen=True)
class History(MergeEngine):
    """Keep every version of a key as a row of its own, with the time for which it was valid.

    A version is valid from the time of its row, the first column of ``order_by``, until the next version or delete.

    :param valid_from: column of the time from which a row is valid, that moment included.
    :param valid_to: column of the time until which, that moment excluded; NULL in the newest version of a key.
    :param current: boolean column that is true just there; None for none.
    :param track: columns whose change makes a new version; changes of others update the version in place. None for all
        but the keys and ``order_by``.
    :param at: time of the whole batch, with a zone, where rows have none: ``"{{ data_interval_end }}"``.
    """

    kind: ClassVar[str] = "history"
    valid_from: str = field(default="valid_from", metadata=reads(text, "a start"))
    valid_to: str = field(default="valid_to", metadata=reads(text, "an end"))
    current: str | None = field(default="is_current", metadata=reads(optional(text), "a flag"))
    track: Sequence[str] | None = field(default=None, metadata=reads(optional(names)))
    at: str | None = field(default=None, metadata=reads(optional(time_in_utc), "2000-01-01T00:00:00+00:00"))

    def complete(self) -> None:
        """Refuse what cannot be a history."""
        columns = [name.lower() for name in self.history_columns]
        if len(set(columns)) != len(columns):
            raise InvalidSpecError(f"valid_from, valid_to and current must be different columns, got {columns}")
        if self.track is not None and not self.track:
            raise InvalidSpecError("track must name one or more columns; leave it out for all, got none")
        if self.deletes is Deletes.SOFT:
            raise InvalidSpecError(
                "deletes='soft' does not go with a History, which keeps deleted rows in any case: a delete ends the "
                "time for which a row is valid. Take 'hard' for that, or 'ignore'"
            )

    @property
    def history_columns(self) -> Sequence[str]:
        """The two of times, then the flag."""
        return [self.valid_from, self.valid_to, *((self.current,) if self.current else ())]

    def identity_in_batch(self, keys: Sequence[str], order_by: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the keys and the time of a row; where the batch has one time, the keys."""
        return (keys, order_by) if self.at else ([*keys, *order_by[:1]], order_by[1:])

    def identity_in_table(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the keys, and the column of the time from which a row is valid."""
        return (*keys, self.valid_from)

    @property
    def needs(self) -> tuple[str, ...]:
        """Its merge, which looks at the rows of a key."""
        return (f"merge-{self.kind}", "kept-values")

    @property
    def column_names(self) -> Mapping[str, Iterable[str]]:
        """The columns that it writes."""
        return {"valid_from": (self.valid_from,), "valid_to": (self.valid_to,), "current": self.history_columns[2:]}

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse a batch without a time, columns that do not go together, and values that would have to be kept."""
        table = spec.table
        if spec.source.is_change_stream and not spec.source.lake_tables:
            raise InvalidSpecError(
                f"{table}: the events of {type(spec.source).__name__} come as the last one of each key, and a History "
                "takes all of them: read their files by Query(..., Files(...)), which selects the columns, the time "
                "and the deletes"
            )
        if spec.is_complete and self.at is None:
            raise InvalidSpecError(
                f"{table}: a History of complete=True needs the time of the batch, from which its rows are valid and "
                "until which those were that it lacks: History(at='{{ data_interval_end }}')"
            )
        if spec.is_complete and self.deletes is Deletes.IGNORE:
            raise InvalidSpecError(f"{table}: complete=True deletes the keys that the batch lacks; leave out deletes")
        if self.at is None:
            self._refuse_rows_without_time(spec)
        if spec.missing_columns is MissingColumns.KEEP:
            raise InvalidSpecError(f"{table}: missing_columns='keep' does not go with a History; take 'null' or 'fail'")
        spec.refuse_excluded("columns of order_by, which a History compares,", spec.order_by)
        spec.refuse_excluded("columns of track", self.track or ())
        written = {name.lower() for name in self.history_columns}
        for what, given in {"keys": spec.keys, "order_by": spec.order_by, "track": self.track or ()}.items():
            if both := sorted(written & {name.lower() for name in given}):
                raise InvalidSpecError(f"{table}: columns {both} are written by the History and cannot be in {what}")
        if both := sorted({name.lower() for name in self.track or ()} & {name.lower() for name in spec.keys}):
            raise InvalidSpecError(f"{table}: key columns {both} identify a row and cannot be in track")

    def _refuse_rows_without_time(self, spec: Any) -> None:
        if not spec.order_by and spec.is_final("order_by"):
            raise InvalidSpecError(
                f"{spec.table}: a History needs the time of each row, as the first column of order_by, or that of the "
                "batch: History(at='{{ data_interval_end }}')"
            )
        if spec.order_by and spec.order_by[0].lower() in (key.lower() for key in spec.keys):
            raise InvalidSpecError(f"{spec.table}: the time of a row, {spec.order_by[0]!r}, cannot be one of its keys")
        if any(each.tells_changes for each in spec.source.lake_tables.values()):
            raise InvalidSpecError(
                f"{spec.table}: a row that Changes report as deleted has the time of the row, not that of its delete; "
                "give the time of the batch: History(at='{{ data_interval_end }}')"
            )


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
