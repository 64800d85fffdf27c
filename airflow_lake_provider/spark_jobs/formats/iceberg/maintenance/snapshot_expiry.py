"""Snapshot expiry of an Iceberg table, by reachability and never by Iceberg's incremental clean-up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.reports.job import ExpiryReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.iceberg.snapshot_retention import Retention, RetentionRequest, expiry_sentence, retention_of
from airflow_lake_provider.iceberg.table_obstacles import without_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expiry_commit import CommittedExpiry, commit_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import (
    DATA,
    DELETES,
    MANIFEST,
    MANIFEST_LIST,
    STATISTICS,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress


def expire(table: IcebergTable, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
    """Remove left-over stage branches, expire snapshots and delete the files that no kept snapshot reaches.

    Branches, tags and their own retention are respected as Iceberg does. An expiry makes no snapshot, so what went is
    found by reading the snapshots before and after.

    :return: the outcome ``skipped`` where the table says ``gc.enabled=false``.
    :raises UnsupportedError: a file is missing, or files may not be the table's.
    :raises UnknownOutcomeError: the answer to the commit was lost; no file was deleted.
    """
    with progress.phase("plan") as facts:
        before = table.refresh().state()
        if (why := without_expiry(table.facts.properties)) is not None:
            return ExpiryReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=before, after=before)
        request, retention, harm = retention_of(table.facts, spec, datetime.now(UTC))
        facts.update({"snapshots": len(retention.expired), "stage branches": len(retention.stage_branches)})
    report = ExpiryReport(
        table=spec.table,
        outcome=Outcome.NOTHING_DUE,
        reason=expiry_sentence(retention, request),
        before=before,
        after=before,
        warnings=(harm,) if harm is not None else (),
        kept_by_refs=retention.kept_by_refs,
        kept_for_flink=retention.kept_for_flink,
        kept_for_sinks=retention.kept_for_sinks,
    )
    is_due = bool(retention.expired or retention.stage_branches or retention.aged_refs)
    if is_due or UNFINISHED_EXPIRY in table.properties():
        report = _expire(table, spec, request, progress, retention, report, is_due=is_due)
    return replace(report, seconds=dict(progress.seconds))


def _expire(
    table: IcebergTable,
    spec: SnapshotExpirySpec,
    request: RetentionRequest,
    progress: Progress,
    retention: Retention,
    report: ExpiryReport,
    *,
    is_due: bool,
) -> ExpiryReport:
    snapshots = table.facts.snapshots
    try:
        refusal = None
        committed = commit_expiry(table, spec, request, retention, progress, is_due=is_due)
    except CommitConflictError as error:
        committed, refusal = CommittedExpiry(), str(error)
    table.refresh()
    left, refs = table.facts.snapshots, table.facts.references
    return replace(
        report,
        outcome=Outcome.DONE if refusal is None else Outcome.CONFLICT,
        reason=report.reason if refusal is None else refusal,
        after=table.state(),
        warnings=(*report.warnings, *committed.warnings),
        snapshots_expired=tuple(id_ for id_ in snapshots if id_ not in left),
        stage_branches_removed=tuple(name for name in retention.stage_branches if name not in refs),
        **_deleted(committed.deleted),
    )


def _deleted(by_kind: dict[str, int]) -> dict[str, Any]:
    return {
        "data_files_deleted": by_kind.get(DATA, 0),
        "delete_files_deleted": by_kind.get(DELETES, 0),
        "manifests_deleted": by_kind.get(MANIFEST, 0),
        "manifest_lists_deleted": by_kind.get(MANIFEST_LIST, 0),
        "statistics_deleted": by_kind.get(STATISTICS, 0),
    }
