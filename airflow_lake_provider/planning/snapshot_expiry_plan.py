"""Plan a snapshot expiry from metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.flink_obstacles import without_expiry_of_version_3
from airflow_lake_provider.contracts.job_report import ExpiryReport, Outcome
from airflow_lake_provider.contracts.snapshot_expiry_spec import SnapshotExpirySpec
from airflow_lake_provider.contracts.snapshot_retention_rules import (
    Retention,
    RetentionRequest,
    expiry_sentence,
    request_for,
    work_out,
)
from airflow_lake_provider.contracts.table_obstacles import without_expiry
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.planning.foreign_metadata_files import refuse_foreign_metadata_files
from airflow_lake_provider.planning.retention_facts import branch_lines, ref_facts, snapshot_facts
from airflow_lake_provider.planning.table_state import state_of

_UNFINISHED = "an earlier expiry was cut off before it had deleted its files; the next one deletes them"

if TYPE_CHECKING:
    from pyiceberg.table import Table


def plan_expiry(table: Table, spec: SnapshotExpirySpec) -> ExpiryReport:
    """Tell which snapshots and left-over stage branches an expiry would remove and which refs keep the others.

    Files are not counted: that needs the manifests of every snapshot, kept ones included.

    :return: the outcome ``skipped`` where the table says ``gc.enabled=false``: its files may belong to other tables.
    :raises UnsupportedError: a file to delete lies outside of the table's locations, or a Flink job could not commit
        any more.
    """
    if (why := without_expiry(table.properties)) is not None:
        return ExpiryReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=state_of(table))
    request = request_for(spec, table.properties, datetime.now(UTC))
    retention = retention_of(table, request)
    harm = without_expiry_of_version_3(
        table.format_version, branch_lines(table), retention.expired, request.expire_flink_before
    )
    if harm is not None and not spec.allow_other_writers:
        raise UnsupportedError(f"{spec.table}: {harm}")
    refuse_foreign_metadata_files(table, spec, retention.expired)
    due = retention.expired or retention.stage_branches or retention.aged_refs
    is_unfinished = UNFINISHED_EXPIRY in table.properties
    sentence = expiry_sentence(retention, request)
    return ExpiryReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due or is_unfinished else Outcome.NOTHING_DUE,
        reason=f"{sentence}; the files that would go were not counted" if due else sentence,
        warnings=(*((_UNFINISHED,) if is_unfinished else ()), *((harm,) if harm is not None else ())),
        before=state_of(table),
        snapshots_expired=tuple(str(id_) for id_ in retention.expired),
        kept_by_refs={str(id_): names for id_, names in retention.kept_by_refs.items()},
        kept_for_flink={str(id_): jobs for id_, jobs in retention.kept_for_flink.items()},
        stage_branches_removed=retention.stage_branches,
    )


def retention_of(table: Table, request: RetentionRequest) -> Retention:
    """Work out the retention of a PyIceberg table."""
    return work_out(snapshot_facts(table), ref_facts(table), request)
