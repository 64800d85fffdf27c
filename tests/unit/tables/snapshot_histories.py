"""Tables with made-up histories, one commit a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.tables.detect_new_snapshot import TableHead
from airflow_lake_provider.tables.watermark import Since

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
TOTALS = {"total-records": "100", "total-data-files": "3"}
SUMMARIES = {
    "append": {"operation": "append", "added-records": "10", "added-data-files": "1"},
    "delete": {"operation": "delete", "deleted-records": "4"},
    "upsert": {
        "operation": "overwrite",
        "added-records": "5",
        "added-position-deletes": "2",
        "added-delete-files": "1",
    },
    "vectors": {"operation": "delete", "added-position-deletes": "2"},
    "compaction": {"operation": "replace", "added-data-files": "1", "deleted-data-files": "9", "added-records": "90"},
    "our-compaction": {"operation": "overwrite", "lake.action": "compaction", "added-records": "90"},
    "empty-delta": {"operation": "overwrite", "changed-partition-count": "0"},
    "empty-append": {"operation": "append"},
}
SKIPPED_KINDS = ("compaction", "our-compaction", "empty-delta", "empty-append")
DATA_KINDS = ("append", "delete", "upsert", "vectors")


def record(snapshot_id: int, parent: int | None, kind: str) -> Snapshot:
    """Snapshot ``n`` is the n-th commit and was made n minutes after the start."""
    at = int((START + timedelta(minutes=snapshot_id)).timestamp() * 1000)
    summary = {**TOTALS, **SUMMARIES[kind]}
    before = None if parent is None else str(parent)
    return Snapshot(id=str(snapshot_id), parent=before, at=at, sequence_number=snapshot_id, summary=summary)


def chain(*kinds: str) -> TableHead:
    """A main branch whose commits are of these kinds, with ids 1, 2, 3, ..."""
    records = [record(n, n - 1 or None, kind) for n, kind in enumerate(kinds, start=1)]
    return TableHead(
        head=str(len(kinds)) if kinds else None,
        snapshots={r.id: r for r in records},
        log=tuple((r.at, r.id) for r in records),
    )


def expire(table: TableHead, *gone: int) -> TableHead:
    """As Iceberg does it: children keep the id of a parent that is gone."""
    ids = set(map(str, gone))
    return replace(
        table,
        snapshots={k: v for k, v in table.snapshots.items() if k not in ids},
        log=tuple(entry for entry in table.log if entry[1] not in ids),
    )


def expire_like_pyiceberg(table: TableHead, *gone: int) -> TableHead:
    """As PyIceberg does it: children of what is gone lose their parent id."""
    left, ids = expire(table, *gone), set(map(str, gone))
    orphaned = {k: replace(v, parent=None) if v.parent in ids else v for k, v in left.snapshots.items()}
    return replace(left, snapshots=orphaned)


def rolled_back(*kinds: str, to: int, then: str | None = None) -> TableHead:
    table = chain(*kinds)
    if then is None:
        return replace(table, head=str(to))
    new = record(len(kinds) + 1, to, then)
    return replace(table, head=new.id, snapshots={**table.snapshots, new.id: new})


def minutes(count: float) -> Since:
    return Since(time=START + timedelta(minutes=count))
