"""Spec of statistics of a table and its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, names
from airflow_lake_provider.contracts.specs.job import JobSpec, argument


@dataclass(frozen=True, kw_only=True)
class StatisticsSpec(JobSpec):
    """Count distinct values, and rows by partition: the arguments of :class:`.LakeStatisticsOperator`."""

    action: ClassVar[str] = "compute-statistics"
    capabilities: ClassVar[tuple[str, ...]] = ("statistics",)
    of_columns: tuple[str, ...] = argument(
        names, default=(), templated=False, author_name="columns", names_columns=True
    )
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)
