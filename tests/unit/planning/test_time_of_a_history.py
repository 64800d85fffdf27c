"""The time of the newest batch of a history goes with main: back by a rollback, forward by a publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, PublishBranchSpec, RollbackSpec
from airflow_lake_provider.planning.metadata_changes import plan_publication
from airflow_lake_provider.planning.rollback_plan import plan_rollback
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

AT = "lake.history-at"
RUN: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("run")}


def apply(table: Table, number: int, day: int | None, branch: str = "main") -> None:
    """Add a row as a batch of a day does, or as a load without a time."""
    time = {} if day is None else {AT: f"2026-01-0{day}T00:00:00+00:00"}
    rows = pa.table({"id": pa.array([number], pa.int64())})
    with table.transaction() as transaction:
        transaction.append(rows, snapshot_properties=time, branch=branch)
        transaction.set_properties(time if branch == "main" else {})
    table.refresh()


def rolled_back(table: Table, place: int) -> MetadataChange:
    snapshot = table.metadata.snapshots[place].snapshot_id
    change = plan_rollback(LoadedIcebergTable(table), RollbackSpec(**RUN, snapshot_id=str(snapshot))).change
    assert change is not None
    return change


@pytest.mark.parametrize("is_logged", [True, False])
def test_a_rollback_brings_back_the_time_that_main_had(orders: Table, *, is_logged: bool) -> None:
    for number, day in enumerate((None, 1, None, 3)):
        apply(orders, number, day)
    for entry in orders.metadata.metadata_log if not is_logged else ():
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    assert rolled_back(orders, 2).set_properties[AT] == "2026-01-01T00:00:00+00:00"
    first = rolled_back(orders, 0)
    assert AT in first.removed_properties
    assert AT not in first.set_properties


def test_a_published_branch_brings_its_time_to_main(orders: Table) -> None:
    apply(orders, 1, 1)
    orders.manage_snapshots().create_branch(orders.metadata.current_snapshot_id or 0, "load").commit()
    orders.refresh()
    for number, day in ((2, 3), (3, None)):
        apply(orders, number, day, "load")
    change = plan_publication(LoadedIcebergTable(orders), PublishBranchSpec(**RUN, branch="load")).change
    assert change is not None
    assert change.set_properties[AT] == "2026-01-03T00:00:00+00:00"
