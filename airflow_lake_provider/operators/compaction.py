"""LakeCompactionOperator: fewer, fuller files without deletes on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import PlannedAction
from airflow_lake_provider.planning.early_refusals import refuse_compaction
from airflow_lake_provider.tables.base import UnreadPredicateError


class CompactionAction(PlannedAction[CompactionSpec]):
    """The worker's part of a compaction."""

    spec_type = CompactionSpec
    # ``full`` rewrites all for each.
    cleared_is_new = True

    def report_without_spark(self, spec: CompactionSpec) -> JobReport | None:
        """Plan; what ``where`` says to Spark alone is left to the driver, but not where nobody starts one."""
        try:
            return super().report_without_spark(spec)
        except UnreadPredicateError as error:
            if spec.dry_run:
                raise InvalidSpecError(str(error)) from error
            return None

    def refuse_from_metadata(self, spec: CompactionSpec) -> None:
        """Refuse columns that the table lacks."""
        refuse_compaction(spec, self.tables.load_existing(spec.table))


class LakeCompactionOperator(LakeJobOperator[CompactionSpec]):
    """Rewrite the files of a table that are worth it; where none is, Spark is not started.

    Compaction is the loser. Where a writer gets in between, it tries again what is still valid. Then it reports the
    outcome ``conflict``, and the data is untouched.

    :param table: ``namespace.table`` (templated).
    :param level: ``"minor"`` merges small files and files with many deletes, ``"major"`` every file with deletes too,
        ``"full"`` everything, ``"auto"`` what the metadata says is due (templated).
    :param strategy: ``"binpack"``, ``"sort"``, ``"zorder"``, or ``"hilbert"`` of Spark 4.1 (templated).
    :param runner: ``"arrow"`` rewrites files by ``pyarrow`` in Python workers of the executors, where that surely
        comes to the same, ``"spark"`` by Iceberg's own runner. ``"auto"`` is Arrow where executors have 700 MiB for
        each task beside the JVM's heap (templated).
    :param sort_by: Spark sort order for ``sort``, columns for the two others.
    :param where: predicate on columns that limits the files, or the path of a ``.sql`` file with it (templated).
    :param skip_partitions: paths of partitions that are left alone, such as ``id_bucket=3``; of the current spec.
    :param target_file_size: ``"128MB"`` or a number of bytes; default the table's own.
    :param partial_progress: commit groups of files as they finish.
    :param max_commits: with partial progress.
    :param delete_file_threshold: rewrite a file with at least this many delete files.
    :param delete_ratio_threshold: rewrite a file when this share of its rows is deleted.
    :param min_input_files: fewest files of a group that are rewritten for their size.
    :param rewrite_manifests: also merge manifests.
    :param max_attempts: tries when a writer gets in between.
    :param dry_run: say from metadata what would happen, and start nothing (templated).
    :param fail_on_conflict: fail the task on the outcome ``conflict`` instead of reporting it.
    :param verify: scan the table before and after, and compare. ``"rows"`` compares the number of rows in each
        partition, ``"keys"`` a checksum of the identifier fields as well. None compares what metadata says.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BrokenInvariantError: a commit of it has changed rows.
    :raises CommitConflictError: other writers won every attempt, and ``fail_on_conflict`` is set.
    """

    action = CompactionAction

    def __init__(
        self,
        *,
        level: str = "auto",
        strategy: str = "binpack",
        runner: str = "auto",
        sort_by: Sequence[str] = (),
        where: str | None = None,
        skip_partitions: Sequence[str] = (),
        target_file_size: int | str | None = None,
        partial_progress: bool = True,
        max_commits: int = 10,
        delete_file_threshold: int = 1,
        delete_ratio_threshold: float = 0.1,
        min_input_files: int = 5,
        rewrite_manifests: bool = True,
        max_attempts: int = 3,
        dry_run: bool | str = False,
        fail_on_conflict: bool = False,
        verify: str | None = None,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())
