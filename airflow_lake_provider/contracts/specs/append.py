"""Spec of an append, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, names, number, optional
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.durations import duration, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import argument
from airflow_lake_provider.contracts.specs.load import LoadSpec


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
class AppendSpec(LoadSpec):
    """Add the rows of a batch: the arguments of :class:`.LakeAppendOperator`."""

    action: ClassVar[str] = "append"
    capabilities: ClassVar[tuple[str, ...]] = ("append",)
    deduplicate_by: tuple[str, ...] = argument(names, default=(), names_columns=True)
    deduplicate_against: str | None = argument(optional(_recent), default=None)
    on_changed_input: OnChangedInput = argument(choice_of(OnChangedInput), default=OnChangedInput.FAIL)

    def complete(self) -> None:
        """Refuse what does not go together."""
        if self.source.is_change_stream:
            raise InvalidSpecError(
                f"{self.table}: an append takes rows, and {type(self.source).__name__} has change events of rows. "
                "LakeUpsertOperator applies them; to keep the raw events, read their files by Files"
            )
        if self.source.on_source_change is OnSourceChange.REPLAY:
            raise InvalidSpecError(
                f"{self.table}: on_source_change='replay' would add the rows of all files again; an append takes "
                "'continue' or 'fail'"
            )
        columns = [name.lower() for name in self.deduplicate_by]
        if len(set(columns)) != len(columns):
            raise InvalidSpecError(f"{self.table}: deduplicate_by names a column twice, got {columns}")
        if self.deduplicate_against is not None and not columns:
            raise InvalidSpecError(
                f"{self.table}: deduplicate_against compares rows by the columns of deduplicate_by; give these, too"
            )
        self.refuse_excluded("columns of deduplicate_by", self.deduplicate_by)
        super().complete()

    @property
    def recent_files(self) -> int | None:
        """Number of data files of the table, added last, whose rows are not added again; None without a number."""
        recent = self.deduplicate_against
        return int(recent) if recent is not None and recent.isdecimal() else None

    @property
    def recent_time(self) -> timedelta | None:
        """Time since the commit of such rows; None without a duration."""
        recent = self.deduplicate_against
        return duration(recent, "deduplicate_against") if recent is not None and not recent.isdecimal() else None
