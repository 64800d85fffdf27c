"""Rewrite data files once: Iceberg's planner and action, its failures, and the files that are its own.

Iceberg's result leaves out groups that were written and whose commit was then refused. With partial progress the commit
service logs the refusal and goes on (apache/iceberg#13783, still so in 1.12). So the groups are planned here first, by
the same planner with the same options at the same snapshot. What is not in the result counts as lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    JobFailedError,
    UnknownOutcomeError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.specs.compaction import CompactionSpec, CompactionStrategy
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.compaction_rules import RewriteRules
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import with_commit_status_check
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.newer_equality_deletes import keeping_newer_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.table_definition import build_sort_order
from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, java_array, java_context, jvm_of, load_class
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, items_of, list_of, value_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError, java_names
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles


@dataclass(frozen=True, kw_only=True)
class PlannedGroups:
    """Groups that Iceberg's planner found due at the head, without the files that this run has ``written``."""

    groups: int
    files: int
    bytes: int
    written: Any | None = None


@dataclass(frozen=True, kw_only=True)
class RewriteAttempt:
    """Result of rewriting the planned groups.

    :param failed: groups that Spark could not rewrite.
    :param lost: groups that were rewritten but not committed.
    :param messages: reasons, as far as Spark and Iceberg tell them.
    :param refused: Iceberg said that another commit was in the way.
    """

    done: int = 0
    failed: int = 0
    lost: int = 0
    bytes: int = 0
    messages: tuple[str, ...] = ()
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class DataFileRewrite:
    """A rewrite that can be planned and tried, more than once.

    :param expression: Iceberg expression of the author's ``where``.
    :param run_key: of the snapshots it commits. What they have added already is not rewritten again.
    """

    table: IcebergTable
    spec: CompactionSpec
    rules: RewriteRules
    expression: Any
    run_key: str

    def plan(self) -> PlannedGroups:
        """Find what is due at the head that the table's handle knows; a metadata operation."""
        head = self.table.head()
        if head is None:
            return PlannedGroups(groups=0, files=0, bytes=0)
        actions = self.table.iceberg.actions
        case_sensitive = self.table.spark.conf.get("spark.sql.caseSensitive") == "true"
        planner = actions.BinPackRewriteFilePlanner(self.table.java, self.expression, head, case_sensitive)
        planner.init(planner_options(self.rules))
        written = files_of_run(self.table, self.run_key)
        groups = self._chosen(planner.plan(), written)
        return PlannedGroups(
            groups=len(groups),
            files=sum(group.inputFileNum() for group in groups),
            bytes=sum(group.inputFilesSizeInBytes() for group in groups),
            written=written,
        )

    def _chosen(self, plan: Any, written: Any | None) -> list[Any]:
        """Return the groups of a plan without files of this run, outside of the partitions that are left alone."""
        groups = groups_without(self.table.spark, plan, written)
        skipped, spec = set(self.spec.skip_partitions), self.table.java.spec()
        if not skipped or not spec.isPartitioned():
            return groups
        return [group for group in groups if spec.partitionToPath(group.info().partition()) not in skipped]

    @property
    def summary(self) -> dict[str, str]:
        """Return properties of the snapshots it commits."""
        return {ACTION: self.spec.action, RUN_KEY: self.run_key}

    def attempt(
        self, planned: PlannedGroups, *, one_by_one: bool = False, may_be_undone: bool = False
    ) -> RewriteAttempt:
        """Rewrite and commit what is due.

        :param one_by_one: no two groups at once, whose commits could be in each other's way.
        :param may_be_undone: there is another attempt. So what would fill no file of the target size is one commit:
            a writer who comes first undoes seconds of work.
        :raises UnknownOutcomeError: the answer to the only commit was lost; its files were left alone.
        :raises JobFailedError: Spark failed and, without partial progress, nothing was committed.
        """
        if may_be_undone and self.spec.partial_progress and planned.bytes <= self.rules.target_bytes:
            attempt = self._in_one_commit(planned)
            if attempt is not None:
                return attempt
        last_job = newest_job(self.table.spark)
        try:
            result = self._execute(planned, one_by_one, partial_progress=self.spec.partial_progress)
        except JavaError as error:
            return self._failed(error, planned)
        spark = self.table.spark
        done, failed = JavaItems(spark, result.rewriteResults()), len(JavaItems(spark, result.rewriteFailures()))
        return RewriteAttempt(
            done=len(done),
            failed=failed,
            lost=max(0, planned.groups - len(done) - failed),
            bytes=sum(group.rewrittenBytesCount() for group in done),
            messages=failed_jobs(spark, last_job) if failed else (),
        )

    def _in_one_commit(self, planned: PlannedGroups) -> RewriteAttempt | None:
        """Rewrite without Iceberg's commit service, which keeps a core busy while it waits for a commit's groups.

        :return: None where Spark could not rewrite a group, so that nothing was committed.
        """
        try:
            result = self._execute(planned, one_by_one=False, partial_progress=False)
        except JavaError as error:
            refusal = conflict_message(error)
            if refusal is None and not is_unknown(error):
                return None
            # Whether a commit without an answer was made is seen when the next attempt is planned.
            messages = (refusal or root_message(error),)
            return RewriteAttempt(lost=planned.groups, messages=messages, refused=refusal is not None)
        done = JavaItems(self.table.spark, result.rewriteResults())
        return RewriteAttempt(done=len(done), bytes=sum(group.rewrittenBytesCount() for group in done))

    def _execute(self, planned: PlannedGroups, one_by_one: bool, *, partial_progress: bool) -> Any:
        action = self._action(one_by_one, partial_progress)
        if planned.written is None and not self.spec.skip_partitions:
            return action.execute()
        return rewrite_chosen(
            action,
            self.table,
            lambda plan: self._chosen(plan, planned.written),
            partial_progress=partial_progress,
        )

    def _failed(self, error: JavaError, planned: PlannedGroups) -> RewriteAttempt:
        if is_unknown(error):
            raise UnknownOutcomeError(
                f"{self.table.name}: the catalog did not answer a compaction's commit, so it may have been made; no "
                "file "
                f"was removed. Rows are the same either way; run it again. {root_message(error)}"
            ) from error
        refusal = conflict_message(error)
        if refusal is None:
            raise JobFailedError(f"{self.table.name}: compaction failed: {root_message(error)}") from error
        return RewriteAttempt(lost=planned.groups, messages=(refusal,), refused=True)

    def _action(self, one_by_one: bool, partial_progress: bool) -> Any:
        checked = with_commit_status_check(self.table, keeping_newer_deletes(self.table))
        action = self.table.java_actions.rewriteDataFiles(checked)
        action = action.filter(self.expression).options(self._options(partial_progress))
        if one_by_one:
            action = action.option("max-concurrent-file-group-rewrites", "1")
        for name, value in self.summary.items():
            action = action.snapshotProperty(name, value)
        return self._ordered(action)

    def _ordered(self, action: Any) -> Any:
        if self.spec.strategy is CompactionStrategy.BINPACK:
            return action.binPack()
        if self.spec.strategy.is_by_curve:
            return self._along_curve(action)
        return action.sort(self._sort_order()) if self.spec.sort_by else action.sort()

    def _along_curve(self, action: Any) -> Any:
        columns = java_array(self.table.spark, "java.lang.String", self.spec.sort_by)
        if self.spec.strategy is CompactionStrategy.ZORDER:
            return action.zOrder(columns)
        try:
            return action.hilbert(columns)
        except SPARK_ERRORS as error:
            # Iceberg 1.12 has it for Spark 4.1 alone (apache/iceberg#17805).
            if "UnsupportedOperationException" not in java_names(error):
                raise
            raise UnsupportedError(
                f"{self.table.name}: strategy 'hilbert' needs Spark 4.1, this is Spark {self.table.spark.version}; "
                "use strategy='zorder'"
            ) from error

    def _sort_order(self) -> Any:
        try:
            return build_sort_order(self.table.spark, self.table.java.schema(), self.spec.sort_by)
        except SPARK_ERRORS as error:
            raise InvalidSpecError(
                f"{self.table.name}: sort_by={list(self.spec.sort_by)} is not a sort order of its columns: "
                f"{root_message(error)}"
            ) from error

    def _options(self, partial_progress: bool) -> dict[str, str]:
        options = {
            **planner_options(self.rules),
            "partial-progress.enabled": str(partial_progress).lower(),
            "partial-progress.max-commits": str(self.spec.max_commits),
        }
        summary = next(self.table.summaries())
        if self.table.format_version == 2 and not count_of(summary, "total-equality-deletes"):
            # With the sequence number of the start, position deletes of the last commit stay although nothing is left
            # for them to delete. Equality deletes need that number; without any, a new one is a conflict, not a loss.
            options["use-starting-sequence-number"] = "false"
        return options


