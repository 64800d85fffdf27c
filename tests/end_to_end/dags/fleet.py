"""A maintenance of all tables of a catalog, as an author writes it."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_lake_provider.operators.lake_maintenance import lake_maintenance

with DAG(dag_id="fleet", schedule=None, params={"tables": Param("*", type="string")}):
    lake_maintenance("nightly", tables="{{ params.tables }}")
