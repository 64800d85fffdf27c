"""Dead letters that somebody has repaired, as a source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_lake_provider.contracts.author.dead_letter import LETTERS_TABLE
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, Source
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import table_name


@dataclass(frozen=True)
class RepairedLetters(Source):
    """Dead letters of the target that somebody has repaired: each is applied once.

    The column ``repaired`` of a letter has the record as one JSON object, with the names of the target's columns.

    :param table: lake table of the dead letters, of the same catalog.
    """

    kind: ClassVar[str] = "repaired-letters"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.repaired_letters:RepairedLettersSource"
    table: str = field(default=LETTERS_TABLE, metadata=reads(table_name))

    @property
    def letters(self) -> str:  # type: ignore[override]  # of a source of another kind there is none
        """Its table: a letter has no time by which a forgotten one could be told from a new one."""
        return self.table

    @property
    def needs(self) -> tuple[str, ...]:
        """A table of letters is read at a snapshot, and noted in."""
        return ("lake-table-source", "update-rows", *super().needs)

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse loads that put the batch in place of other rows."""
        if spec.is_complete or not spec.keeps_position:
            raise InvalidSpecError(
                f"{spec.table}: repaired letters are a few rows of a batch, and must not replace a table or a "
                "partition; apply them by LakeUpsertOperator without complete, or by LakeAppendOperator"
            )
