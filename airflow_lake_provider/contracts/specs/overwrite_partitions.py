"""Spec of an overwrite of partitions, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, optional, sql
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


@dataclass(frozen=True, kw_only=True)
class OverwritePartitionsSpec(RowLoadSpec):
    """Put the rows of a batch in place of partitions: the arguments of :class:`.LakeOverwritePartitionsOperator`."""

    action: ClassVar[str] = "overwrite-partitions"
    capabilities: ClassVar[tuple[str, ...]] = ("overwrite-partitions",)
    load: ClassVar[str] = "an overwrite of partitions"
    # What is replaced does not depend on what was, so all of the input is applied by each run.
    keeps_position: ClassVar[bool] = False
    where: str | None = argument(optional(sql), WHOLE_TABLE, default=None, is_sql=True)
    allow_rows: bool = argument(flag, default=False, templated=False, needs=("delete-rows",))
    empty: OnEmptyBatch = argument(choice_of(OnEmptyBatch), default=OnEmptyBatch.KEEP)
    on_repeat: OnRepeat = argument(choice_of(OnRepeat), default=OnRepeat.APPLY)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        where = self.where
        if where is None:
            asked = [name for name in ("allow_rows", "empty") if getattr(self, name) not in (False, OnEmptyBatch.KEEP)]
            if asked:
                raise InvalidSpecError(
                    f"{self.table}: {' and '.join(asked)} need where: without it the rows of the batch say which "
                    "partitions are replaced"
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
