"""The DAG of the page's button, from a real database: a run that would do something else is not offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from sqlalchemy.orm import Session

from airflow_lake_provider.plugins.lake_page.routes import refusal_of
from tests.stored_dags import store_dag

FOLDER = Path(__file__).parents[3] / "dags"


def dag_of(**params: Any) -> DAG:
    with DAG("maintain", schedule=None, params=params) as dag:
        EmptyOperator(task_id="t")
    return dag


def refusals(session: Session, *conn_ids: str) -> dict[str, bool]:
    return {each: bool(refusal_of("maintain", each, session)) for each in conn_ids}


def test_the_dag_of_the_examples_maintains_tables_of_the_connection_that_it_names(session: Session) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag: Any = DagBag(dag_folder=FOLDER, collect_dags=False)
    bag.process_file(str(FOLDER / "maintain_one_table.py"))
    store_dag(session, bag.dags["maintain_one_table"])
    assert refusal_of("maintain_one_table", "lake_default", session) == ""
    assert "lake_eu" in refusal_of("maintain_one_table", "lake_eu", session)


def test_a_dag_that_takes_no_connection_maintains_no_table_as_nobody_knows_of_which_catalog(session: Session) -> None:
    store_dag(session, dag_of(table="a.b"))
    assert refusals(session, "lake_default", "lake_eu") == {"lake_default": True, "lake_eu": True}
    assert "no param lake_conn_id" in refusal_of("maintain", "lake_eu", session)


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        ({"enum": ["lake_default", "lake_eu"]}, ["lake", "lake_us"]),
        ({"type": "string", "pattern": "^lake_(eu|default)$"}, ["lake", "lake_us"]),
        ({"type": "string"}, []),
    ],
    ids=["enum", "pattern", "any"],
)
def test_a_connection_is_taken_where_the_param_takes_it(
    session: Session, schema: dict[str, Any], refused: list[str]
) -> None:
    store_dag(session, dag_of(lake_conn_id=Param("lake_default", **schema)))
    asked = ("lake", "lake_default", "lake_eu", "lake_us")
    assert refusals(session, *asked) == {each: each in refused for each in asked}


def test_the_newest_version_of_the_dag_counts(session: Session) -> None:
    for conn_id in ("lake_us", "lake_eu"):
        store_dag(session, dag_of(lake_conn_id=Param(conn_id, enum=[conn_id])))
    assert refusals(session, "lake_us", "lake_eu") == {"lake_us": True, "lake_eu": False}


def test_a_run_of_a_paused_dag_would_wait_without_a_word(session: Session) -> None:
    dag = dag_of(lake_conn_id=Param("lake_default", type="string"))
    store_dag(session, dag, is_paused=True)
    assert "is paused" in refusal_of("maintain", "lake_default", session)
    store_dag(session, dag)
    assert refusal_of("maintain", "lake_default", session) == ""


def test_a_dag_that_another_version_of_airflow_has_stored_takes_nothing(session: Session) -> None:
    from sqlalchemy import text

    store_dag(session, dag_of(lake_conn_id=Param("lake_default", type="string")))
    session.execute(text("update serialized_dag set data = '{}', data_compressed = null"))
    session.commit()
    assert "cannot be read" in refusal_of("maintain", "lake_default", session)
