"""Files of SQL through Airflow itself: they are found, rendered, checked again, and only where SQL is asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run

DAY = "day = '2026-11-23'"
REVENUE = f"-- Revenue of one day.\nSELECT * FROM source\nWHERE {DAY}"


def test_a_file_of_sql_is_read_rendered_and_checked_wherever_sql_is_given(
    migrated: Mapping[str, str], lake_home: Path
) -> None:
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}
    AirflowCommand(environment, dag_run("sql_files")).wait()
    specs = values(lake_home, "SELECT task_id, value FROM xcom WHERE key = 'return_value'")
    for task in ("objects", "mappings", "mapped"):
        assert specs[task]["source"]["sql"] == REVENUE, task
    assert specs["objects"]["audits"]["queries"] == {
        "other_days": "SELECT * FROM audited WHERE day <> '2026-11-23'",
        "none": "SELECT * FROM batch",
    }
    assert specs["mappings"]["audits"]["queries"] == {"other_days": "SELECT * FROM audited WHERE day <> '2026-11-23'"}
    assert [specs[task]["where"] for task in ("compaction", "update", "deletion")] == [DAY] * 3
    # Data and what a template made name no file; a path of Spark's files is none of ours.
    assert "must be one query, such as SELECT ..., got 'revenue.sql'" in specs["from_xcom"]["refused"]
    assert specs["rendered"]["where"] == "day.sql"
    assert "must be one query, such as SELECT" in specs["statement"]["refused"]
    assert "where: the file 'absent.sql' cannot be read" in specs["absent"]["refused"]
    assert str(DAGS / "sql") in specs["absent"]["refused"]
    shown = values(lake_home, "SELECT task_id, rendered_fields FROM rendered_task_instance_fields")
    assert shown["objects"]["files"] == "day.sql"
    assert shown["objects"]["source"]["sql"] == REVENUE
    assert "day" not in json.dumps(shown["deletion"])


def values(lake_home: Path, query: str) -> Mapping[str, Any]:
    """Return a column of JSON by task."""
    connection = sqlite3.connect(lake_home / "airflow" / "airflow.db")
    try:
        return {task: json.loads(value) for task, value in connection.execute(query)}
    finally:
        connection.close()
