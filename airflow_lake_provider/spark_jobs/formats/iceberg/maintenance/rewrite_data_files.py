"""Rewrite data files once: Iceberg's planner and action, its failures, and the waves of its groups.

Iceberg's result leaves out groups that were written and whose commit was then refused. With partial progress the commit
service logs the refusal and goes on (apache/iceberg#13783, still so in 1.12). So the groups are planned here first, by
the same planner with the same options at the same snapshot. What is not in the result counts as lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    JobFailedError,
    UnknownOutcomeError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.compaction_rules import RewriteRules
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import with_commit_status_check
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.newer_equality_deletes import keeping_newer_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_refused,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_groups import ArrowRewrite
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.chosen_groups import (
    CommittedGroups,
    files_of_run,
    groups_without,
    rewrite_chosen,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.delete_totals import head_has_equality_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.table_definition import build_sort_order
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, java_context, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava, items_of, value_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError, java_names


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
    :param by_arrow: groups of those done that Arrow has rewritten.
    """

    done: int = 0
    by_arrow: int = 0
    failed: int = 0
    lost: int = 0
    bytes: int = 0
    messages: tuple[str, ...] = ()
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Wave:
    """Some of the planned groups, before the head is looked at again.

    :param commits: at most, of partial progress; None for a single one without it.
    :param is_whole: these are all groups.
    """

    groups: int
    commits: int | None = None
    is_whole: bool = True

    @property
    def of_a_commit(self) -> int | None:
        """Groups of a commit of partial progress; None without it."""
        return None if self.commits is None else math.ceil(self.groups / self.commits)


# Iceberg rewrites five at once: a smaller wave would leave cores idle.
_AT_ONCE = 5
# Each plans anew, which reads all manifests.
_MOST_WAVES = 10


def waves_of(groups: int, spec: CompactionSpec) -> list[Wave]:
    """Divide groups into waves of whole commits, no more of these than the spec allows."""
    if not spec.partial_progress:
        return [Wave(groups=groups)]
    of_a_commit = math.ceil(groups / spec.max_commits)
    commits = math.ceil(max(_AT_ONCE, groups / _MOST_WAVES) / of_a_commit)
    size = commits * of_a_commit
    sizes = [min(size, groups - begun) for begun in range(0, groups, size)]
    return [Wave(groups=each, commits=math.ceil(each / of_a_commit), is_whole=len(sizes) == 1) for each in sizes]


