"""Snapshots, branches and tags of a PyIceberg table as the rules of retention have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.flink_commits import FlinkCommit
from airflow_lake_provider.contracts.snapshot_retention_rules import RefFact, SnapshotFact, lines_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def snapshot_facts(table: Table) -> list[SnapshotFact]:
    """Return all snapshots of a table."""
    return [
        SnapshotFact(id=s.snapshot_id, parent=s.parent_snapshot_id, at=s.timestamp_ms, flink=flink_commit(s))
        for s in table.metadata.snapshots
    ]


def flink_commit(snapshot: Snapshot) -> FlinkCommit | None:
    """Return what a snapshot says of the Flink job that committed it; None where none did."""
    return FlinkCommit.of(snapshot.summary.additional_properties) if snapshot.summary is not None else None


def ref_facts(table: Table) -> list[RefFact]:
    """Return all branches and tags of a table."""
    # Put off for DAG files, which are parsed and plan nothing.
    from pyiceberg.table.refs import SnapshotRefType

    return [
        RefFact(
            name=name,
            snapshot=ref.snapshot_id,
            is_branch=ref.snapshot_ref_type is SnapshotRefType.BRANCH,
            min_snapshots=ref.min_snapshots_to_keep,
            max_snapshot_age=ref.max_snapshot_age_ms,
            max_ref_age=ref.max_ref_age_ms,
        )
        for name, ref in table.metadata.refs.items()
    ]


def branch_lines(table: Table) -> list[list[SnapshotFact]]:
    """Return the snapshots of each branch, newest first."""
    return lines_of(snapshot_facts(table), ref_facts(table))
