"""An instance of a mapped task has a table of its own where it is mapped over tables, by their author's name."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

INCREMENTAL: dict[str, Any] = {
    "source": "shop.orders",
    "consumer": "c",
    "keys": ["id"],
    "query": "SELECT * FROM changes",
}


@pytest.mark.parametrize(
    ("given", "mapped", "is_own"),
    [
        ({"target": "shop.revenue"}, {"lake_conn_id": ["a", "b"]}, False),
        ({}, {"target": ["shop.revenue", "shop.costs"]}, True),
        ({}, [{"target": "shop.revenue"}, {"target": "shop.costs"}], True),
        ({"target": "shop.revenue"}, [{"lake_conn_id": "a"}, {"lake_conn_id": "b"}], False),
    ],
)
def test_the_table_of_an_increment_is_its_target(given: dict[str, Any], mapped: Any, is_own: bool) -> None:
    with DAG("mapped", schedule=None):
        begun = LakeIncrementalOperator.partial(task_id="t", **INCREMENTAL, **given)
        of_all: Any = begun.expand(**mapped) if isinstance(mapped, dict) else begun.expand_kwargs(mapped)
    first = {name: values[0] for name, values in mapped.items()} if isinstance(mapped, dict) else mapped[0]
    assert of_all.unmap(first).has_own_tables is is_own


def test_a_table_that_default_args_name_is_one_of_all_instances() -> None:
    with DAG("mapped", schedule=None, default_args={"table": "shop.orders"}):
        of_all: Any = LakeUpsertOperator.partial(task_id="t", keys=["id"]).expand(source=["a.csv", "b.csv"])
    assert not of_all.unmap({"source": "a.csv"}).has_own_tables
