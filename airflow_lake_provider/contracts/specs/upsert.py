"""Spec of an upsert, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, names, number, optional, text
from airflow_lake_provider.contracts.author.audits import Audits, audits
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, MergeEngine, merge_engine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract, schema_contract
from airflow_lake_provider.contracts.author.sources import ONE_YEAR, Files, Source, source
from airflow_lake_provider.contracts.author.table_layout import TableLayout, layout_or_none
from airflow_lake_provider.contracts.capabilities import known_capabilities
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument

# The format's own choice, and what formats declare. What each means only they know.
_AUTO, _OF_STRATEGY = "auto", "strategy-"


def strategies() -> tuple[str, ...]:
    """Return the values of ``strategy``, those that one format alone has included."""
    names = (name for name in known_capabilities() if name.startswith(_OF_STRATEGY))
    return (_AUTO, *(name.removeprefix(_OF_STRATEGY) for name in names))


def _strategy(value: object, name: str) -> str:
    names = strategies()
    strategy = next((each for each in names if each == value), None)
    if strategy is None:
        raise InvalidSpecError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
    return strategy


def _needs_of_strategy(strategy: str) -> tuple[str, ...]:
    return () if strategy == _AUTO else (f"{_OF_STRATEGY}{strategy}",)


def _branch(value: object, name: str) -> str:
    branch = text(value, name)
    if branch == "main" or branch.startswith("lake_"):
        raise InvalidSpecError(f"{name} {branch!r} is reserved; leave it out to write to main")
    return branch


class OnRepeat(str, Enum):
    """Action to take with a batch that the table says it has applied."""

    SKIP = "skip"
    APPLY = "apply"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class UpsertSpec(JobSpec):
    """Apply the last change of every key of a batch: the arguments of :class:`.LakeUpsertOperator`."""

    action: ClassVar[str] = "upsert"
    capabilities: ClassVar[tuple[str, ...]] = ("upsert",)
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"batch_id"}
    format_arguments: ClassVar[tuple[str, ...]] = ("strategy",)
    source: Source = argument(source, Files("file.parquet"), is_object=True)
    keys: tuple[str, ...] = argument(names, ("key",), names_columns=True)
    order_by: tuple[str, ...] = argument(names, default=())
    delete_when: str | None = argument(optional(text), default=None, templated=False, is_code=True)
    create: TableLayout | None = argument(layout_or_none, default=TableLayout(), is_object=True)
    schema_contract: SchemaContract = argument(schema_contract, default=SchemaContract(), is_object=True)
    branch: str | None = argument(optional(_branch), default=None, needs=("branches",))
    batch_id: str | None = argument(optional(text), default=None)
    on_repeat: OnRepeat = argument(choice_of(OnRepeat), default=OnRepeat.SKIP)
    merge_engine: MergeEngine = argument(merge_engine, default=Deduplicate(), is_object=True)
    strategy: str = argument(_strategy, default=_AUTO, needs=_needs_of_strategy)
    audits: Audits | None = argument(audits, default=None, is_object=True)
    allow_sql: bool = argument(flag, default=False, templated=False)
    max_attempts: int = argument(number, default=5, templated=False)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not self.keys or len({name.lower() for name in self.keys}) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys must be one or more different columns, got {list(self.keys)}")
        if not self.source_name and self.is_framed:
            raise InvalidSpecError(f"{self.table}: the source needs a name, under which the table keeps its position")
        self.refuse_excluded("key columns", self.keys)
        for each in self._objects():
            each.refuse_arguments(self)
        self.refuse_code()
        if self.max_attempts < 1:
            raise InvalidSpecError(f"{self.table}: max_attempts must be at least 1, got {self.max_attempts}")

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format has to have."""
        kept = ("kept-values",) if self.missing_columns is MissingColumns.KEEP else ()
        return (*super().needs, *kept)

    @property
    def target_branch(self) -> str:
        """Branch that the action commits to."""
        return self.branch or super().target_branch

    @property
    def source_name(self) -> str:
        """Identity of the source."""
        return self.source.name or ""

    @property
    def missing_columns(self) -> MissingColumns:
        """Value of a column that the batch lacks, in the rows of the batch."""
        who_may_say = (self.schema_contract, self.source, self.merge_engine)
        return MissingColumns(next(each.missing_columns for each in who_may_say if each.missing_columns is not None))

    @property
    def exclude_columns(self) -> tuple[str, ...]:
        """Columns of the batch that are not stored."""
        return tuple(self.schema_contract.exclude_columns)

    @property
    def keep_consumed_for(self) -> timedelta | None:
        """Time for which a consumed file is remembered that is not in the source any more; None for ever."""
        if self.merge_engine.counts_rows:
            return None
        files = self.source.files
        return duration(files.max_file_age, "max_file_age") if files else ONE_YEAR

    def refuse_excluded(self, what: str, names: Sequence[str]) -> None:
        """Refuse columns that are needed, and excluded from what is written.

        :param what: they are, for the message.
        :raises InvalidSpecError: naming them.
        """
        lost = sorted({name.lower() for name in names} & {name.lower() for name in self.exclude_columns})
        if lost:
            raise InvalidSpecError(f"{self.table}: {what} cannot be excluded from what is written, got {lost}")
