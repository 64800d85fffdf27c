"""Fixtures of operator tests: connections, tables, and the part of a task's context that operators read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.made_tables import register
from tests.unit.operators.run_of_tests import RUN_AFTER

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


@pytest.fixture
def context() -> Context:
    """The context of the second try of one task; ``outlet_events`` is the task runner's own class."""
    from airflow.sdk.execution_time.context import OutletEventAccessors

    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="task", map_index=-1, try_number=2, max_tries=3)
    found: Any = {
        "ti": ti,
        "dag_run": SimpleNamespace(run_after=RUN_AFTER, start_date=None, clear_number=0),
        "outlet_events": OutletEventAccessors(),
    }
    return found


@pytest.fixture
def pushed(context: Context) -> dict[str, Any]:
    """XCom that the task pushes, in the order in which it comes; not what it returns."""
    xcom: dict[str, Any] = {}
    context["ti"].xcom_push = lambda key, value: xcom.update({key: value})  # type: ignore[method-assign]  # of a stand-in
    return xcom


@pytest.fixture
def spark_connection(monkeypatch: pytest.MonkeyPatch) -> str:
    """Connection ``spark_default``: one machine; its id."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    return "spark_default"


@pytest.fixture
def job_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``[lake] job_directory``; drivers start without an archive."""
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", "off")
    monkeypatch.setenv("AIRFLOW__LAKE__JOB_DIRECTORY", str(tmp_path / "jobs"))
    return tmp_path / "jobs"


@pytest.fixture
def five(orders: Table, lake_catalog: SqlCatalog, append: Callable[..., int], tmp_path: Path) -> None:
    """Make tables that are due, well, empty, without garbage collection, and broken."""
    for number in range(8):
        append(orders, number)
    schema = orders.schema()
    append(lake_catalog.create_table("shop.well", schema), 1)
    lake_catalog.create_table("shop.empty", schema)
    append(lake_catalog.create_table("shop.nogc", schema, properties={"gc.enabled": "false"}), 1)
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": f"file://{tmp_path}/gone.metadata.json"})
