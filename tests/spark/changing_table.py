"""A table whose schema changes, as plain Python: columns with identities, and rows by those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[int, Any]
_TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-9, 9),
    "BIGINT": st.integers(-(2**40), 2**40),
    "STRING": st.sampled_from("abc"),
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column, or a field of a struct.

    :param uid: stays the same through a rename, and is another one after it was dropped and added again.
    :param kind: SQL type; STRUCT for one with ``fields``.
    :param initial: value in rows that were written before it was added; ``default``: in rows that do not say.
    """

    uid: int
    name: str
    kind: str
    required: bool = False
    initial: Any = None
    default: Any = None
    fields: tuple[Column, ...] = ()

    def sql(self) -> str:
        inner = ", ".join(f"{each.name}: {each.sql()}" for each in self.fields)
        return (f"STRUCT<{inner}>" if self.fields else self.kind) + (" NOT NULL" if self.required else "")

    def arrow(self) -> pa.DataType:
        return pa.struct([(each.name, each.arrow()) for each in self.fields]) if self.fields else _TYPES[self.kind]

    def values(self) -> st.SearchStrategy[Any]:
        inner: st.SearchStrategy[Any] = _VALUES[self.kind] if self.kind in _VALUES else st.none()
        if self.fields:
            inner = st.fixed_dictionaries({each.uid: each.values() for each in self.fields})
        return inner if self.required else st.none() | inner

    def of(self, row: Row) -> Any:
        """Return the value by names, as a reader of the table has it."""
        value = row.get(self.uid, self.initial)
        if value is None or not self.fields:
            return value
        return {each.name: each.of(value) for each in self.fields}


@dataclass
class ChangingTable:
    """Columns and rows by key."""

    columns: list[Column] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    uids: Iterator[int] = field(default_factory=lambda: count(1))

    def new(self, name: str, kind: str, **more: Any) -> Column:
        if kind == "STRUCT":
            inner: Any = (("x", "INT", {"required": more.pop("required_inside", False)}), ("y", "STRING", {}))
            more["fields"] = tuple(Column(uid=next(self.uids), name=n, kind=k, **m) for n, k, m in inner)
        return Column(uid=next(self.uids), name=name, kind=kind, **more)

    def put(self, old: Column, new: Column) -> None:
        self.columns[self.columns.index(old)] = new

    def read(self) -> dict[int, dict[str, Any]]:
        return {id_: {column.name: column.of(row) for column in self.columns} for id_, row in self.rows.items()}


@dataclass(frozen=True, kw_only=True)
class DrawnBatch:
    """Rows of some columns.

    :param given: as the batch has them: struct columns may lack fields and have them in another order.
    :param rows: by key, values by identity; None for a delete.
    """

    given: list[Column]
    rows: dict[int, Row | None]
    keeps: bool

    def arrow(self) -> pa.Table:
        present = {id_: row or {} for id_, row in self.rows.items()}
        columns = {
            column.name: pa.array([column.of(row) for row in present.values()], column.arrow()) for column in self.given
        }
        flags = ["u" if row is not None else "d" for row in self.rows.values()]
        return pa.table({"id": pa.array(list(present), pa.int64()), **columns, "op": pa.array(flags)})

    def applied_to(self, table: ChangingTable) -> bool:
        """Apply it; False where a required value would be NULL, and nothing is changed."""
        known = {column.uid: column for column in self.given}
        after = dict(table.rows)
        for id_, row in self.rows.items():
            if row is None:
                after.pop(id_, None)
                continue
            old = table.rows.get(id_)
            after[id_] = {c.uid: self._value(c, known.get(c.uid), row, old) for c in table.columns}
        written = [after[id_] for id_, row in self.rows.items() if row is not None]
        lacking = [c for c in table.columns if c.required and c.uid not in known]
        if not self.keeps and (lacking or any(self._lacks_required(c, known.get(c.uid)) for c in table.columns)):
            return False
        if any(_is_wrong(column, row) for row in written for column in table.columns):
            return False
        table.rows = after
        return True

    def _lacks_required(self, column: Column, given: Column | None) -> bool:
        held = {each.uid for each in given.fields} if given else set()
        return given is not None and any(each.required and each.uid not in held for each in column.fields)

    def _value(self, column: Column, given: Column | None, row: Row, old: Row | None) -> Any:
        if given is None:
            if not self.keeps:
                return None
            return column.default if old is None else old.get(column.uid, column.initial)
        value = row.get(column.uid)
        if value is None or not column.fields:
            return value
        held = {each.uid: each for each in given.fields}
        before = None if old is None else old.get(column.uid, column.initial)
        # A struct that was NULL has no old values inside.
        nulls: Row = dict.fromkeys(each.uid for each in column.fields)
        inner = None if old is None else nulls if before is None else before
        return {each.uid: self._value(each, held.get(each.uid), value, inner) for each in column.fields}


def _is_wrong(column: Column, row: Row) -> bool:
    value = row.get(column.uid, column.initial)
    if value is None:
        return column.required
    return any(_is_wrong(each, value) for each in column.fields)


def with_fields(column: Column, fields: list[Column]) -> Column:
    return replace(column, fields=tuple(fields))
