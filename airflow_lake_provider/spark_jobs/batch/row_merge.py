"""Merge a row of the table with the batch's row of its key, as SQL that any engine can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes, FirstRow, MergeEngine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, RESET, RESET_ORDER

Name = Callable[[str], str]
# SQL of a column's value in the batch's row and in the table's, to that of both.
Merged = Callable[[str, str], str]
# A condition that every row meets.
ALWAYS = "true"


@dataclass(frozen=True, kw_only=True)
class RowMerge:
    """Expressions over a row of the table and the batch's row of the same key.

    :param given: columns of the batch without markers; ``table``: columns of the table.
    :param defaults: SQL of what a column holds in a new row that does not say, by its name in lower case; NULL for
        those left out.
    :param completed: adds the fields that the batch's struct lacks from the table's, by column in lower case.
    :param resets: whether the batch tells which keys it deleted before their row.
    :param old: from a column's name to the SQL of its value in the table's row; ``new``: in the batch's.
    """

    merge_engine: MergeEngine
    keys: Sequence[str]
    order_by: Sequence[str]
    missing: MissingColumns
    given: Sequence[str]
    table: Sequence[str]
    old: Name
    new: Name
    resets: bool
    defaults: Mapping[str, str] = field(default_factory=dict)
    completed: Mapping[str, Merged] = field(default_factory=dict)

    @property
    def wins(self) -> str | None:
        """Condition for the batch's row to change the table's; None for always."""
        conditions = []
        if self.merge_engine.ignore_stale:
            new, old = (self._ordered(side) for side in (self.new, self.old))
            conditions.append(f"{new} >= {old}")
        if isinstance(self.merge_engine, FirstRow):
            conditions.append(f"({self.new(DELETED)} OR NOT {self._counts})")
        return " AND ".join(conditions) or None

    @property
    def removes(self) -> str | None:
        """Condition for the table's row to go while none comes; None for never."""
        return None if self.merge_engine.deletes is Deletes.SOFT else self.new(DELETED)

    @property
    def adds(self) -> str:
        """Condition to write a row for a key that the table has not got."""
        keeps_order = self.merge_engine.deletes is Deletes.SOFT and self.merge_engine.ignore_stale
        # The row of a delete that came first is what a late insert is compared with.
        return ALWAYS if keeps_order else f"NOT {self.new(DELETED)}"

    def added(self, column: str) -> str:
        """Return what a column of the table becomes in a row for a key that the table has not got."""
        given = self._given(column)
        if given is None:
            return self._unsaid(column)
        new = self.new(given)
        named = {name.lower() for name in (*self.keys, *self.order_by, self.merge_engine.deleted_column)}
        if self.adds != ALWAYS or given.lower() in named:
            return new
        # In a row that deletes, only these mean something.
        return f"CASE WHEN NOT {self.new(DELETED)} THEN {new} END"

    @property
    def ignores_existing_row(self) -> bool:
        """True where what is written does not depend on the table's row."""
        return self.merge_engine.is_plain and not self.reads

    @property
    def reads(self) -> list[str]:
        """Columns of the table's row that the expressions use."""
        used: set[str] = set()

        def noting(name: str) -> str:
            used.add(name.lower())
            return self.old(name)

        probe = replace(self, old=noting)
        _ = probe.wins, [probe.value(name) for name in self.table]
        return [name for name in self.table if name.lower() in used]

    def value(self, column: str) -> str:
        """Return what a column of the table becomes where both rows are there and the batch's wins."""
        given = self._given(column)
        if given is not None and column.lower() in (key.lower() for key in self.keys):
            return self.new(given)
        merged = self._missing(column) if given is None else self._merged(given, column)
        if self.merge_engine.deletes is not Deletes.SOFT or column.lower() == self.merge_engine.deleted_column.lower():
            return merged
        kept = self.old(column)
        if given is not None and column.lower() in (name.lower() for name in self.order_by):
            kept = self._order_left(given, kept)
        return f"CASE WHEN {self.new(DELETED)} THEN {kept} ELSE {merged} END"

    def _given(self, column: str) -> str | None:
        """Return the batch's spelling of a column; None where it lacks the column."""
        return next((name for name in self.given if name.lower() == column.lower()), None)

    def _unsaid(self, column: str) -> str:
        """Return what a column that the batch lacks holds in a new row.

        Iceberg spec, default values: a writer that does not supply a value writes the field's ``write-default``. Who
        asks for NULL supplies one.
        """
        return self.defaults.get(column.lower(), "NULL") if self.missing is MissingColumns.KEEP else "NULL"

    @property
    def _counts(self) -> str:
        """True where values of the table's row still count: its key was not deleted."""
        conditions = []
        if self.resets:
            conditions.append(f"NOT {self._reset}")
        if self.merge_engine.deletes is Deletes.SOFT:
            conditions.append(f"NOT coalesce({self.old(self.merge_engine.deleted_column)}, false)")
        return f"({' AND '.join(conditions) or ALWAYS})"

    @property
    def _reset(self) -> str:
        """True where the batch deleted the key before its row; a delete older than the table's row is none."""
        if not self.merge_engine.ignore_stale:
            return self.new(RESET)
        return f"({self.new(RESET)} AND {self.new(RESET_ORDER)} >= {self._ordered(self.old)})"

    def _order_left(self, given: str, kept: str) -> str:
        """Return what a column of the order becomes in a row that is flagged as deleted."""
        if not self.merge_engine.ignore_stale:
            return f"coalesce({self.new(given)}, {kept})"
        # All of them or none: the order was compared as a whole, and the next row will be, too.
        has_order = " OR ".join(f"{self.new(name)} IS NOT NULL" for name in self.order_by)
        return f"CASE WHEN {has_order} THEN {self.new(given)} ELSE {kept} END"

    def _ordered(self, side: Name) -> str:
        # In a struct NULL is the least, as it is in the order of a batch. Fields named alike, else types do not widen.
        fields = (f"'o{index}', {side(name)}" for index, name in enumerate(self.order_by))
        return f"named_struct({', '.join(fields)})"

    def _missing(self, column: str) -> str:
        if self.missing is not MissingColumns.KEEP:
            return "NULL"
        old = self.old(column)
        if self._counts == f"({ALWAYS})":
            return old
        return f"CASE WHEN {self._counts} THEN {old} ELSE {self._unsaid(column)} END"

    def _merged(self, given: str, column: str) -> str:
        new = self._completed(given, column)
        engine = self.merge_engine
        is_flag = engine.deletes is Deletes.SOFT and column.lower() == engine.deleted_column.lower()
        if isinstance(engine, (Deduplicate, FirstRow)) or is_flag:
            return new
        old = self.old(column)
        together = self._in_group(column, new, old) or _combined(engine.function_of(column), new, old)
        return f"CASE WHEN {self._counts} THEN {together} ELSE {new} END"

    def _completed(self, given: str, column: str) -> str:
        """Return the batch's value, the fields that its struct lacks taken from the table's row where that counts."""
        new, complete = self.new(given), self.completed.get(column.lower())
        if complete is None:
            return new
        both = complete(new, self.old(column))
        return both if self._counts == f"({ALWAYS})" else f"CASE WHEN {self._counts} THEN {both} ELSE {new} END"

    def _in_group(self, column: str, new: str, old: str) -> str | None:
        for order, group in self.merge_engine.sequence_groups.items():
            if column.lower() in (name.lower() for name in (order, *group)):
                if order.lower() not in (name.lower() for name in self.given):
                    return old
                newer = f"{self.new(order)} >= {self.old(order)} OR {self.old(order)} IS NULL"
                return f"CASE WHEN {self.new(order)} IS NOT NULL AND ({newer}) THEN {new} ELSE {old} END"
        return None


def _combined(function: str, new: str, old: str) -> str:
    match function:
        case "sum":
            return f"coalesce({old} + {new}, {old}, {new})"
        case "count":
            return f"coalesce({old}, 0) + coalesce({new}, 0)"
        case "max":
            return f"greatest({old}, {new})"
        case "min":
            return f"least({old}, {new})"
        case "bool_and":
            return f"coalesce({old} AND {new}, {old}, {new})"
        case "bool_or":
            return f"coalesce({old} OR {new}, {old}, {new})"
        case "last":
            return new
        case "listagg":
            return f"coalesce({old} || ',' || {new}, {old}, {new})"
        case "collect":
            return f"coalesce(concat({old}, {new}), {old}, {new})"
    return f"coalesce({new}, {old})"
