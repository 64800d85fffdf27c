"""Plan of a batch, as a dry run of a load reports it: changes of the table's schema, and records that are put aside.

Each change knows whether it only adds to the table.
"""

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


@dataclass(frozen=True, kw_only=True)
class PutAsideRecord:
    """A record that a run would put aside: its place and what is wrong with it, not what it has.

    :param file: path of its file.
    :param line: number of its line; None where nobody counted the lines.
    :param error_class: as the table of dead letters has it.
    :param reason: likewise, in words.
    """

    file: str
    line: int | None
    error_class: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Changes that a batch would make, and its records that would be put aside.

    :param schema_changes: each change that the columns of the batch ask for.
    :param put_aside: the first such records; all are counted in ``dead_letters`` of the report.
    :param refused: why a run would refuse the batch; None where it would apply it.
    :param upserts: keys that a batch which is the whole table would insert or update; None of other batches, and where
        columns would have to change first.
    :param deletes: likewise, keys that it would delete.
    """

    schema_changes: tuple[SchemaChange, ...] = ()
    put_aside: tuple[PutAsideRecord, ...] = ()
    refused: str | None = None
    upserts: int | None = None
    deletes: int | None = None
