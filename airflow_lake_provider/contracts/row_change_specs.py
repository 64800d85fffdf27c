"""Specs of deleting and updating rows, as a worker sends them to a driver; they refuse wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.reserved_columns import refuse_reserved_names
from airflow_lake_provider.contracts.sources import Files, LakeTable, Source
from airflow_lake_provider.contracts.sql_limits import PREDICATE, check_code, shown, unfit_for_predicate


@dataclass(frozen=True, kw_only=True)
class DeleteRowsSpec(JobSpec):
    """Delete rows by a predicate or by a list of keys, and say who still holds them.

    :param where: predicate over the table's columns; None when keys are given.
    :param keys_from: files or a table whose rows are keys.
    :param keys: key columns, which both have.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants.
    :param proof: look through everything that the table still reaches for the rows.
    :param max_attempts: commits tried before a conflict is reported.
    """

    action: ClassVar[str] = "delete-rows"
    where: str | None = None
    keys_from: Source | None = None
    keys: tuple[str, ...] = ()
    allow_sql: bool = False
    proof: bool = True
    max_attempts: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        # None of these messages has the text of ``where``: it may name what is to be erased.
        if (self.where is None) == (self.keys_from is None):
            raise InvalidSpecError(f"{self.table}: say which rows either by where or by keys_from and keys")
        if self.where is not None and not self.where.strip():
            raise InvalidSpecError(f"{self.table}: where is empty; to delete every row, drop the table or say 'true'")
        unfit = unfit_for_predicate(self.where) if self.where is not None and not self.allow_sql else None
        if unfit is not None:
            raise InvalidSpecError(f"{self.table}: where was refused for {unfit}; its text is withheld. {PREDICATE}")
        if (self.keys_from is None) != (not self.keys) or len({name.lower() for name in self.keys}) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys_from needs one or more different key columns, and where none")
        if self.keys_from is not None and not isinstance(self.keys_from, (Files, LakeTable)):
            raise InvalidSpecError(
                f"{self.table}: keys are plain rows of Files or a LakeTable, not of a {type(self.keys_from).__name__}"
            )
        _refuse_no_attempt(self.table, self.max_attempts)

    def digest_text(self) -> str:
        """Return what is applied, without which rows: a run key has no salt, so whoever reads it could guess them."""
        return to_json({"action": self.action, "table": self.table, "keys": self.keys})


@dataclass(frozen=True, kw_only=True)
class UpdateRowsSpec(JobSpec):
    """Set columns of the rows where a predicate is true.

    :param assignments: column to SQL expression over the row's old values.
    :param where: predicate over the table's columns.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants, and assignments that run
        shell commands or have variables of Spark's.
    :param max_attempts: commits tried before a conflict is reported.
    """

    action: ClassVar[str] = "update-rows"
    assignments: dict[str, str]
    where: str
    allow_sql: bool = False
    max_attempts: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.assignments or not all(expression.strip() for expression in self.assignments.values()):
            raise InvalidSpecError(f"{self.table}: assignments needs one or more columns, each with an SQL expression")
        texts = {f"{self.table}: assignments[{name!r}]": text for name, text in self.assignments.items()}
        check_code(texts, allow_sql=self.allow_sql)
        if len({name.lower() for name in self.assignments}) != len(self.assignments):
            raise InvalidSpecError(f"{self.table}: assignments names a column twice: {sorted(self.assignments)}")
        refuse_reserved_names(self.table, "assignments", self.assignments)
        if not self.where.strip():
            raise InvalidSpecError(f"{self.table}: where is empty; to update every row, say 'true' with allow_sql=True")
        unfit = None if self.allow_sql else unfit_for_predicate(self.where)
        if unfit is not None:
            raise InvalidSpecError(
                f"{self.table}: where was refused for {unfit}, got where={shown(self.where)}. {PREDICATE}"
            )
        _refuse_no_attempt(self.table, self.max_attempts)


def _refuse_no_attempt(table: str, max_attempts: int) -> None:
    if max_attempts < 1:
        raise InvalidSpecError(f"{table}: max_attempts must be at least 1, got {max_attempts}")
