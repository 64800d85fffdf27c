"""Changes of a table's schema that a batch asks for: each knows whether it only adds to the table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SchemaChangeKind(str, Enum):
    """Kinds of changes of a column, or of a field, an element or a value inside one."""

    ADD_COLUMN = "add-column"
    WIDEN_TYPE = "widen-type"
    CHANGE_TYPE = "change-type"
    DROP_COLUMN = "drop-column"
    DROP_REQUIRED = "drop-required"


# The others would take values from rows of before: a run never makes them.
_ADDITIVE = {SchemaChangeKind.ADD_COLUMN, SchemaChangeKind.WIDEN_TYPE, SchemaChangeKind.DROP_REQUIRED}


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """A change by which a table would get the schema of a batch.

    :param kind: of the change.
    :param column: names from the column on, with dots; ``element``, ``key`` and ``value`` among them.
    :param present: type that the table has; None where it lacks the column.
    :param wanted: type that the batch has; None where it lacks the column.
    :param action: of the schema contract: ``evolve`` makes it, ``freeze`` refuses the batch, ``quarantine`` and
        ``discard_value`` leave the table as it is. Of a column that the batch lacks, the value in its rows: ``fail``,
        ``null`` or ``keep``. ``refuse``, where no contract allows it.
    :param additive: whether all rows of before keep all their values; else it is destructive.
    """

    kind: SchemaChangeKind
    column: str
    present: str | None = None
    wanted: str | None = None
    action: str = "evolve"
    additive: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "additive", self.kind in _ADDITIVE)

    @property
    def is_made(self) -> bool:
        """True where a run changes the table so."""
        return self.action == "evolve"

    @property
    def is_refused(self) -> bool:
        """True where a run would refuse the batch for it."""
        return self.action in ("freeze", "fail", "refuse")

    def __str__(self) -> str:
        match self.kind:
            case SchemaChangeKind.ADD_COLUMN:
                return f"added column {self.column} {self.wanted}"
            case SchemaChangeKind.WIDEN_TYPE:
                return f"widened column {self.column} to {self.wanted}"
            case SchemaChangeKind.CHANGE_TYPE:
                return f"column {self.column} is {self.present} and got {self.wanted}"
        return f"the batch lacks column {self.column}"
