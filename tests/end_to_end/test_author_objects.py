"""Author objects and files of SQL through Airflow itself: its parser, serializer, renderer, XCom and Rendered tab."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scripts.airflow_process import AirflowProcess
from tests.end_to_end.airflow_command import DAGS, dag_run

Specs = Mapping[tuple[str, int], Any]
DAY = "day = '2026-11-23'"
REVENUE = f"-- Revenue of one day.\nSELECT * FROM source\nWHERE {DAY}"


AUTHOR_OBJECTS, SQL_FILES = "author_objects", "sql_files"


@pytest.fixture(scope="module")
def database(migrated: Mapping[str, str], lake_home: Path) -> Iterator[sqlite3.Connection]:
    """Airflow's database after a run of both DAGs."""
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}
    with closing(AirflowProcess(environment, lake_home / "airflow.log", print)) as airflow:
        for dag in (AUTHOR_OBJECTS, SQL_FILES):
            airflow.run(*dag_run(dag))
    with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as connection:
        yield connection


def specs_of(database: sqlite3.Connection, dag: str) -> Specs:
    """Return specs by task and map index, as the tasks returned them."""
    query = "SELECT task_id, map_index, value FROM xcom WHERE key = 'return_value' AND dag_id = ?"
    return {(task, index): json.loads(value) for task, index, value in database.execute(query, [dag])}


def rendered_of(database: sqlite3.Connection, dag: str) -> Specs:
    """Return texts of the Rendered tab, by task and map index."""
    query = "SELECT task_id, map_index, rendered_fields FROM rendered_task_instance_fields WHERE dag_id = ?"
    return {(task, index): json.loads(fields) for task, index, fields in database.execute(query, [dag])}


@pytest.fixture(scope="module")
def specs(database: sqlite3.Connection) -> Specs:
    return specs_of(database, AUTHOR_OBJECTS)


@pytest.fixture(scope="module")
def rendered(database: sqlite3.Connection) -> Specs:
    return rendered_of(database, AUTHOR_OBJECTS)


@pytest.fixture(scope="module")
def upstream(database: sqlite3.Connection) -> Mapping[str, set[str]]:
    """Upstream tasks by task, as the scheduler reads them."""
    (data,) = database.execute("SELECT data FROM serialized_dag WHERE dag_id = 'author_objects'").fetchone()
    tasks = [task["__var"] for task in json.loads(data)["dag"]["tasks"]]
    found: dict[str, set[str]] = {task["task_id"]: set() for task in tasks}
    for task in tasks:
        for downstream in task.get("downstream_task_ids", []):
            found[downstream].add(task["task_id"])
    return found


def test_texts_inside_of_objects_are_rendered_and_checked_again(specs: Specs) -> None:
    spec = specs["templated", -1]
    assert spec["source"]["sql"] == "SELECT * FROM source WHERE day = 'placed_at'"
    assert spec["source"]["over"]["path"] == "in/placed_at/*.csv"
    assert (spec["source"]["over"]["format"], spec["source"]["over"]["options"]["header"]) == ("csv", "True")
    assert spec["create"]["partition_by"] == ["days(placed_at)"]
    assert spec["create"]["target_file_size"] == 256 * 1024**2
    assert (spec["keys"], spec["order_by"]) == (["placed_at_id"], ["placed_at"])
    assert spec["merge_engine"]["sequence_groups"] == {"priced_at": ["price", "currency"]}
    assert spec["catalog"] == "lake_default"
    assert specs["chosen", -1]["merge_engine"]["type"] == "first-row"


def test_mapped_tasks_render_into_objects_of_their_own(specs: Specs) -> None:
    assert [specs["mapped", index]["source"]["path"] for index in (0, 1)] == [
        "in/placed_at/a.parquet",
        "in/placed_at/b.parquet",
    ]
    layouts = [specs["mapped", index]["create"] for index in (0, 1)]
    assert [layout["partition_by"] for layout in layouts] == [["days(placed_at)"]] * 2
    assert [layout["properties"] for layout in layouts] == [{"made.by": "0"}, {"made.by": "1"}]


def test_a_task_is_mapped_over_mappings_from_xcom_which_are_no_templates(specs: Specs) -> None:
    first, second = (specs["mapped_over_xcom", index]["source"] for index in (0, 1))
    assert (first["type"], first["path"]) == ("files", "in/{{ params.day }}.parquet")
    assert (second["type"], second["table"]) == ("debezium", "public.orders")


def test_a_reference_to_xcom_inside_of_an_object_is_resolved_and_sets_the_dependency(
    specs: Specs, upstream: Mapping[str, set[str]]
) -> None:
    assert specs["referring", -1]["source"]["over"]["path"] == "in/from-xcom.parquet"
    assert specs["mapped_referring", 0]["source"]["path"] == "in/from-xcom.parquet"
    assert specs["mapped_referring", 0]["create"]["partition_by"] == ["days(placed_at)"]
    assert upstream["referring"] == {"path"}
    assert upstream["mapped_referring"] == {"path", "columns"}
    assert upstream["mapped_over_xcom"] == {"sources"}
    assert upstream["templated"] == set()


def test_the_rendered_tab_shows_what_was_written_as_mappings_and_no_secret(rendered: Specs) -> None:
    shown = rendered["templated", -1]
    assert shown["source"] == {
        "type": "query",
        "sql": "SELECT * FROM source WHERE day = 'placed_at'",
        "over": {
            "type": "files",
            "path": "in/placed_at/*.csv",
            "options": {"header": "True", "fs.s3a.secret.key": "***"},
        },
    }
    assert shown["create"] == {"partition_by": ["days(placed_at)"], "target_file_size": "256MB"}
    assert shown["keys"] == ["placed_at_id"]
    assert rendered["mapped", 1]["source"] == {"type": "files", "path": "in/placed_at/b.parquet", "name": "b"}
    assert rendered["referring", -1]["source"]["over"]["path"] == "in/from-xcom.parquet"


def test_a_file_of_sql_is_read_rendered_and_checked_wherever_sql_is_given(
    database: sqlite3.Connection,
) -> None:
    specs = {task: spec for (task, _), spec in specs_of(database, SQL_FILES).items()}
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
    shown = {task: fields for (task, _), fields in rendered_of(database, SQL_FILES).items()}
    assert shown["objects"]["files"] == "day.sql"
    assert shown["objects"]["source"]["sql"] == REVENUE
    assert "day" not in json.dumps(shown["deletion"])
