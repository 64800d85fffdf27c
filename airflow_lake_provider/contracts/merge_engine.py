"""Merge engines: combine the rows of one key in a batch with the table's row."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

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


class MergeEngine(str, Enum):
    """Named as Paimon's users know them.

    ``deduplicate``: the last row. ``first-row``: the first row, until the key is deleted. ``partial-update``: per
    column the last value that is not NULL. ``aggregation``: per column a function over all rows.
    """

    DEDUPLICATE = "deduplicate"
    FIRST_ROW = "first-row"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"


class Deletes(str, Enum):
    """``hard`` removes the row, ``soft`` sets a flag column, ``ignore`` drops deletes as if they had not come."""

    HARD = "hard"
    SOFT = "soft"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True)
class MergeRules:
    """How rows of one key are merged; the default keeps the last row.

    :param engine: what becomes of the rows of a key.
    :param sequence_groups: with ``partial-update``: order column -> columns that change only together with it and only
        when it is not older than the table's; a NULL in it leaves the group as it is.
    :param aggregates: with ``aggregation``: column -> function, one of ``sum``, ``max``, ``min``, ``last``,
        ``last_non_null``, ``count``, ``bool_and``, ``bool_or``, ``listagg`` and ``collect``; other columns keep their
        last value that is not NULL.
    :param ignore_stale: a row whose ``order_by`` is older than that of the table's row changes nothing.
    :param deletes: what a delete does to the table's row.
    :param deleted_column: boolean column of the table that soft deletes set.
    """

    engine: MergeEngine = MergeEngine.DEDUPLICATE
    sequence_groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aggregates: dict[str, str] = field(default_factory=dict)
    ignore_stale: bool = False
    deletes: Deletes = Deletes.HARD
    deleted_column: str = "is_deleted"

    def __post_init__(self) -> None:
        self._refuse_foreign_arguments()
        unknown = sorted(set(self.aggregates.values()) - set(AGGREGATES))
        if unknown:
            raise InvalidSpecError(f"aggregates has no {unknown}; it takes {', '.join(AGGREGATES)}")
        grouped = [name.lower() for group in self.sequence_groups.values() for name in group]
        grouped += [name.lower() for name in self.sequence_groups]
        twice = sorted({name for name in grouped if grouped.count(name) > 1})
        if twice:
            raise InvalidSpecError(f"columns {twice} are in more than one place of sequence_groups")

    @property
    def combines_rows(self) -> bool:
        """Whether more than the last row of a key counts."""
        return self.engine is not MergeEngine.DEDUPLICATE

    @property
    def is_plain(self) -> bool:
        """Whether the table's row has no say: it is replaced or deleted as it stands."""
        return not self.combines_rows and not self.ignore_stale and self.deletes is not Deletes.SOFT

    def depends_on_order(self, column: str) -> bool:
        """Whether the order of a key's rows, none of which deletes, decides what a column that is no key becomes."""
        return self.engine is not MergeEngine.AGGREGATION or self.function_of(column) in _ORDERED

    def function_of(self, column: str) -> str:
        """Return the function of :data:`AGGREGATES` by which a column's values are merged, where no group has it."""
        chosen = {name.lower(): function for name, function in self.aggregates.items()}
        return chosen.get(column.lower(), "last_non_null")

    @property
    def named_columns(self) -> list[str]:
        """Columns that the rules name, but for the one that flags deletes; as the author spells them."""
        groups = self.sequence_groups.items()
        return [*self.aggregates, *(name for order, group in groups for name in (order, *group))]

    def refuse_columns(self, table: str, keys: tuple[str, ...]) -> None:
        """Refuse key columns where values are merged.

        :raises InvalidSpecError: naming them.
        """
        merged = set(self.named_columns)
        if self.deletes is Deletes.SOFT:
            merged.add(self.deleted_column)
        wrong = sorted({name.lower() for name in merged} & {key.lower() for key in keys})
        if wrong:
            raise InvalidSpecError(f"{table}: key columns {wrong} identify a row and cannot be merged or flag a delete")

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
        wrong = sorted((merged & set(ordering)) - (fitting & set(ordering[:1])) - always)
        if wrong:
            raise InvalidSpecError(
                f"{table}: order_by columns {wrong} are those of the last row of a key, and merge_engine merges them "
                "otherwise. The first of order_by may be aggregated by 'max' or be the order of a sequence group; "
                "for anything else order by another column"
            )

    def _refuse_foreign_arguments(self) -> None:
        if self.sequence_groups and self.engine is not MergeEngine.PARTIAL_UPDATE:
            raise InvalidSpecError(
                f"sequence_groups belong to merge_engine='partial-update', not {self.engine.value!r}"
            )
        if bool(self.aggregates) != (self.engine is MergeEngine.AGGREGATION):
            raise InvalidSpecError("aggregates and merge_engine='aggregation' go together: give both or neither")
        if self.ignore_stale and self.combines_rows:
            raise InvalidSpecError(
                "ignore_stale compares whole rows, and merge_engine="
                f"{self.engine.value!r} makes one of several; leave it out, for 'partial-update' use sequence_groups"
            )
