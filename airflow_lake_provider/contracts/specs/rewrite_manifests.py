"""Spec of a rewrite of manifests, the lists that name a table's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import flag
from airflow_lake_provider.contracts.specs.job import JobSpec, argument


@dataclass(frozen=True, kw_only=True)
class RewriteManifestsSpec(JobSpec):
    """Merge small manifests, sorted by partition: the arguments of :class:`.LakeRewriteManifestsOperator`."""

    action: ClassVar[str] = "rewrite-manifests"
    capabilities: ClassVar[tuple[str, ...]] = ("file-lists",)
    sort: bool = argument(flag, default=False)
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    fail_on_conflict: bool = argument(flag, default=False, templated=False)
