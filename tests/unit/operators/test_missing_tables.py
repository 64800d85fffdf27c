"""A table that is not there is named with its connection, and with the tables that have such a name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

OPERATORS: dict[str, Callable[[str], Any]] = {
    "deletion": lambda name: LakeDeleteRowsOperator(task_id="t", table=name, where="id = 1"),
    "deletion by a table of keys": lambda name: LakeDeleteRowsOperator(
        task_id="t", table="shop.orders", keys_from=LakeTable(name), keys=["id"]
    ),
    "update": lambda name: LakeUpdateRowsOperator(task_id="t", table=name, where="id = 1", assignments={"id": "2"}),
    "compaction": lambda name: LakeCompactionOperator(task_id="t", table=name),
    "expiry": lambda name: LakeSnapshotExpiryOperator(task_id="t", table=name, older_than=timedelta(days=5)),
    "rollback": lambda name: LakeRollbackOperator(task_id="t", table=name, tag="before"),
    "publication": lambda name: LakePublishBranchOperator(task_id="t", table=name, branch="audit"),
    "tag": lambda name: LakeCreateTagOperator(task_id="t", table=name, tag="x"),
    "upgrade": lambda name: LakeTableUpgradeOperator(task_id="t", table=name),
    "incremental source": lambda name: LakeIncrementalOperator(
        task_id="t", target="mart.revenue", source=name, consumer="c", keys=["id"], query="SELECT * FROM changes"
    ),
}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_missing_table_is_named_with_those_of_such_a_name(
    lake_connection: str, context: Context, operator: str
) -> None:
    with pytest.raises(MissingTableError) as failed:
        OPERATORS[operator]("shop.ordrs").execute(context)
    for said in ("shop.ordrs", "did you mean shop.orders?", lake_connection):
        assert said in str(failed.value)


def test_where_no_name_is_alike_or_the_namespace_is_missing_the_error_says_what_to_do(
    orders: Table, lake_connection: str, context: Context
) -> None:
    for name in ("shop.zzz", "nowhere.orders"):
        with pytest.raises(MissingTableError, match="name a table of the catalog, or create it"):
            LakeDeleteRowsOperator(task_id="t", table=name, where="id = 1").execute(context)
    with pytest.raises(MissingTableError):
        LakeUpsertOperator(task_id="t", table="shop.zzz", source="a.csv", keys=["id"], create=False).execute(context)
