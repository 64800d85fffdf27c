"""Operators on real tables to which Flink writes: they keep what its jobs need, warn, or refuse by the job's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.iceberg.table_check import check_table
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from tests.table_facts import facts
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.table_maker import as_version_3

if TYPE_CHECKING:
    from airflow.sdk import Context

Append = Callable[..., int]
ORDERS: dict[str, Any] = {"task_id": "t", "table": "shop.orders", **NO_SPARK}
JOB = "85ab2c4b96efca796b01c7ded550c619"
NAMED = f"Flink job {JOB} \\(last commit less than an hour ago\\)"


def flink(table: Table, checkpoint: int, job: str = JOB, branch: str = "main", **summary: str) -> int:
    """Commit a row as a sink of Flink does."""
    properties = {
        "flink.job-id": job,
        "flink.operator-id": "f00",
        "flink.max-committed-checkpoint-id": str(checkpoint),
        **{name.replace("_", "-"): value for name, value in summary.items()},
    }
    rows = pa.table({"id": pa.array([checkpoint], pa.int64())})
    table.append(rows, snapshot_properties=properties, branch=branch)
    return table.metadata.refs[branch].snapshot_id


def rewritten(catalog: SqlCatalog, table: Table, change: Callable[[dict[str, Any]], None]) -> Table:
    """Return the table with other snapshots in its metadata."""
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    for snapshot in metadata["snapshots"]:
        change(snapshot)
    changed = path.with_name("changed.metadata.json")
    changed.write_text(json.dumps(metadata))
    catalog.drop_table("shop.orders")
    return catalog.register_table("shop.orders", f"file://{changed}")


def by_upsert(snapshot: dict[str, Any]) -> None:
    if "flink.job-id" in snapshot["summary"]:
        snapshot["summary"]["added-delete-files"] = "1"


def eight_days_older(snapshot: dict[str, Any]) -> None:
    snapshot["timestamp-ms"] -= 8 * 24 * 3_600_000


def expiry(**arguments: Any) -> LakeSnapshotExpiryOperator:
    everything = {"older_than": timedelta(microseconds=1), "minimum_age": timedelta(0), "dry_run": True}
    return LakeSnapshotExpiryOperator(**{**ORDERS, **everything, **arguments})


def verdict(table: Table, operator: str) -> tuple[bool, str]:
    return next((each.possible, each.reason) for each in check_table(facts(table), ["id"]) if each.operator == operator)


@pytest.fixture
def beside(orders: Table, append: Append) -> list[int]:
    """Snapshots of a table that Flink and others write in turn, oldest first."""
    return [append(orders, 90), flink(orders, 1), flink(orders, 2), append(orders, 91), append(orders, 92)]


def test_an_expiry_keeps_what_restores_a_job_and_says_so(orders: Table, beside: list[int], context: Context) -> None:
    report = expiry().execute(context)

    assert report["snapshots_expired"] == [str(beside[0]), str(beside[1])]
    assert report["kept_for_flink"] == {str(beside[2]): JOB, str(beside[3]): JOB}
    assert f"2 are kept so that Flink can restore jobs {JOB}" in report["reason"]
    told = verdict(orders.refresh(), "LakeSnapshotExpiryOperator")
    assert told == (True, f"keeps the snapshots from the last commit of {NAMED.replace(chr(92), '')} on")


@pytest.mark.usefixtures("orders")
def test_an_expiry_keeps_nothing_for_a_job_that_counts_as_gone(beside: list[int], context: Context) -> None:
    report = expiry(flink_jobs_older_than=timedelta(0)).execute(context)

    assert report["snapshots_expired"] == [str(id_) for id_ in beside[:-1]]
    assert report["kept_for_flink"] == {}


@pytest.mark.usefixtures("beside")
def test_seven_days_without_a_commit_make_a_job_gone(orders: Table, lake_catalog: SqlCatalog, context: Context) -> None:
    old = rewritten(lake_catalog, orders.refresh(), eight_days_older)

    assert expiry().execute(context)["kept_for_flink"] == {}
    assert expiry(flink_jobs_older_than=timedelta(days=9)).execute(context)["kept_for_flink"] != {}
    assert verdict(old, "LakeTableUpgradeOperator")[0] is True
    with pytest.raises(InvalidConnectionError):
        LakeTableUpgradeOperator(**ORDERS).execute(context)


@pytest.mark.usefixtures("beside")
def test_an_expiry_of_version_3_is_refused_by_the_name_of_a_job_that_upserts(
    orders: Table, lake_catalog: SqlCatalog, context: Context
) -> None:
    appended = as_version_3(lake_catalog, orders.refresh())
    assert expiry().execute(context)["warnings"] == []
    assert verdict(appended, "LakeSnapshotExpiryOperator")[0] is True

    upserted = rewritten(lake_catalog, appended, by_upsert)
    with pytest.raises(UnsupportedError, match=f"shop.orders: {NAMED} commits upserts to it"):
        expiry().execute(context)
    possible, why = verdict(upserted, "LakeSnapshotExpiryOperator")
    assert not possible
    assert "allow_other_writers=True" in why
    (warning,) = expiry(allow_other_writers=True).execute(context)["warnings"]
    assert JOB in warning
    assert expiry(flink_jobs_older_than=timedelta(0)).execute(context)["warnings"] == []
    assert expiry(retain_last=9).execute(context)["outcome"] == "nothing-due"


@pytest.mark.usefixtures("beside")
def test_upserts_into_version_2_are_in_no_expirys_way(
    orders: Table, lake_catalog: SqlCatalog, context: Context
) -> None:
    rewritten(lake_catalog, orders.refresh(), by_upsert)

    assert expiry().execute(context)["outcome"] == "planned"


@pytest.mark.usefixtures("beside")
def test_an_upgrade_to_version_3_is_refused_by_the_name_of_the_job(orders: Table, context: Context) -> None:
    with pytest.raises(UnsupportedError, match=f"shop.orders: {NAMED} writes to it"):
        LakeTableUpgradeOperator(**ORDERS).execute(context)
    assert LakeTableUpgradeOperator(format_version=2, **ORDERS).execute(context)["outcome"] == "nothing-due"
    # It goes on to Spark, which commits the upgrade.
    with pytest.raises(InvalidConnectionError):
        LakeTableUpgradeOperator(allow_other_writers=True, **ORDERS).execute(context)
    possible, why = verdict(orders.refresh(), "LakeTableUpgradeOperator")
    assert not possible
    assert JOB in why


ROLLBACKS = [(1, "start it without its state"), (2, "start it from checkpoint 1 or an earlier one"), (3, None)]


@pytest.mark.parametrize(("left", "said"), ROLLBACKS)
def test_a_rollback_names_the_job_whose_last_commit_main_loses(
    beside: list[int], context: Context, left: int, said: str | None
) -> None:
    warnings = LakeRollbackOperator(snapshot_id=beside[left - 1], **ORDERS).execute(context)["warnings"]

    assert len(warnings) == (said is not None)
    assert all(JOB in warning and str(said) in warning for warning in warnings)


@pytest.mark.parametrize("drops", [True, False])
def test_a_publication_that_drops_the_branch_of_a_job_names_the_job(
    orders: Table, append: Append, context: Context, drops: bool
) -> None:
    orders.manage_snapshots().create_branch(append(orders, 1), "load").commit()
    flink(orders, 2, branch="load")

    report = LakePublishBranchOperator(branch="load", drop_branch=drops, **ORDERS).execute(context)

    assert report["outcome"] == "done"
    assert [JOB in warning for warning in report["warnings"]] == ([True] if drops else [])


@pytest.mark.parametrize("age", ["P7D", timedelta(seconds=-1), 7, None])
def test_an_age_of_jobs_that_is_no_duration_is_refused(age: Any) -> None:
    with pytest.raises(InvalidSpecError, match="flink_jobs_older_than must be a timedelta of zero or more"):
        expiry(flink_jobs_older_than=age)
