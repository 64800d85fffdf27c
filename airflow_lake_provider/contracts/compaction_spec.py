"""Spec of a compaction, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.layout_terms import sort_terms
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate


class CompactionLevel(str, Enum):
    """Amount that a compaction rewrites."""

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


class CompactionStrategy(str, Enum):
    """Order of the rows in rewritten files."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


@dataclass(frozen=True, kw_only=True)
class CompactionSpec(JobSpec):
    """Rewrite data files, and the deletes on them, into fewer and cleaner files.

    :param level: ``minor`` merges small files and files with many deletes, ``major`` every file with deletes too,
        ``full`` everything, ``auto`` what the metadata says is due.
    :param strategy: order of the rewritten rows.
    :param sort_by: sort order for ``sort`` (empty takes the table's), columns for ``zorder``.
    :param where: predicate that converts to an Iceberg expression; only files that may match are rewritten.
    :param target_file_size: None takes the table's ``write.target-file-size-bytes``.
    :param partial_progress: commit groups as they finish.
    :param max_commits: with partial progress.
    :param delete_file_threshold: rewrite a file with at least this many delete files; 0 turns it off.
    :param delete_ratio_threshold: rewrite a file when this share of its rows is deleted.
    :param min_input_files: fewest files of a group worth rewriting for their size.
    :param rewrite_manifests: also merge manifests.
    :param max_attempts: tries when a writer gets in between.
    """

    action: ClassVar[str] = "compaction"
    level: CompactionLevel = CompactionLevel.AUTO
    strategy: CompactionStrategy = CompactionStrategy.BINPACK
    sort_by: tuple[str, ...] = ()
    where: str | None = None
    target_file_size: int | None = None
    partial_progress: bool = True
    max_commits: int = 10
    delete_file_threshold: int = 1
    delete_ratio_threshold: float = 0.1
    min_input_files: int = 5
    rewrite_manifests: bool = True
    max_attempts: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy is CompactionStrategy.ZORDER and not self.sort_by:
            raise InvalidSpecError(f"{self.table}: strategy 'zorder' needs the columns in sort_by")
        if self.strategy is CompactionStrategy.BINPACK and self.sort_by:
            raise InvalidSpecError(f"{self.table}: sort_by needs strategy 'sort' or 'zorder', not 'binpack'")
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
        counts = {"max_commits": 1, "min_input_files": 1, "max_attempts": 1, "delete_file_threshold": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise InvalidSpecError(f"{self.table}: {name} must be at least {least}, got {getattr(self, name)}")
