"""Spec of an overwrite of partitions, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, names, optional, sql
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import argument
from airflow_lake_provider.contracts.specs.load import OnRepeat, RowLoadSpec
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate

# The one predicate without a column.
WHOLE_TABLE = "true"


class OnEmptyBatch(str, Enum):
    """Action to take when the input is there and has no rows: leave the partitions of ``where``, or empty them."""

    KEEP = "keep"
    DELETE = "delete"


def _needs_of_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    # The changes that readers are not shown.
    return ("read-changes",) if keys else ()


@dataclass(frozen=True, kw_only=True)
class OverwritePartitionsSpec(RowLoadSpec):
    """Put the rows of a batch in place of partitions: the arguments of :class:`.LakeOverwritePartitionsOperator`."""

    action: ClassVar[str] = "overwrite-partitions"
    capabilities: ClassVar[tuple[str, ...]] = ("overwrite-partitions",)
    load: ClassVar[str] = "an overwrite of partitions"
    on_source_changes: ClassVar[tuple[OnSourceChange, ...]] = (OnSourceChange.CONTINUE,)
    no_other_change: ClassVar[str] = "has no meaning where each run applies all of the input"
    # What is replaced does not depend on what was, so all of the input is applied by each run.
    keeps_position: ClassVar[bool] = False
    where: str | None = argument(optional(sql), WHOLE_TABLE, default=None, is_sql=True)
    allow_rows: bool = argument(flag, default=False, templated=False, needs=("delete-rows",))
    keys: tuple[str, ...] = argument(names, default=(), names_columns=True, needs=_needs_of_keys)
    empty: OnEmptyBatch = argument(choice_of(OnEmptyBatch), default=OnEmptyBatch.KEEP)
    on_repeat: OnRepeat = argument(choice_of(OnRepeat), default=OnRepeat.APPLY)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if self.is_dry_run:
            raise InvalidSpecError(f"{self.table}: an overwrite of partitions has no dry run")
        where = self.where
        self.refuse_excluded("key columns", self.keys)
        if where is None:
            given = {"allow_rows": self.allow_rows, "empty": self.empty is OnEmptyBatch.DELETE, "keys": self.keys}
            if asked := " and ".join(name for name, value in given.items() if value):
                raise InvalidSpecError(
                    f"{self.table}: {asked} need where: without it the rows of the batch say which partitions are "
                    "replaced"
                )
            return
        if not where.strip():
            raise InvalidSpecError(f"{self.table}: where is empty; to replace every row of the table, say 'true'")
        if (unfit := unfit_for_predicate(where)) is not None:
            raise InvalidSpecError(
                f"{self.table}: where was refused for {unfit}, got where={shown(where)}. {PREDICATE}"
            )

    @property
    def counts_rows(self) -> bool:
        """False: rows that are put in place twice are there once."""
        return False

    @property
    def is_whole_table(self) -> bool:
        """Tell whether every row of the table is replaced."""
        return self.where is not None and self.where.strip().lower() == WHOLE_TABLE
