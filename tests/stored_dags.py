"""DAGs in a database of Airflow's own models, as parsing their files stores them."""

from __future__ import annotations

from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
from sqlalchemy.orm import Session


def store_dag(session: Session, dag: Any, *, is_paused: bool = False) -> None:
    """Add a DAG and its newest version.

    :param dag: as a DAG file declares it.
    :param is_paused: whether its runs wait.
    """
    if session.get(DagBundleModel, "dags") is None:
        session.add(DagBundleModel(name="dags"))
    row: Any = DagModel
    session.merge(row(dag_id=dag.dag_id, bundle_name="dags", fileloc="/dags/x.py", is_stale=False, is_paused=is_paused))
    session.flush()
    SerializedDagModel.write_dag(
        LazyDeserializedDAG(data=DagSerialization.to_dict(dag)), bundle_name="dags", session=session
    )
    session.commit()
