"""Operators that change rows of one table, as short as a DAG has them."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator


def upsert(**arguments: Any) -> LakeUpsertOperator:
    given = {"task_id": "t", "table": "shop.orders", "source": "in/*.parquet", "keys": ["id"]}
    return LakeUpsertOperator(**{**given, **arguments})


def delete(**arguments: Any) -> LakeDeleteRowsOperator:
    return LakeDeleteRowsOperator(**{"task_id": "t", "table": "shop.orders", "where": "id = 3", **arguments})


def update_rows(**arguments: Any) -> LakeUpdateRowsOperator:
    given = {"task_id": "t", "table": "shop.orders", "where": "id = 3", "assignments": {"n": "n + 1"}}
    return LakeUpdateRowsOperator(**{**given, **arguments})
