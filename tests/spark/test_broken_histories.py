"""Drivers refuse a table whose history goes in a circle: Iceberg's own walks would never end on it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BrokenMetadataError, RangeUnavailableError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.spark.upsert_flow import Flow, row

# A session that is busy takes a few; a walk that does not end takes for ever.
_SECONDS = 20
NOW = datetime.now(UTC)


def spec(kind: type[JobSpec], table: str, **arguments: Any) -> Any:
    return kind(catalog="lake_default", table=table, run=RunIdentity.of(f"{kind.__name__} {arguments}"), **arguments)


def of_table(table: str, first: str, head: str) -> dict[str, JobSpec]:
    """Return a spec of each kind that reads or writes a table, but for upserts."""
    changes = {"source": table, "consumer": "c", "keys": ("id",), "source_keys": ("id",), "query": "TABLE changes"}
    expiry, ends = SnapshotExpirySpec, {"from_snapshot": first, "to_snapshot": head}
    return {
        "expiry": spec(expiry, table, expire_before=NOW, expire_stage_branches_before=NOW, retain_last=1),
        "compaction": spec(CompactionSpec, table, level=CompactionLevel.FULL),
        "deletion": spec(DeleteRowsSpec, table, where="id = 1"),
        "update": spec(UpdateRowsSpec, table, assignments={"n": "7"}, where="id = 1"),
        "incremental run": spec(IncrementalSpec, f"{table}_target", **ends, **changes),
        "full refresh": spec(IncrementalSpec, f"{table}_other", to_snapshot=head, full_refresh=True, **changes),
    }


def tamper(flow: Flow, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Let the catalog name a copy of the metadata with other snapshots."""
    table = flow.loaded()
    path = Path(table.metadata_location.removeprefix("file:").replace("//", "/"))
    metadata = json.loads(path.read_text())
    change(metadata["snapshots"])
    changed = path.with_name(f"9{path.name}")
    changed.write_text(json.dumps(metadata))
    database = str(flow.catalog().properties["uri"]).removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
            (f"file://{changed}", flow.table.split(".")[-1]),
        )
    flow.spark.sql(f"REFRESH TABLE {flow.table}")


BROKEN: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "its own parent": lambda s: s[-1].update({"parent-snapshot-id": s[-1]["snapshot-id"]}),
    "a circle of all": lambda s: s[0].update({"parent-snapshot-id": s[-1]["snapshot-id"]}),
    "a far time": lambda s: s[0].update({"timestamp-ms": 2**62}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_action_refuses_a_history_that_no_writer_makes(name: str, flow: Flow) -> None:
    for number in (1, 2):
        flow.arrive(f"{number}.jsonl", row(number, "a", number))
        flow.apply(f"run {number}")
    first, head = (str(snapshot.snapshot_id) for snapshot in flow.loaded().metadata.snapshots)
    tamper(flow, BROKEN[name])
    flow.arrive("3.jsonl", row(3, "a", 3))
    begin = time.monotonic()
    with pytest.raises(BrokenMetadataError, match=flow.table) as refused:
        flow.apply("run 3")
    assert not refused.value.retry_may_help
    for action in of_table(flow.table, first, head).values():
        with pytest.raises(BrokenMetadataError, match=flow.table):
            dispatch_action(flow.spark, action, Progress())
    assert time.monotonic() - begin < _SECONDS


def test_changes_of_files_that_a_writer_gave_no_row_ids_are_refused(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1", create=TableLayout(properties={"format-version": "2"}))
    flow.spark.sql(f"UPDATE {flow.table} SET name = 'b' WHERE id = 2")
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")
    # As a writer leaves it that counts rows in the metadata, and assigns no ids in the manifest list.
    tamper(flow, lambda s: [each.update({"first-row-id": 0, "added-rows": 2}) for each in s])
    first, head = (str(snapshot.snapshot_id) for snapshot in flow.loaded().metadata.snapshots)
    with pytest.raises(RangeUnavailableError, match=r"data files of the range, such as .*parquet, have no row ids"):
        read_changes(flow.spark, flow.table, first, head, keys=["id"])
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (3, 'c', 0)")
    with_ids = flow.head()
    flow.spark.sql(f"UPDATE {flow.table} SET name = 'd' WHERE id = 1")
    changes = read_changes(flow.spark, flow.table, with_ids, None, keys=["id"]).collect()
    assert [(each["id"], each["name"]) for each in changes] == [(1, "d")]
