"""A rollback says what it cannot move back, and is refused where it could leave a batch out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import ForgottenRunError, UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec
from airflow_lake_provider.planning.metadata_changes import PlannedChange
from airflow_lake_provider.planning.rollback_plan import plan_rollback
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

Append = Callable[..., int]


def plan(table: Table, snapshot: int, run: RunIdentity | None = None) -> PlannedChange:
    run = run or RunIdentity.of("run")
    spec = RollbackSpec(catalog="lake", table="shop.orders", run=run, snapshot_id=str(snapshot))
    return plan_rollback(LoadedIcebergTable(table.refresh()), spec)


def set_properties(table: Table, **properties: str) -> None:
    table.transaction().set_properties(properties).commit_transaction()
    table.refresh()


def test_what_is_kept_outside_of_the_table_is_warned_of(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    position = '{"generation":1,"side_file":["file:///nowhere/_lake-position-s-1.bin",300]}'
    set_properties(orders, **{"lake.position.s": position, "lake.source-epoch.s": "1"})
    append(orders, 2)
    lost_list, deleted_keys = plan(orders, first).report.warnings
    assert "the list of files that source s had consumed is gone" in lost_list
    assert deleted_keys.startswith("shop.orders__deleted_keys is a table of its own and was not rolled back")


def test_a_position_that_nobody_can_tell_any_more_refuses_the_rollback(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    rows = pa.table({"id": pa.array([2], pa.int64())})
    orders.append(rows, snapshot_properties={"lake.source-position": "s=3"})
    set_properties(orders, **{"lake.position.s": '{"generation":3}'})
    # Earlier versions tell it.
    assert plan(orders, first).report.source_positions == {"s": 0}
    for entry in orders.metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    with pytest.raises(
        UnsupportedError, match=r"shop\.orders: what source s had applied at that snapshot is not known"
    ):
        plan(orders, first)


def test_a_rollback_needs_a_snapshot_to_go_back_from(orders: Table) -> None:
    with pytest.raises(UnsupportedError, match="snapshot 1 that was named is not in the table's metadata"):
        plan(orders, 1)


def test_a_retry_of_which_the_table_may_have_forgotten_the_first_try_takes_no_later_commit_away(
    orders: Table, append: Append
) -> None:
    first, _ = append(orders, 1), append(orders, 2)
    then = datetime(2026, 1, 1, tzinfo=UTC)
    set_properties(orders, **{"lake.run-keys-dropped-before": str(int(then.timestamp()))})
    tries = [RunIdentity.of("run", try_number=number, run_after=then) for number in (1, 2)]
    with pytest.raises(ForgottenRunError, match="Check the rows, then clear the task again"):
        plan(orders, first, tries[1])
    assert plan(orders, first, tries[0]).change is not None
