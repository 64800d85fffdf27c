"""Plans that follow from numbers of a table, and what a test says of them in short."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.maintenance.health import DeleteDebt, FileSizes, ManifestSizes, OrphanCount, TableHealth
from airflow_lake_provider.maintenance.history import SnapshotAges
from airflow_lake_provider.maintenance.hot_partitions import HotPartition
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import plan_of

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
MIB = 1024**2
GIB = 1024**3
FILES = FileSizes(
    target_bytes=512 * MIB,
    data_files=100,
    data_bytes=40 * GIB,
    small_files=10,
    small_bytes=100 * MIB,
    mergeable_files=0,
    mergeable_in_groups=0,
)
NO_DELETES = DeleteDebt(delete_files=0, deleted_rows=0, deleted_share=0.0, equality_deletes=0, dangling_files=0)
WELL = TableHealth(
    table="shop.orders",
    read_at=NOW,
    score=100,
    format_version=2,
    snapshot="7",
    manifests_read=True,
    files=FILES,
    deletes=NO_DELETES,
    manifests=ManifestSizes(manifests=3, bytes=3000, mergeable=2),
    snapshots=SnapshotAges(snapshots=5, expirable=0),
)
SMALL = replace(FILES, small_files=60, mergeable_files=50, mergeable_in_groups=50, small_bytes=600 * MIB)
AGED: dict[str, Any] = {"row_expiry": {"column": "day", "keep": "P30D"}}
MANY = ManifestSizes(manifests=90, bytes=9000, mergeable=89, overlap=0.9)
VECTORS = DeleteDebt(delete_files=20, deleted_rows=900, vector_deletes=900, deleted_share=0.3, equality_deletes=0)


def hot(partition: str = "day=1", minutes: int = 5, **given: Any) -> HotPartition:
    return HotPartition(partition=partition, commits=3, newest=NOW - timedelta(minutes=minutes), **given)


def counted(days: int) -> OrphanCount:
    return OrphanCount(files=1, bytes=1, counted_at=NOW - timedelta(days=days))


COUNTS = {"orphans": {"mode": "dry-run"}}


def policy(**given: Any) -> MaintenancePolicy:
    return MaintenancePolicy.from_mapping(given, "policy")


def plan(health: TableHealth, **given: Any) -> TablePlan:
    return plan_of(health, policy(**given), NOW)


def in_short(plan: TablePlan) -> list[str]:
    """Return each action with its level and the names of its reasons."""
    return [
        " ".join(filter(None, (each.action, each.level, *(reason.name for reason in each.reasons))))
        for each in plan.actions
    ]


def left_out(plan: TablePlan, action: str) -> str:
    (only,) = [each for each in plan.not_planned if each.action == action]
    return f"{only.why} {only.instead}"


EVERYTHING: dict[str, Any] = {
    "files": SMALL,
    "deletes": VECTORS,
    "snapshots": SnapshotAges(snapshots=90, expirable=80),
    "manifests": MANY,
}