def planner_options(rules: RewriteRules) -> dict[str, str]:
    """Write rules as options of Iceberg's planner and action."""
    return {
        "target-file-size-bytes": str(rules.target_bytes),
        "min-file-size-bytes": str(rules.min_bytes),
        "max-file-size-bytes": str(rules.max_bytes),
        "min-input-files": str(rules.min_input_files),
        "delete-file-threshold": str(rules.delete_file_threshold),
        "delete-ratio-threshold": str(rules.delete_ratio_threshold),
        "max-file-group-size-bytes": str(rules.group_bytes),
        "rewrite-all": str(rules.rewrite_all).lower(),
    }


_MOST_MESSAGES = 10
_LONGEST = 500


def newest_job(spark: SparkSession) -> int:
    """Return the id of the newest job of the application; -1 before the first."""
    jobs = _jobs(spark)
    return max((int(job.jobId()) for job in jobs), default=-1)


def failed_jobs(spark: SparkSession, after: int) -> tuple[str, ...]:
    """Return one line for each failed job with an id above ``after``: its description and the first reason."""
    failed = [job for job in _jobs(spark) if job.jobId() > after and job.status().toString() == "FAILED"]
    return tuple(f"{value_of(job.description()) or ''}: {_reason(spark, job)}" for job in failed[:_MOST_MESSAGES])


