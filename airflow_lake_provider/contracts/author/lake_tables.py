"""Lake tables as sources: the rows at a moment, or the changes since the last batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, names, optional
from airflow_lake_provider.contracts.as_of import as_of
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, TableSource
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError


class ChangeMode(str, Enum):
    """Changes that are read: ``net`` for upserts and deletes, ``upserts`` to leave deletes out."""

    NET = "net"
    UPSERTS = "upserts"


@dataclass(frozen=True)
class LakeTable(TableSource):
    """A lake table, read at its head or at another moment.

    :param table: ``namespace.table``.
    :param as_of: moment that is read in place of the head. Digits are a snapshot id, as text. A time with a zone is
        the snapshot that main was at. Any other text is the name of a tag or branch.
    :param where: only rows that satisfy a predicate: comparisons of columns with constants, unless ``allow_sql``.
    :param columns: only these columns; an upsert needs its keys and ``order_by`` among them.
    """

    kind: ClassVar[str] = "lake-table"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.lake_table:LakeTableSource"
    takes_dead_letter: ClassVar[bool] = True
    has_plain_rows: ClassVar[bool] = True
    capability: ClassVar[str] = "lake-table-source"
    as_of: str | datetime | None = field(default=None, kw_only=True, metadata=reads(optional(as_of), is_later=True))

    @property
    def moment(self) -> str | None:
        """The moment, as text."""
        return None if self.as_of is None else str(self.as_of)


@dataclass(frozen=True)
class Changes(TableSource):
    """The net changes of a lake table since the last batch: everything at first, later what differs.

    A row has ``_change_type``, ``upsert`` or ``delete``, which is never stored. Where a batch has that column and there
    is no ``delete_when``, its deletes delete.

    :param table: ``namespace.table``, which tells its changes: of Iceberg's, format version 3.
    :param mode: ``"net"``, or ``"upserts"`` to leave deletes out.
    :param keys: columns that identify a row of the table, for deletes. Default: the keys of the load; below a query or
        a function, the identifier fields of the table.
    :param where: only changes of the rows that satisfy a predicate; a row that no longer does is a delete.
    :param columns: only these columns and the keys.
    :param protect_source: keep what is not read yet from expiry, by tags on the table.
    """

    kind: ClassVar[str] = "changes"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.changes:ChangesSource"
    capability: ClassVar[str] = "read-changes"
    tells_changes: ClassVar[bool] = True
    is_change_stream: ClassVar[bool] = True
    mode: ChangeMode | str = field(default=ChangeMode.NET, kw_only=True, metadata=reads(choice_of(ChangeMode)))
    keys: Sequence[str] = field(default=(), kw_only=True, metadata=reads(names))
    protect_source: bool = field(default=True, kw_only=True, metadata=reads(flag))

    def key_columns(self, spec: Any) -> tuple[str, ...] | None:
        """Return the keys, where deletes are read; by default those of a load that takes the changes as they are.

        By others, a row whose key in the target changes would stay there under its old one. What a query makes of the
        columns, nobody knows.
        """
        if self.mode is not ChangeMode.NET:
            return None
        is_taken_as_it_is = getattr(spec, "source", None) is self
        return tuple(self.keys) or (tuple(getattr(spec, "keys", ())) if is_taken_as_it_is else ())

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format has to have."""
        return (*super().needs, *(("consumer-tags",) if self.protect_source else ()))

    def refuse_reading(self, spec: Any) -> None:
        """Refuse a branch, for which no position is kept, and an upsert of a whole table."""
        super().refuse_reading(spec)
        if getattr(spec, "is_complete", False):
            raise InvalidSpecError(
                f"{spec.table}: Changes are a part of the rows of {self.table}, and complete=True takes a source that "
                "has all; read it by LakeTable"
            )
        if getattr(spec, "branch", None) is not None:
            raise InvalidSpecError(
                f"{spec.table}: Changes do not go with branch: how far a table was read is kept for main. Leave branch "
                "out; audits keep a batch on a branch until they find nothing"
            )
