"""XCom in a database of Airflow's own models, as the execution API stores what tasks push."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import uuid4

from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import URL, Engine, create_engine, insert, select, text
from sqlalchemy.orm import Session


def metadata_database(url: URL | str) -> Engine:
    """Make the tables of Airflow's models.

    :param url: of an empty database.
    """
    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    return engine


def store_instance(
    session: Session, dag_id: str, run_id: str, task_id: str, at: datetime, state: str = "success"
) -> int:
    """Add a task instance, and its run where it is missing; return the number of the run.

    :param at: moment at which it ended.
    """
    number = session.scalar(select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if number is None:
        row = {"dag_id": dag_id, "run_id": run_id, "run_type": "manual", "run_after": at, "logical_date": None}
        session.execute(insert(DagRun).values(**row))
        number = session.scalar(select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    of_task = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": -1}
    session.execute(insert(TaskInstance).values(id=uuid4(), pool="default_pool", state=state, end_date=at, **of_task))
    assert number is not None
    return number


def store_xcom(
    session: Session,
    dag_id: str,
    run_id: str,
    task_id: str,
    entries: Iterable[tuple[str, Any]],
    at: datetime,
    state: str = "success",
) -> None:
    """Add what one task has pushed.

    :param entries: keys and values.
    :param at: moment at which the task ended.
    """
    number = store_instance(session, dag_id, run_id, task_id, at, state)
    for key, value in entries:
        of_task = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": -1}
        # By JSON and back, as it goes through the execution API.
        session.execute(
            insert(XComModel).values(
                dag_run_id=number, key=key, value=json.loads(json.dumps(value)), timestamp=at, **of_task
            )
        )
    session.commit()


def break_value(session: Session, key: str, written: str) -> None:
    """Write another text in place of the values of a key, whether it is JSON or not."""
    session.execute(text("update xcom set value = :written where key = :key"), {"written": written, "key": key})
    session.commit()
