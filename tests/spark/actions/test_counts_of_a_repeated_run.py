"""A retry that finds its commit reports what that commit did, by every way in which rows are applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.upsert_flow import Flow, row

AUDITS = Audits(queries={"no negative n": "SELECT * FROM audited WHERE n < 0"})
V2 = TableLayout(properties={"format-version": "2"})
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("positions", {"strategy": UpsertStrategy.POSITIONS}),
    ("positions, version 2", {"strategy": UpsertStrategy.POSITIONS, "create": V2}),
    ("merge", {"strategy": UpsertStrategy.MERGE}),
    ("copy-on-write", {"strategy": UpsertStrategy.COPY_ON_WRITE}),
    ("equality", {"strategy": UpsertStrategy.EQUALITY, "create": V2}),
    ("positions, audited", {"strategy": UpsertStrategy.POSITIONS, "audits": AUDITS}),
    ("merge, audited", {"strategy": UpsertStrategy.MERGE, "audits": AUDITS}),
    ("on a branch", {"branch": "audit"}),
    ("each clearing anew", {"on_repeat": OnRepeat.APPLY}),
]


def counts(report: UpsertReport) -> tuple[int | None, ...]:
    rows = (report.rows_inserted, report.rows_updated, report.rows_deleted)
    return (*rows, report.batch_files, report.batch_rows, report.batch_keys)


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    made = Flow(spark, f"shop.counts{abs(hash(request.node.name)) % 10**9}", tmp_path / "in")
    made.arrive("1.jsonl", row(1, "a"), row(2, "b"), row(3, "c"))
    return made


@pytest.mark.parametrize("way", [way for _, way in WAYS], ids=[name for name, _ in WAYS])
def test_a_retry_counts_what_its_commit_did(flow: Flow, way: dict[str, Any]) -> None:
    flow.changes = {name: way[name] for name in ("create",) if name in way}
    first = flow.apply("run 1")
    assert counts(flow.apply("run 1")) == counts(first) == (3, 0, 0, 1, 3, 3)
    flow.arrive("2.jsonl", row(1, "a2", 7), row(2, "", op="d"), row(4, "d"), row(4, "d"))
    applied = flow.apply("run 2", **way)
    found = flow.apply("run 2", **way)
    assert (found.outcome, found.committed) == (Outcome.ALREADY_APPLIED, applied.committed)
    # A branch, and a clearing that applies everything, read the first file once more.
    updated = 2 if "branch" in way or "on_repeat" in way else 1
    expected = (None, None, None) if way.get("strategy") is UpsertStrategy.EQUALITY else (1, updated, 1)
    assert counts(found) == counts(applied)
    assert counts(applied)[:3] == expected
    assert f"in snapshot {applied.committed[0]}: " in found.reason


def test_a_run_whose_snapshot_has_expired_is_known_without_its_counts(flow: Flow) -> None:
    flow.changes = {"create": V2}
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(4, "d"))
    flow.apply("run 2")
    flow.loaded().maintenance.expire_snapshots().by_id(int(flow.loaded().metadata.snapshots[0].snapshot_id)).commit()
    flow.inbox.joinpath("2.jsonl").unlink()
    found = flow.apply("run 1")
    assert (found.outcome, found.committed, counts(found)) == (Outcome.ALREADY_APPLIED, (), (None,) * 6)
    assert any("expired" in warning for warning in found.warnings)
