"""The schema contract: what a batch may change in a table's columns, and what becomes of those that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from airflow_lake_provider.contracts.argument_validation import choice, choice_of, names, optional
from airflow_lake_provider.contracts.author_object import AuthorObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError


class Evolution(str, Enum):
    """``evolve`` lets the batch change the table's schema, ``freeze`` refuses a batch that would."""

    EVOLVE = "evolve"
    FREEZE = "freeze"


class MissingColumns(str, Enum):
    """Value of a column that the batch lacks, in the rows of the batch."""

    FAIL = "fail"
    NULL = "null"
    KEEP = "keep"


@dataclass(frozen=True, kw_only=True)
class SchemaContract(AuthorObject):
    """Changes that a batch may make to a table's columns.

    :param new_columns: ``"evolve"`` adds columns that the table lacks, ``"freeze"`` refuses the batch.
    :param wider_types: ``"evolve"`` widens columns, such as INT to BIGINT, ``"freeze"`` refuses the batch.
    :param missing_columns: what a column that the batch lacks becomes in its rows: ``"fail"``, ``"null"``, ``"keep"``.
        The default is ``"fail"``, and ``"keep"`` for ``PartialUpdate`` and ``Aggregation``. It is ``"null"`` for
        ``Debezium``, whose events carry whole rows.
    :param exclude_columns: columns of the batch that are not stored, such as an operation flag.
    """

    new_columns: Evolution | str = field(default=Evolution.EVOLVE, metadata=reads(choice_of(Evolution)))
    wider_types: Evolution | str = field(default=Evolution.EVOLVE, metadata=reads(choice_of(Evolution)))
    missing_columns: MissingColumns | str | None = field(
        default=None, metadata=reads(optional(choice_of(MissingColumns)))
    )
    exclude_columns: Sequence[str] = field(default=(), metadata=reads(names))


def schema_contract(value: object, name: str = "schema_contract") -> SchemaContract:
    """Return the schema contract that an author gives.

    :param value: a contract, a mapping of its fields, or ``"evolve"`` or ``"freeze"`` for new columns and wider types.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, SchemaContract):
        return value
    if isinstance(value, Mapping):
        return SchemaContract.from_mapping(value, name)
    if isinstance(value, str):
        evolution = choice(Evolution, value, name)
        return SchemaContract(new_columns=evolution, wider_types=evolution)
    raise InvalidSpecError(f"{name} must be 'evolve', 'freeze', a mapping or a SchemaContract, got {value!r}")
