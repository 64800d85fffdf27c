"""The DAG that the page's button triggers: whether a run of it would maintain the table of the page."""

from __future__ import annotations

from copy import copy

from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy.orm import Session

# Param by which a run gets the connection of the table's catalog.
CONNECTION = "lake_conn_id"


def refusal_of(dag_id: str, conn_id: str, session: Session) -> str:
    """Return why a run of the DAG is not offered for a table, as a sentence; empty where it is.

    Airflow takes a value that is no param of a DAG, and such a run would maintain a table of another catalog.

    :param dag_id: of a DAG that is there.
    :param conn_id: connection of the table's catalog.
    :param session: of Airflow's database.
    """
    try:
        dag = SerializedDagModel.get_dag(dag_id, session=session)
    # Whatever Airflow raises for what another version of it has stored.
    except Exception:  # noqa: BLE001
        dag = None
    if dag is None:
        return f"DAG {dag_id} cannot be read, so nobody knows which connections it takes."
    if CONNECTION not in dag.params:
        return f"DAG {dag_id} has no param {CONNECTION}, so a run may maintain a table of another catalog."
    param = copy(dag.params.get_param(CONNECTION))
    param.value = conn_id
    if param.resolve() != conn_id:
        return f"The param {CONNECTION} of DAG {dag_id} does not take {conn_id}."
    row = session.get(DagModel, dag_id)
    return f"DAG {dag_id} is paused, so a run would wait until somebody unpauses it." if row and row.is_paused else ""
