"""The schema contract: what a batch may change in a table's columns, and what becomes of those that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from airflow_lake_provider.contracts.argument_validation import (
    choice,
    choice_of,
    different_columns,
    mapping,
    names,
    optional,
)
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError


class Evolution(str, Enum):
    """Action to take with what would change the table's schema.

    ``evolve`` changes it, ``freeze`` refuses the batch. ``quarantine`` puts the records aside that have such a value,
    ``discard_value`` leaves the value out.
    """

    EVOLVE = "evolve"
    FREEZE = "freeze"
    QUARANTINE = "quarantine"
    DISCARD_VALUE = "discard_value"


_CHANGES_ROWS = {Evolution.QUARANTINE, Evolution.DISCARD_VALUE}


class MissingColumns(str, Enum):
    """Value of a column that the batch lacks, in the rows of the batch."""

    FAIL = "fail"
    NULL = "null"
    KEEP = "keep"


def _by_column(value: object, name: str) -> dict[str, Evolution]:
    given = mapping(value, name, "a column to 'evolve', 'freeze', 'quarantine' or 'discard_value'")
    different_columns(given, name)
    return {column: choice(Evolution, action, f"{name}[{column!r}]") for column, action in given.items()}  # type: ignore[arg-type]  # the choice is checked


@dataclass(frozen=True, kw_only=True)
class SchemaContract(ArgumentObject):
    """Changes that a batch may make to a table's columns.

    :param new_columns: ``"evolve"`` adds columns that the table lacks, ``"freeze"`` refuses the batch. ``"quarantine"``
        puts a record aside that has a value there, and ``"discard_value"`` does not store the column.
    :param wider_types: ``"evolve"`` widens columns, such as INT to BIGINT, ``"freeze"`` refuses the batch. With
        ``"quarantine"`` a record is put aside whose value the table's type does not hold, whatever type it has. With
        ``"discard_value"`` such a value becomes NULL.
    :param missing_columns: what a column that the batch lacks becomes in its rows: ``"fail"``, ``"null"``, ``"keep"``.
        The default is ``"fail"``, and ``"keep"`` for ``PartialUpdate`` and ``Aggregation``. It is ``"null"`` for
        ``Debezium`` and ``DebeziumTopic``, whose events carry whole rows.
    :param exclude_columns: columns of the batch that are not stored, such as an operation flag.
    :param by_column: a column to the action that counts for it in place of ``new_columns`` and ``wider_types``, and for
        all inside it. A field inside a column is named with dots, ``address.zip``; of an array ``lines.element.price``,
        of a map ``prices.value``.
    """

    new_columns: Evolution | str = field(default=Evolution.EVOLVE, metadata=reads(choice_of(Evolution)))
    wider_types: Evolution | str = field(default=Evolution.EVOLVE, metadata=reads(choice_of(Evolution)))
    missing_columns: MissingColumns | str | None = field(
        default=None, metadata=reads(optional(choice_of(MissingColumns)))
    )
    exclude_columns: Sequence[str] = field(default=(), metadata=reads(names))
    by_column: Mapping[str, Evolution | str] = field(default_factory=dict, metadata=reads(_by_column, is_later=True))

    def of_new(self, *path: str) -> Evolution:
        """Return the action for a column that the table lacks, or for a field inside one.

        :param path: names from the column on: a name may have dots of its own.
        """
        return self._of(path, self.new_columns)

    def of_type(self, *path: str) -> Evolution:
        """Return the action for a column, or a field inside one, whose type is another one than the table's."""
        return self._of(path, self.wider_types)

    def of_other(self, *path: str) -> str:
        """Return the action for a column, or a field inside one, whose type the table's never widens to."""
        action = self.of_type(*path)
        return action.value if action in _CHANGES_ROWS else "refuse"

    @property
    def changes_rows(self) -> bool:
        """True where records are put aside, or values left out."""
        return bool(self._actions & _CHANGES_ROWS)

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse rows that are changed where all of them have to be there, and a quarantine without a place."""
        if Evolution.QUARANTINE in self._actions and spec.dead_letter is None and spec.is_final("dead_letter"):
            may_have_one = any(each.name == "dead_letter" for each in fields(spec))
            raise InvalidSpecError(
                f"{spec.table}: 'quarantine' of schema_contract puts records aside, so it needs a place for them"
                f"{'; give dead_letter, or' if may_have_one else ', and this load takes no dead_letter;'} say 'freeze' "
                "or 'discard_value'"
            )
        if self.changes_rows and (spec.source.is_change_stream or spec.is_complete):
            raise InvalidSpecError(
                f"{spec.table}: 'discard_value' of schema_contract takes rows of a batch, and neither changes of rows "
                "nor complete=True; say 'freeze', or leave the values out in a Query"
            )

    @property
    def _actions(self) -> set[Evolution | str]:
        return {self.new_columns, self.wider_types, *self.by_column.values()}

    def _of(self, path: Sequence[str], otherwise: Evolution | str) -> Evolution:
        given = {name.lower(): action for name, action in self.by_column.items()}
        # What is said of a column counts for all inside it, unless more is said of that.
        names_of_it = (".".join(path[:depth]).lower() for depth in range(len(path), 0, -1))
        return Evolution(next((given[name] for name in names_of_it if name in given), otherwise))


def schema_contract(value: object, name: str = "schema_contract") -> SchemaContract:
    """Return the schema contract that an author gives.

    :param value: a contract, a mapping of its fields, or the action for new columns and wider types.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, SchemaContract):
        return value
    if isinstance(value, Mapping):
        return SchemaContract.from_mapping(value, name)
    if isinstance(value, str):
        evolution = choice(Evolution, value, name)
        return SchemaContract(new_columns=evolution, wider_types=evolution)
    raise InvalidSpecError(f"{name} must be an action such as 'freeze', a mapping or a SchemaContract, got {value!r}")
