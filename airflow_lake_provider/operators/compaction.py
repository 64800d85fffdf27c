"""LakeCompactionOperator: fewer, fuller files without deletes on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import choice, flag, number, optional, text
from airflow_lake_provider.contracts.compaction_spec import CompactionLevel, CompactionSpec, CompactionStrategy
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.job_report import JobReport, Outcome
from airflow_lake_provider.contracts.job_spec import JobSpec, SpecFrame
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.sizes import size
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.untemplated_arguments import names, share
from airflow_lake_provider.planning.early_refusals import refuse_compaction

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeCompactionOperator(LakeJobOperator[CompactionSpec]):
    """Rewrite the files of a table that are worth it; where none is, Spark is not started.

    Compaction is the loser: where a writer gets in between it tries again what is still valid and then reports the
    outcome ``conflict``; the data is untouched.

    :param table: ``namespace.table`` (templated).
    :param level: ``"minor"`` merges small files and files with many deletes, ``"major"`` every file with deletes too,
        ``"full"`` everything, ``"auto"`` what the metadata says is due (templated).
    :param strategy: ``"binpack"``, ``"sort"`` or ``"zorder"`` (templated).
    :param sort_by: Spark sort order for ``sort``, columns for ``zorder``.
    :param where: predicate on columns that limits the files, or the path of a ``.sql`` file with it (templated).
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
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises CommitConflictError: other writers won every attempt, and ``fail_on_conflict`` is set.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "level", "strategy", "where", "only_plan")
    sql_arguments = ("where",)

    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "level": "auto",
        "strategy": "binpack",
        "where": None,
        "only_plan": False,
    }

    def __init__(
        self,
        *,
        level: str = "auto",
        strategy: str = "binpack",
        sort_by: Sequence[str] = (),
        where: str | None = None,
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
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.level = level
        self.strategy = strategy
        self.sort_by = names(sort_by, "sort_by", "columns, for 'sort' with their order")
        self.where = where
        self.target_file_size = None if target_file_size is None else size(target_file_size, "target_file_size")
        self.partial_progress = flag(partial_progress, "partial_progress")
        self.max_commits = number(max_commits, "max_commits")
        self.delete_file_threshold = number(delete_file_threshold, "delete_file_threshold")
        self.delete_ratio_threshold = share(delete_ratio_threshold, "delete_ratio_threshold")
        self.min_input_files = number(min_input_files, "min_input_files")
        self.rewrite_manifests = flag(rewrite_manifests, "rewrite_manifests")
        self.max_attempts = number(max_attempts, "max_attempts")
        # BaseOperator has a method of the argument's name.
        self.only_plan = dry_run
        self.fail_on_conflict = flag(fail_on_conflict, "fail_on_conflict")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> CompactionSpec:  # noqa: ARG002  # for others
        """Translate the arguments."""
        flag(self.only_plan, "dry_run")
        return CompactionSpec(
            **frame,
            level=choice(CompactionLevel, self.level, "level"),
            strategy=choice(CompactionStrategy, self.strategy, "strategy"),
            sort_by=self.sort_by,
            where=optional(text)(self.where, "where"),
            target_file_size=self.target_file_size,
            partial_progress=self.partial_progress,
            max_commits=self.max_commits,
            delete_file_threshold=self.delete_file_threshold,
            delete_ratio_threshold=self.delete_ratio_threshold,
            min_input_files=self.min_input_files,
            rewrite_manifests=self.rewrite_manifests,
            max_attempts=self.max_attempts,
        )

    def report_without_spark(self, spec: JobSpec) -> JobReport | None:
        """Plan from metadata: enough for a dry run, and where nothing is due."""
        if not isinstance(spec, CompactionSpec):
            return None
        # It reads manifests by PyIceberg, which takes half a second to import: too long for a DAG file.
        from airflow_lake_provider.planning.compaction_plan import plan_compaction

        planned = plan_compaction(self.load_existing(spec.table), spec)
        return planned if flag(self.only_plan, "dry_run") or planned.outcome is Outcome.NOTHING_DUE else None

    def refuse_from_metadata(self, spec: CompactionSpec) -> None:
        """Refuse columns that the table lacks."""
        refuse_compaction(spec, self.load_existing(spec.table))

    def run_of(self, context: Context) -> RunIdentity:
        """Return the identity of the run; each clearing of the task is another, which ``full`` rewrites all for."""
        return self.run_identity(context, cleared_is_new=True)

    def check_report(self, report: JobReport) -> None:
        """Fail on a conflict where that was asked for."""
        if report.outcome is Outcome.CONFLICT and self.fail_on_conflict:
            raise CommitConflictError(report.reason)
