"""Sums of a source of one's own, and a table that follows them."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param
from numbers_source import Numbers  # type: ignore[import-not-found]  # Airflow finds it beside this file

from airflow_lake_provider import Aggregation
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

with DAG(dag_id="numbers", schedule=None, params={"counted": Param("a=1")}):
    # [START task]
    sums = LakeUpsertOperator(
        task_id="sums",
        table="numbers.sums",
        source=Numbers("{{ params.counted }}"),
        keys=["generator"],
        # "airflow dags test" gives each call a run of its own; a retry and a cleared task keep their identity.
        batch_id="{{ ds }}",
        merge_engine=Aggregation({"n": "sum"}),
        py_files=str(Path(__file__).with_name("numbers_source.py")),
    )
    # [END task]
    doubled = LakeIncrementalOperator(
        task_id="doubled",
        source="numbers.sums",
        target="numbers.doubled",
        consumer="doubled",
        keys=["generator"],
        query="SELECT generator, n * 2 AS n, _change_type FROM changes",
    )
    sums >> doubled
