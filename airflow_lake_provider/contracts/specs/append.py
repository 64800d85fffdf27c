"""Spec of an append, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, number, optional
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, dead_letter
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.durations import duration, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import argument
from airflow_lake_provider.contracts.specs.load import RowLoadSpec


class OnChangedInput(str, Enum):
    """Action to take with a file, or a source table, that has changed since its rows were added.

    ``fail`` refuses the batch, ``append`` adds all of its rows as they are now, ``skip`` leaves it out.
    """

    FAIL = "fail"
    APPEND = "append"
    SKIP = "skip"


def _recent(value: object, name: str) -> str:
    """Return a number of files or a duration as text, so that templates and forms can give both."""
    is_number = isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal())
    if not is_number:
        return to_iso(duration(value, name))
    if (count := number(value, name)) < 1:
        raise InvalidSpecError(f"{name} must be one or more data files, or a duration such as 'P3D', got {value!r}")
    return str(count)


@dataclass(frozen=True, kw_only=True)
class AppendSpec(RowLoadSpec):
    """Add the rows of a batch: the arguments of :class:`.LakeAppendOperator`."""

    action: ClassVar[str] = "append"
    capabilities: ClassVar[tuple[str, ...]] = ("append",)
    load: ClassVar[str] = "an append"
    on_source_changes: ClassVar[tuple[OnSourceChange, ...]] = (OnSourceChange.CONTINUE, OnSourceChange.FAIL)
    no_other_change: ClassVar[str] = "would add the rows of all files again"
    deduplicate_against: str | None = argument(optional(_recent), default=None)
    dead_letter: DeadLetter | None = argument(dead_letter, default=None, is_object=True, is_later=True)
    on_changed_input: OnChangedInput = argument(choice_of(OnChangedInput), default=OnChangedInput.FAIL)

    def refuse_columns(self, deduplicate_by: Sequence[str]) -> None:
        """Refuse columns that do not go together, or with other arguments."""
        super().refuse_columns(deduplicate_by)
        if self.deduplicate_against is not None and not deduplicate_by and self.is_final("deduplicate_by"):
            raise InvalidSpecError(
                f"{self.table}: deduplicate_against compares rows by the columns of deduplicate_by; give these, too"
            )

    @property
    def recent(self) -> tuple[int, timedelta | None]:
        """Number of data files of the table, added last, whose rows are not added again; or time since their commit."""
        recent = self.deduplicate_against or "0"
        return (int(recent), None) if recent.isdecimal() else (0, duration(recent, "deduplicate_against"))
