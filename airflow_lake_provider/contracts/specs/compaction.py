"""Spec of a compaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import (
    choice_of,
    flag,
    names,
    number,
    optional,
    share,
    size,
    text,
)
from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionRunner,
    CompactionStrategy,
    Verification,
)
from airflow_lake_provider.contracts.author.table_layout import sort_terms
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate

__all__ = ["CompactionLevel", "CompactionRunner", "CompactionSpec", "CompactionStrategy", "Verification"]


def _sort_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns, for 'sort' with their order")


def _paths(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "partitions, such as 'day=2026-11-26'")


def _needs_of_strategy(strategy: CompactionStrategy) -> tuple[str, ...]:
    return () if strategy is CompactionStrategy.BINPACK else (f"compaction-{strategy.value}",)


@dataclass(frozen=True, kw_only=True)
class CompactionSpec(JobSpec):
    """Rewrite files into fewer and cleaner ones: the arguments of :class:`.LakeCompactionOperator`."""

    action: ClassVar[str] = "compaction"
    capabilities: ClassVar[tuple[str, ...]] = ("compaction",)
    level: CompactionLevel = argument(choice_of(CompactionLevel), default=CompactionLevel.AUTO)
    strategy: CompactionStrategy = argument(
        choice_of(CompactionStrategy), default=CompactionStrategy.BINPACK, needs=_needs_of_strategy
    )
    runner: CompactionRunner = argument(choice_of(CompactionRunner), default=CompactionRunner.AUTO)
    sort_by: tuple[str, ...] = argument(_sort_by, default=(), templated=False)
    where: str | None = argument(optional(text), default=None, is_sql=True)
    skip_partitions: tuple[str, ...] = argument(_paths, default=(), templated=False)
    target_file_size: int | None = argument(optional(size), default=None, templated=False)
    partial_progress: bool = argument(flag, default=True, templated=False)
    max_commits: int = argument(number, default=10, templated=False)
    delete_file_threshold: int = argument(number, default=1, templated=False)
    delete_ratio_threshold: float = argument(share, default=0.1, templated=False)
    min_input_files: int = argument(number, default=5, templated=False)
    rewrite_manifests: bool = argument(flag, default=True, templated=False)
    max_attempts: int = attempts(3)
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)
    verify: Verification | None = argument(optional(choice_of(Verification)), default=None, templated=False)
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"verify", "runner"}

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if self.strategy.is_by_curve and not self.sort_by:
            raise InvalidSpecError(f"{self.table}: strategy {self.strategy.value!r} needs the columns in sort_by")
        if self.strategy is CompactionStrategy.BINPACK and self.sort_by:
            raise InvalidSpecError(f"{self.table}: sort_by needs strategy 'sort', 'zorder' or 'hilbert', not 'binpack'")
        if self.strategy is CompactionStrategy.SORT:
            sort_terms(self.sort_by)
        unfit = unfit_for_predicate(self.where) if self.where is not None else None
        if unfit is not None:
            raise InvalidSpecError(
                f"{self.table}: where was refused for {unfit}, got where={shown(str(self.where))}. {PREDICATE}"
            )
        if not 0 < self.delete_ratio_threshold <= 1:
            raise InvalidSpecError(
                f"{self.table}: delete_ratio_threshold is a share in (0, 1], not {self.delete_ratio_threshold}"
            )
        counts = {"max_commits": 1, "min_input_files": 1, "delete_file_threshold": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise InvalidSpecError(f"{self.table}: {name} must be at least {least}, got {getattr(self, name)}")