def _reason(spark: SparkSession, job: Any) -> str:
    store = java_context(spark).statusStore()
    for stage in items_of(job.stageIds()):
        reason = value_of(store.lastStageAttempt(stage).failureReason())
        if reason:
            return str(reason).strip().splitlines()[0][:_LONGEST]
    return "no reason given"


def _jobs(spark: SparkSession) -> list[Any]:
    return items_of(java_context(spark).statusStore().jobsList(None))


_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"
_PLAN = "org.apache.iceberg.actions.FileRewritePlan"
_COMMITS = "org.apache.iceberg.actions.RewriteDataFilesCommitManager"
_ITERABLE = "org.apache.iceberg.io.CloseableIterable"


def files_of_run(table: IcebergTable, run_key: str) -> Any | None:
    """Return the data files that snapshots of main with a run key have added, a ``DataFileSet``; None without any."""
    ours = [int(each.id) for each in table.ancestors() if each.summary.get(RUN_KEY) == run_key]
    if not ours:
        return None
    files = table.iceberg.util.DataFileSet.create()
    for snapshot_id in ours:
        added = table.java.snapshot(snapshot_id).addedDataFiles(table.java.io())
        guava(table.spark).collect.Iterables.addAll(files, added)
    return files


def groups_without(spark: SparkSession, plan: Any, files: Any | None) -> list[Any]:
    """Return the file groups of a plan without some files, unless a delete has come to lie on them.

    :param plan: ``org.apache.iceberg.actions.FileRewritePlan``.
    :param files: of :func:`files_of_run`.
    """
    groups = list(JavaItems(spark, guava(spark).collect.Lists.newArrayList(plan.groups())))
    if files is None:
        return groups
    cut = (_without(spark, group, files) for group in groups)
    return [group for group in cut if group is not None]


def _without(spark: SparkSession, group: Any, files: Any) -> Any | None:
    jvm = jvm_of(spark)
    if jvm.java.util.Collections.disjoint(group.rewrittenFiles(), files):
        return group
    tasks = JavaItems(spark, group.fileScanTasks())
    left = [task for task in tasks if not (files.contains(task.file()) and task.deletes().isEmpty())]
    if not left:
        return None
    share = sum(task.length() for task in left) / group.inputFilesSizeInBytes()
    return jvm.org.apache.iceberg.actions.RewriteFileGroup(
        group.info(),
        list_of(spark, left),
        group.outputSpecId(),
        group.maxOutputFileSize(),
        group.inputSplitSize(),
        math.ceil(group.expectedOutputFiles() * share),
    )


def rewrite_chosen(
    action: Any, table: IcebergTable, choose: Callable[[Any], list[Any]], *, partial_progress: bool
) -> Any:
    """Carry out some groups of a rewrite, and return its result.

    :param action: ``RewriteDataFilesSparkAction``, ready to be executed.
    :param choose: returns the groups of a plan, an ``org.apache.iceberg.actions.FileRewritePlan``.
    """
    private = _PrivateMethods(table.spark, action)
    head = table.java.currentSnapshot().snapshotId()
    private.call("init", ["long"], head)
    whole = private.value("planner").plan()
    plan = private.plan_of(choose(whole), whole)
    execute = "doExecuteWithPartialProgress" if partial_progress else "doExecute"
    return private.call(execute, [_PLAN, _COMMITS], plan, private.call("commitManager", ["long"], head)).build()


class _PrivateMethods:
    """Methods of an action that are not public."""

    def __init__(self, spark: SparkSession, action: Any) -> None:
        self._spark, self._action = spark, action
        self._classes = method_handles(spark).classes

    def call(self, name: str, types: list[str], *arguments: Any) -> Any:
        method = load_class(self._spark, _ACTION).getDeclaredMethod(name, self._classes(*types))
        method.setAccessible(True)
        return method.invoke(self._action, self._objects(arguments))

    def value(self, name: str) -> Any:
        field = load_class(self._spark, _ACTION).getDeclaredField(name)
        field.setAccessible(True)
        return field.get(self._action)

    def plan_of(self, groups: list[Any], whole: Any) -> Any:
        """Return a plan of some groups of another one."""
        kind = load_class(self._spark, _PLAN)
        counts = kind.getDeclaredField("groupsInPartition")
        counts.setAccessible(True)
        made = kind.getDeclaredConstructor(self._classes(_ITERABLE, "int", "java.util.Map"))
        made.setAccessible(True)
        # ``withNoopClose`` would take the list for its one item.
        closeable = class_named(self._spark, _ITERABLE).combine(list_of(self._spark, groups), whole.groups())
        return made.newInstance(self._objects((closeable, len(groups), counts.get(whole))))

    def _objects(self, items: Sequence[Any]) -> Any:
        return java_array(self._spark, "java.lang.Object", items)
