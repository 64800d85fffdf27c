"""Snapshot expiry of an Iceberg table, by reachability and never by Iceberg's incremental clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_lake_provider.contracts.errors import UnknownOutcomeError, UnsupportedError
from airflow_lake_provider.contracts.job_report import ExpiryReport, Outcome
from airflow_lake_provider.contracts.metadata_numbers import number_property
from airflow_lake_provider.contracts.snapshot_expiry_spec import SnapshotExpirySpec
from airflow_lake_provider.contracts.snapshot_retention_rules import (
    FOREVER,
    RefFact,
    Retention,
    SnapshotFact,
    expiry_sentence,
    request_for,
    to_millis,
    work_out,
)
from airflow_lake_provider.contracts.table_obstacles import without_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress


def expire(table: IcebergTable, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
    """Remove left-over stage branches, expire snapshots and delete the files that no kept snapshot reaches.

    Branches, tags and their own retention are respected as Iceberg does. An expiry makes no snapshot, so what went is
    found by reading the snapshots before and after.

    :raises UnsupportedError: the table says ``gc.enabled=false``.
    :raises UnknownOutcomeError: the answer to the commit was lost; no file was deleted.
    """
    with progress.phase("plan") as facts:
        _refuse_without_gc(table.refresh())
        before = table.state()
        retention = _retention(table, spec)
        facts.update({"snapshots": len(retention.expired), "stage branches": len(retention.stage_branches)})
    report = ExpiryReport(
        table=spec.table,
        outcome=Outcome.NOTHING_DUE,
        reason=expiry_sentence(retention, spec),
        before=before,
        after=before,
        kept_by_refs={str(id_): names for id_, names in retention.kept_by_refs.items()},
    )
    if retention.expired or retention.stage_branches or retention.aged_refs:
        report = _expire(table, spec, progress, retention, report)
    return replace(report, seconds=dict(progress.seconds))


def _refuse_without_gc(table: IcebergTable) -> None:
    if (why := without_expiry(table.properties())) is not None:
        raise UnsupportedError(f"{table.name}: {why}")


def _expire(
    table: IcebergTable, spec: SnapshotExpirySpec, progress: Progress, retention: Retention, report: ExpiryReport
) -> ExpiryReport:
    known = _snapshot_ids(table)
    try:
        with progress.phase("remove stage branches"):
            _remove_branches(table, retention.stage_branches)
        with progress.phase("expire") as facts:
            deleted = _run_action(table, spec)
            facts.update({"data files": deleted["data_files_deleted"]})
        refusal = None
    except Py4JJavaError as error:
        refusal, deleted = _refusal(table, error), {}
    table.refresh()
    left, refs = _snapshot_ids(table), set(table.java.refs().keySet())
    return replace(
        report,
        outcome=Outcome.DONE if refusal is None else Outcome.CONFLICT,
        reason=report.reason if refusal is None else f"other commits were in the way each time: {refusal}",
        after=table.state(),
        snapshots_expired=tuple(str(id_) for id_ in known if id_ not in left),
        stage_branches_removed=tuple(name for name in retention.stage_branches if name not in refs),
        **deleted,
    )


def _remove_branches(table: IcebergTable, names: tuple[str, ...]) -> None:
    if not names:
        return
    manage = table.java.manageSnapshots()
    for name in names:
        manage = manage.removeBranch(name)
    manage.commit()


def _run_action(table: IcebergTable, spec: SnapshotExpirySpec) -> dict[str, Any]:
    jvm: Any = table.spark._jvm
    actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get(table.spark._jsparkSession)
    action = actions.expireSnapshots(table.java)
    action = action.expireOlderThan(to_millis(spec.expire_before)).retainLast(spec.retain_last)
    # Tables with many files would otherwise be collected into the driver's memory.
    result = action.option("stream-results", "true").execute()
    return {
        "data_files_deleted": result.deletedDataFilesCount(),
        "delete_files_deleted": result.deletedPositionDeleteFilesCount() + result.deletedEqualityDeleteFilesCount(),
        "manifests_deleted": result.deletedManifestsCount(),
        "manifest_lists_deleted": result.deletedManifestListsCount(),
        "statistics_deleted": result.deletedStatisticsFilesCount(),
    }


def _refusal(table: IcebergTable, error: Py4JJavaError) -> str:
    if is_unknown(error):
        raise UnknownOutcomeError(
            f"{table.name}: the catalog did not answer the expiry's commit, so it may have been made; no file was "
            f"deleted. Run it again; if it was made, its files are orphans. {root_message(error)}"
        ) from error
    refusal = conflict_message(error)
    if refusal is None:
        raise error
    return refusal


def _retention(table: IcebergTable, spec: SnapshotExpirySpec) -> Retention:
    name = "history.expire.max-ref-age-ms"
    default_age = number_property(str(table.name), table.properties(), name, FOREVER)
    request = request_for(spec, default_age or 0, datetime.now(UTC))
    return work_out(_snapshot_facts(table), _ref_facts(table), request)


def _snapshot_facts(table: IcebergTable) -> Iterator[SnapshotFact]:
    for snapshot in table.java.snapshots():
        yield SnapshotFact(id=snapshot.snapshotId(), parent=snapshot.parentId(), at=snapshot.timestampMillis())


def _ref_facts(table: IcebergTable) -> Iterator[RefFact]:
    refs = table.java.refs()
    for name in refs.keySet():
        ref = refs.get(name)
        yield RefFact(
            name=name,
            snapshot=ref.snapshotId(),
            is_branch=ref.isBranch(),
            min_snapshots=ref.minSnapshotsToKeep(),
            max_snapshot_age=ref.maxSnapshotAgeMs(),
            max_ref_age=ref.maxRefAgeMs(),
        )


def _snapshot_ids(table: IcebergTable) -> list[int]:
    return [int(snapshot.snapshotId()) for snapshot in table.java.snapshots()]
