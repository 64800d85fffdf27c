"""The strategies by which rows are applied by key, which one a batch gets, and how each one waits for audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.iceberg.table_obstacles import refuses_delete_files
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.run_audits import BatchAudit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.audit_before_publish import (
    AuditedRoute,
    audit_stage,
    dropped_on_failure,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    drop_branch,
    publish,
    stage_branch_name,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import position_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.strategy_requirements import lacking_internals, unfit_for
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.copy_on_write_upsert import upsert_by_copy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.equality_upsert import upsert_by_equality
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.merge_upsert import merge_and_publish
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import (
    AppliedUpsert,
    CandidateFiles,
    PlannedUpsert,
    plan_candidates,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.position_upsert import upsert_by_position
from airflow_lake_provider.spark_jobs.progress import Progress


# [START strategy]
class Strategy(Protocol):
    """Applies a batch in one commit.

    Both raise ``CommitConflictError`` where the batch has to be decided on again, or other writers won every try. They
    raise ``UnknownOutcomeError`` where the catalog's answer was lost and the run key is not on the table.
    """

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
        """Commit to the branch at once."""

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedUpsert:
        """Commit beside main, audit, and publish.

        :raises AuditFailedError: rows offend an assertion; main is as it was.
        """


# [END strategy]


class ByPosition:
    """Rebases its commit when an audited batch meets another: the files stay, their deletes are written anew."""

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
        """See :class:`Strategy`."""
        return upsert_by_position(table, commit, progress)

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedUpsert:
        """See :class:`Strategy`."""
        route = AuditedRoute(audit, progress)
        with route.given_up_on_failure(table):
            return upsert_by_position(table, commit, progress, route)


@dataclass(frozen=True)
class OnStageBranch:
    """Writes an audited batch to a stage branch, by a strategy that cannot rebase one."""

    upsert: Callable[[IcebergTable, PlannedUpsert, Progress], AppliedUpsert]

    def apply(self, table: IcebergTable, commit: PlannedUpsert, progress: Progress) -> AppliedUpsert:
        """See :class:`Strategy`."""
        return self.upsert(table, commit, progress)

    def apply_audited(
        self, table: IcebergTable, commit: PlannedUpsert, audit: BatchAudit, progress: Progress
    ) -> AppliedUpsert:
        """See :class:`Strategy`."""
        stage = stage_branch_name(commit.run_key)
        applied = self.upsert(table, replace(commit, branch=stage, audits=None), progress)
        staged = int(applied.snapshot)
        with dropped_on_failure(lambda: drop_branch(table, stage)):
            audit_stage(table, commit, audit, stage, staged, progress)
            with progress.phase("publish"), position_properties(table, commit) as position:
                publish(table, _on_its_base(table, commit, staged), stage, staged, position)
        return applied


def _on_its_base(table: IcebergTable, commit: PlannedUpsert, staged: int) -> PlannedUpsert:
    """Return the commit on the snapshot that the staged one was made on: the strategy may have rebased it."""
    if commit.base is None or staged == int(commit.base):
        return commit
    return replace(commit, base=str(table.refresh().java.snapshot(staged).parentId()))


# [START strategies]
STRATEGIES: Mapping[UpsertStrategy, Strategy] = {
    UpsertStrategy.POSITIONS: ByPosition(),
    UpsertStrategy.COPY_ON_WRITE: OnStageBranch(upsert_by_copy),
    UpsertStrategy.MERGE: OnStageBranch(merge_and_publish),
    UpsertStrategy.EQUALITY: OnStageBranch(upsert_by_equality),
}
# [END strategies]


# Keys are broadcast, and 8 bytes per row found reach the driver.
MOST_BROADCAST_KEYS = 2_000_000
# From here on nearly every data file has a row of the batch. To write them all anew is at most four times the rows of
# the batch, once; delete files would make each later read go through the replaced rows, and a compaction write it all
# as well.
COPIED_SHARE = 1 / 3


@dataclass(frozen=True, kw_only=True)
class ChosenStrategy:
    """A strategy and why.

    :param warning: what the table's owner could mend; None when nothing.
    :param candidates: data files that may hold a key, where they were planned.
    """

    strategy: UpsertStrategy
    reason: str
    warning: str | None = None
    candidates: CandidateFiles | None = None


def choose_strategy(table: IcebergTable, commit: PlannedUpsert, asked: UpsertStrategy) -> ChosenStrategy:
    """Choose by rules, or do as asked.

    :raises UnsupportedError: the strategy that was asked for is not possible.
    """
    if asked in (UpsertStrategy.MERGE, UpsertStrategy.EQUALITY):
        if asked is UpsertStrategy.MERGE:
            _refuse_unfit_merge(table, commit)
        return ChosenStrategy(strategy=asked, reason="as asked")
    is_asked = asked is not UpsertStrategy.AUTO
    strategy, reason = (asked, "as asked") if is_asked else _by_rule(table, commit)
    lacking = lacking_internals(table.spark, strategy)
    obstacle = lacking or unfit_for(table, strategy, commit.keys)
    if obstacle is None and commit.batch_keys.count > MOST_BROADCAST_KEYS:
        obstacle = f"{commit.batch_keys.count} keys are more than the {MOST_BROADCAST_KEYS} that are broadcast"
    if obstacle is None:
        candidates = plan_candidates(table, commit)
        if candidates is not None and not reason:
            reason = _looked_at(table, commit, candidates)
        return ChosenStrategy(strategy=strategy, reason=reason, candidates=candidates)
    if is_asked:
        raise UnsupportedError(f"{table.name}: strategy={strategy.value!r} is not possible, {obstacle}; use 'auto'")
    _refuse_unfit_merge(table, commit, f"auto takes it as {obstacle}, and ")
    warning = f"the slower strategy merge was used: {lacking}" if lacking else None
    return ChosenStrategy(strategy=UpsertStrategy.MERGE, reason=obstacle, warning=warning)


def _by_rule(table: IcebergTable, commit: PlannedUpsert) -> tuple[UpsertStrategy, str]:
    """Return the strategy that is wanted and why; positions need no reason but what they look at."""
    reason = refuses_delete_files(table.format_version, table.properties())
    if reason is None:
        # Those that deletes hide included.
        keys, rows = commit.batch_keys.count, table.records(commit.base)
        if rows == 0 or keys < rows * COPIED_SHARE:
            return UpsertStrategy.POSITIONS, "" if rows else "the table has no rows"
        reason = f"{keys} keys are {keys / rows:.0%} of the table's {rows} rows"
    return UpsertStrategy.COPY_ON_WRITE, reason


def _looked_at(table: IcebergTable, commit: PlannedUpsert, candidates: CandidateFiles) -> str:
    """Say what of the table has to be looked at."""
    files = count_of(table.summary(commit.base), "total-data-files")
    rows = candidates.rows
    counted = f"{rows / 1e6:.1f} M" if rows >= 1_000_000 else f"{rows:,}"
    return f"{len(candidates.rows_by_file)} files of {files}, {counted} candidate rows"


def _refuse_unfit_merge(table: IcebergTable, commit: PlannedUpsert, because: str = "") -> None:
    """Refuse a MERGE that Spark ends with an error of Java.

    :param because: why ``auto`` takes it, the begin of a sentence.
    :raises UnsupportedError: naming the setting of the table, or the columns.
    """
    if (why := unfit_for(table, UpsertStrategy.MERGE, commit.keys)) is not None:
        raise UnsupportedError(f"{table.name}: strategy='merge' is not possible, {because}{why}")
    if names := table.new_variants(int(commit.base)) if commit.base is not None else []:
        raise UnsupportedError(
            f"{table.name}: strategy='merge' is not possible, columns {names} of type VARIANT were added since the "
            "last commit, and Spark's MERGE cannot read them before there is another; use 'positions'"
        )
