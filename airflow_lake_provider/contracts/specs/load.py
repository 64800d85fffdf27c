"""Spec of a load: what all actions share that bring the batches of a source into a table, each batch once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar, cast

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, label, names, optional, ref_name
from airflow_lake_provider.contracts.author.audits import Audits, audits
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract, schema_contract
from airflow_lake_provider.contracts.author.sources import ONE_YEAR, Files, OnSourceChange, Source, source
from airflow_lake_provider.contracts.author.table_layout import TableLayout, layout_or_none
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts, derived


def _branch(value: object, name: str) -> str:
    branch = ref_name(value, name)
    if branch == "main" or branch.startswith("lake_"):
        raise InvalidSpecError(f"{name} {branch!r} is reserved; leave it out to write to main")
    return branch


class OnRepeat(str, Enum):
    """Action to take with a batch that the table says it has applied."""

    SKIP = "skip"
    APPLY = "apply"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class LoadSpec(JobSpec):
    """Bring a batch of a source into a table, once."""

    # Whether a batch is all that the table is to have; no annotation, which would make it an argument of each load.
    is_complete = False
    # Where records go that cannot be applied; None refuses them. Likewise.
    dead_letter = cast("DeadLetter | None", None)
    # Who applies input twice, and how, where it then counts twice; for messages.
    counted_by: ClassVar[tuple[str, str]] = ("an append", "add")
    # Whether the table keeps which input was applied; where not, each run applies all of the input.
    keeps_position: ClassVar[bool] = True
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"batch_id", "dead_letter"}
    source: Source = argument(source, Files("file.parquet"), is_object=True)
    create: TableLayout | None = argument(layout_or_none, default=TableLayout(), is_object=True)
    schema_contract: SchemaContract = argument(schema_contract, default=SchemaContract(), is_object=True)
    branch: str | None = argument(optional(_branch), default=None, needs=("branches",))
    batch_id: str | None = argument(optional(label), "batch", default=None)
    on_repeat: OnRepeat = argument(choice_of(OnRepeat), default=OnRepeat.SKIP)
    audits: Audits | None = argument(audits, default=None, is_object=True)
    allow_sql: bool = argument(flag, default=False, templated=False)
    max_attempts: int = attempts()
    # Of ``airflow lake check --source``: say what a run would do, and write nothing.
    is_dry_run: bool = derived(False, is_later=True)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not self.source_name and self.is_framed:
            raise InvalidSpecError(f"{self.table}: the source needs a name, under which the table keeps its position")
        for each in self._objects():
            each.refuse_arguments(self)
        self.refuse_code()

    @property
    def target_branch(self) -> str:
        """Branch that the action commits to."""
        return self.branch or super().target_branch

    @property
    def source_name(self) -> str:
        """Identity of the source."""
        return self.source.name or ""

    @property
    def counts_rows(self) -> bool:
        """Tell whether input that is applied twice counts twice."""
        return True

    @property
    def missing_columns(self) -> MissingColumns:
        """Value of a column that the batch lacks, in the rows of the batch."""
        who_may_say = (self.schema_contract.missing_columns, self.source.missing_columns)
        return MissingColumns(next((each for each in who_may_say if each is not None), self.missing_by_default))

    @property
    def missing_by_default(self) -> MissingColumns:
        """Value of it where neither the schema contract nor the source says."""
        return MissingColumns.FAIL

    @property
    def exclude_columns(self) -> tuple[str, ...]:
        """Columns of the batch that are not stored."""
        return tuple(self.schema_contract.exclude_columns)

    def refuse_excluded(self, what: str, names: Sequence[str]) -> None:
        """Refuse columns that are needed, and excluded from what is written.

        :param what: they are, for the message.
        :raises InvalidSpecError: naming them.
        """
        lost = sorted({name.lower() for name in names} & {name.lower() for name in self.exclude_columns})
        if lost:
            raise InvalidSpecError(f"{self.table}: {what} cannot be excluded from what is written, got {lost}")


def keep_consumed_for(source: Source) -> timedelta | None:
    """Return how long a consumed file is remembered that left a source; None for ever.

    Where rows count, all are remembered for ever.
    """
    if source.letters:
        return None
    return duration(source.files.max_file_age, "max_file_age") if source.files else ONE_YEAR


@dataclass(frozen=True, kw_only=True)
class RowLoadSpec(LoadSpec):
    """Bring the rows of a batch into a table as they are, no key asked for."""

    # Name in messages; what it takes of a source that has changed since its last commit, and why nothing else.
    load: ClassVar[str] = ""
    on_source_changes: ClassVar[tuple[OnSourceChange, ...]] = ()
    no_other_change: ClassVar[str] = ""
    deduplicate_by: tuple[str, ...] = argument(names, default=(), names_columns=True)

    def complete(self) -> None:
        """Refuse what does not go together."""
        source = self.source
        if source.is_change_stream:
            raise InvalidSpecError(
                f"{self.table}: {self.load} takes rows, and {type(source).__name__} has change events of rows. "
                "LakeUpsertOperator applies them; to keep the raw events, read their files by Files"
            )
        if (given := OnSourceChange(source.on_source_change)) not in self.on_source_changes:
            taken = " or ".join(repr(each.value) for each in self.on_source_changes)
            raise InvalidSpecError(
                f"{self.table}: on_source_change={given.value!r} {self.no_other_change}; {self.load} takes {taken}"
            )
        self.refuse_columns(self.deduplicate_by)
        super().complete()

    def refuse_columns(self, deduplicate_by: Sequence[str]) -> None:
        """Refuse columns that do not go together, or with other arguments."""
        columns = [name.lower() for name in deduplicate_by]
        if len(set(columns)) != len(columns):
            raise InvalidSpecError(f"{self.table}: deduplicate_by names a column twice, got {columns}")
        self.refuse_excluded("columns of deduplicate_by", deduplicate_by)
