"""Author objects through Airflow itself: its parser, serializer, renderer, XCom and the content of the Rendered tab."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run

Specs = Mapping[tuple[str, int], Any]


@pytest.fixture(scope="module")
def database(migrated: Mapping[str, str], lake_home: Path) -> Iterator[sqlite3.Connection]:
    """Airflow's database after a run of the DAG."""
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}
    AirflowCommand(environment, dag_run("author_objects")).wait()
    connection = sqlite3.connect(lake_home / "airflow" / "airflow.db")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def specs(database: sqlite3.Connection) -> Specs:
    """Specs by task and map index, as the tasks returned them."""
    rows = database.execute("SELECT task_id, map_index, value FROM xcom WHERE key = 'return_value'")
    return {(task, index): json.loads(value) for task, index, value in rows}


@pytest.fixture(scope="module")
def rendered(database: sqlite3.Connection) -> Specs:
    """Texts of the Rendered tab, by task and map index."""
    rows = database.execute("SELECT task_id, map_index, rendered_fields FROM rendered_task_instance_fields")
    return {(task, index): json.loads(fields) for task, index, fields in rows}


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
