"""Specs of deleting and updating rows, as a worker sends them to a driver; they refuse wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, names, not_none, optional, sql, texts
from airflow_lake_provider.contracts.author.sources import Files, Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate


def _withheld(value: object, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        # Without the value: it may name whom to forget.
        raise InvalidSpecError(f"{name} must be a text of SQL, got a {type(value).__name__}")
    not_none(value, name)
    return value


def _assignments(value: object, name: str) -> dict[str, str]:
    return texts(value, name, "a column to an SQL expression")


@dataclass(frozen=True, kw_only=True)
class DeleteRowsSpec(JobSpec):
    """Delete rows, and say who still holds them: the arguments of :class:`.LakeDeleteRowsOperator`."""

    action: ClassVar[str] = "delete-rows"
    capabilities: ClassVar[tuple[str, ...]] = ("delete-rows",)
    # Airflow keeps the rendered text of template fields; this one may name whom to forget.
    where: str | None = argument(_withheld, "true", default=None, is_sql=True, is_shown=False)
    keys_from: Source | None = argument(optional(source), Files("file.parquet"), default=None, is_object=True)
    keys: tuple[str, ...] = argument(names, ("a key",), default=())
    allow_sql: bool = argument(flag, default=False, templated=False)
    proof: bool = argument(flag, default=True, templated=False, needs=("erasure-proof",))
    max_attempts: int = attempts()

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        # None of these messages has the text of ``where``: it may name what is to be erased.
        if self.is_final("where", "keys_from") and (self.where is None) == (self.keys_from is None):
            raise InvalidSpecError(f"{self.table}: say which rows either by where or by keys_from and keys")
        if self.where is not None and not self.where.strip():
            raise InvalidSpecError(f"{self.table}: where is empty; to delete every row, drop the table or say 'true'")
        unfit = unfit_for_predicate(self.where) if self.where is not None and not self.allow_sql else None
        if unfit is not None:
            raise InvalidSpecError(f"{self.table}: where was refused for {unfit}; its text is withheld. {PREDICATE}")
        is_one_alone = self.is_final("keys_from", "keys") and (self.keys_from is None) != (not self.keys)
        if is_one_alone or len({name.lower() for name in self.keys}) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys_from needs one or more different key columns, and where none")
        if self.keys_from is not None and not self.keys_from.has_plain_rows:
            raise InvalidSpecError(
                f"{self.table}: keys are plain rows of Files or a LakeTable, not of a {type(self.keys_from).__name__}"
            )
        if self.keys_from is not None:
            self.keys_from.refuse_arguments(self)

    def digest_text(self) -> str:
        """Return what is applied, without which rows: a run key has no salt, so whoever reads it could guess them."""
        return to_json({"action": self.action, "table": self.table, "keys": self.keys})


@dataclass(frozen=True, kw_only=True)
class UpdateRowsSpec(JobSpec):
    """Set columns of the rows where a predicate is true: the arguments of :class:`.LakeUpdateRowsOperator`."""

    action: ClassVar[str] = "update-rows"
    capabilities: ClassVar[tuple[str, ...]] = ("update-rows",)
    assignments: dict[str, str] = argument(_assignments, templated=False, names_columns=True, is_code=True)
    where: str = argument(sql, "true", is_sql=True)
    allow_sql: bool = argument(flag, default=False, templated=False)
    max_attempts: int = attempts()

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not self.assignments or not all(expression.strip() for expression in self.assignments.values()):
            raise InvalidSpecError(f"{self.table}: assignments needs one or more columns, each with an SQL expression")
        self.refuse_code()
        if len({name.lower() for name in self.assignments}) != len(self.assignments):
            raise InvalidSpecError(f"{self.table}: assignments names a column twice: {sorted(self.assignments)}")
        if not self.where.strip():
            raise InvalidSpecError(f"{self.table}: where is empty; to update every row, say 'true' with allow_sql=True")
        unfit = None if self.allow_sql else unfit_for_predicate(self.where)
        if unfit is not None:
            raise InvalidSpecError(
                f"{self.table}: where was refused for {unfit}, got where={shown(self.where)}. {PREDICATE}"
            )

    def digest_text(self) -> str:
        """Return what is applied; of an update with a name the name, as it is one update whatever its text becomes."""
        if self.task_name is None:
            return super().digest_text()
        return to_json({"action": self.action, "table": self.table, "name": self.task_name})
