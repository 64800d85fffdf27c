"""Sums of a source of one's own, and a table that follows them by asset event."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from numbers_source import Numbers  # type: ignore[import-not-found]  # Airflow finds it beside this file

from airflow_lake_provider import Aggregation
from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

SUMS = lake_table_asset("numbers.sums")
TWO_TRIES = {"retries": 1, "retry_delay": timedelta(seconds=1)}

with DAG(dag_id="numbers", schedule=None, params={"counted": Param("a=1")}, default_args=TWO_TRIES):
    # [START task]
    sums = LakeUpsertOperator(
        task_id="sums",
        table="numbers.sums",
        source=Numbers("{{ params.counted }}"),
        keys=["generator"],
        merge_engine=Aggregation({"n": "sum"}),
        py_files=str(Path(__file__).with_name("numbers_source.py")),
        outlets=[SUMS],
    )
    # [END task]

with DAG(dag_id="doubled_numbers", schedule=[SUMS], is_paused_upon_creation=False):
    doubled = LakeIncrementalOperator(
        task_id="doubled",
        source="numbers.sums",
        target="numbers.doubled",
        consumer="doubled",
        keys=["generator"],
        query="SELECT generator, n * 2 AS n, _change_type FROM changes",
    )