@dataclass(frozen=True, kw_only=True)
class DataFileRewrite:
    """A rewrite that can be planned and tried, more than once.

    :param expression: Iceberg expression of the author's ``where``.
    :param run_key: of the snapshots it commits. What they have added already is not rewritten again.
    :param arrow: rewrites groups in place of Spark; None where it is not asked for.
    :param meets_equality_deletes: the table had some before this compaction, so that its writers make more.
    """

    table: IcebergTable
    spec: CompactionSpec
    rules: RewriteRules
    expression: Any
    run_key: str
    arrow: ArrowRewrite | None = None
    meets_equality_deletes: bool = False

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
        attempt = self._in_waves(planned, one_by_one)
        messages = failed_jobs(self.table.spark, last_job) if attempt.failed else ()
        return replace(attempt, messages=(*attempt.messages, *messages))

    def _in_waves(self, planned: PlannedGroups, one_by_one: bool) -> RewriteAttempt:
        """Rewrite a few groups at a time, each wave as it is planned at the head of its time.

        So only the groups of one wave are rewritten in vain, where a writer comes first. What a wave has begun and lost
        waits for the next attempt.
        """
        attempt, begun = RewriteAttempt(lost=planned.groups), self.table.iceberg.util.DataFileSet.create()
        for number, wave in enumerate(waves_of(planned.groups, self.spec)):
            if number:
                planned = replace(planned, written=files_of_run(self.table.refresh(), self.run_key))
            action = self._action(one_by_one, wave.commits)
            try:
                result = self._execute(action, planned, wave, begun)
            except JavaError as error:
                return self._failed(error, attempt)
            if result is None:
                # Writers have removed or rewritten all that was left.
                break
            attempt = self._added(attempt, result)
        return attempt

    def _execute(self, action: Any, planned: PlannedGroups, wave: Wave, begun: Any) -> CommittedGroups | None:
        if wave.is_whole and planned.written is None and not self.spec.skip_partitions and self.arrow is None:
            return CommittedGroups.of_result(self.table.spark, action.execute())
        spark, disjoint = self.table.spark, jvm_of(self.table.spark).java.util.Collections.disjoint

        def choose(plan: Any) -> list[Any]:
            groups = self._chosen(plan, planned.written)
            chosen = list(islice((each for each in groups if disjoint(each.rewrittenFiles(), begun)), wave.groups))
            for group in chosen:
                guava(spark).collect.Iterables.addAll(begun, group.rewrittenFiles())
            return chosen

        if self.arrow is None:
            return rewrite_chosen(action, self.table, choose, partial_progress=wave.commits is not None)
        with self.arrow.discarded_on_failure(lambda: files_of_run(self.table.refresh(), self.run_key)):
            return rewrite_chosen(
                action,
                self.table,
                choose,
                partial_progress=wave.commits is not None,
                rewrite=self.arrow.rewrite,
                commit=partial(self.arrow.commit, summary=self.summary, at_once=wave.of_a_commit),
            )

    def _added(self, attempt: RewriteAttempt, result: CommittedGroups) -> RewriteAttempt:
        done, by_arrow = result.indexes, self.arrow.indexes if self.arrow is not None else frozenset()
        return replace(
            attempt,
            done=attempt.done + len(done),
            by_arrow=attempt.by_arrow + len(by_arrow.intersection(done)),
            failed=attempt.failed + result.failed,
            lost=max(0, attempt.lost - len(done) - result.failed),
            bytes=attempt.bytes + result.bytes,
            messages=(*attempt.messages, *result.messages),
            refused=attempt.refused or result.is_refused,
        )

    def _in_one_commit(self, planned: PlannedGroups) -> RewriteAttempt | None:
        """Rewrite without Iceberg's commit service, which keeps a core busy while it waits for a commit's groups.

        :return: None where Spark could not rewrite a group, so that nothing was committed.
        """
        whole, begun = Wave(groups=planned.groups), self.table.iceberg.util.DataFileSet.create()
        try:
            result = self._execute(self._action(one_by_one=False), planned, whole, begun)
        except JavaError as error:
            refusal = conflict_message(error)
            if refusal is None and is_refused(error):
                # The next one would be, too: the table is gone, or may not be changed.
                return self._failed(error, RewriteAttempt())
            if refusal is None and not is_unknown(error):
                return None
            # Whether a commit without an answer was made is seen when the next attempt is planned.
            messages = (refusal or root_message(error),)
            return RewriteAttempt(lost=planned.groups, messages=messages, refused=refusal is not None)
        return self._added(RewriteAttempt(), result or CommittedGroups())

    def _failed(self, error: JavaError, attempt: RewriteAttempt) -> RewriteAttempt:
        if is_unknown(error):
            raise UnknownOutcomeError(
                f"{self.table.name}: the catalog did not answer a compaction's commit, so it may have been made; no "
                f"file was removed. Rows are the same either way; run it again. {root_message(error)}"
            ) from error
        refusal = conflict_message(error)
        if refusal is None:
            raise JobFailedError(f"{self.table.name}: compaction failed: {root_message(error)}") from error
        return replace(attempt, messages=(refusal,), refused=True)

    def _action(self, one_by_one: bool, commits: int | None = None) -> Any:
        checked = with_commit_status_check(self.table, keeping_newer_deletes(self.table))
        action = self.table.java_actions.rewriteDataFiles(checked)
        action = action.filter(self.expression).options(self._options(commits))
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

    def _options(self, commits: int | None) -> dict[str, str]:
        options = planner_options(self.rules)
        if commits is not None:
            options |= {"partial-progress.enabled": "true", "partial-progress.max-commits": str(commits)}
        if self.table.format_version == 2 and not (
            self.meets_equality_deletes or head_has_equality_deletes(self.table)
        ):
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
