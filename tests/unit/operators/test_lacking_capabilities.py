"""A capability that a table's format lacks is refused on the worker: no catalog is asked and no Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


@pytest.mark.parametrize(
    ("operator", "lacking"),
    [
        (lambda: LakeCompactionOperator(task_id="t", table="shop.orders"), "compaction"),
        (
            lambda: LakeUpsertOperator(
                task_id="t", table="shop.orders", source="a.csv", keys=["id"], merge_engine="first-row"
            ),
            "merge-first-row",
        ),
        (
            lambda: LakeIncrementalOperator(
                task_id="t", target="mart.x", source="shop.x", consumer="c", keys=["id"], query="SELECT * FROM changes"
            ),
            "read-changes",
        ),
    ],
    ids=["compaction", "upsert", "incremental"],
)
def test_an_operator_refuses_what_the_format_lacks_before_it_asks_the_catalog(
    tiny_connection: str, context: Context, operator: Any, lacking: str
) -> None:
    # Neither catalog nor Spark connection exists.
    with pytest.raises(UnsupportedError, match=f"table format 'tiny' lacks '{lacking}'"):
        operator().execute(context)


def test_of_several_tasks_that_one_is_refused_which_the_format_cannot_do(
    tiny_connection: str, context: Context
) -> None:
    operator = LakeApplicationOperator(
        task_id="t",
        tasks=[
            {"action": "compaction", "table": "shop.orders"},
            {"action": "upsert", "table": "shop.orders", "source": "a.csv", "keys": ["id"]},
        ],
    )
    compaction, upsert = operator.table_tasks(context)
    assert isinstance(compaction.error, UnsupportedError)
    assert upsert.error is None
    assert upsert.sent.table_format == "tiny"
