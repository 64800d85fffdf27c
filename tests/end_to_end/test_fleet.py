"""The maintenance of a catalog's tables, healthy, due and broken ones, by one DAG through Airflow."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run

SCHEMA = pa.schema([("id", pa.int64())])
# A table, its number of commits, and its properties.
TABLES: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "raw.events": (8, {}),
    "raw.v1": (8, {"format-version": "1"}),
    "raw.nogc": (8, {"gc.enabled": "false"}),
    "ops.lost_file": (8, {}),
    "ops.broken": (1, {}),
    "ops.empty": (0, {}),
    "mart.well": (1, {}),
}
COMPACTED = ("raw.events", "raw.v1", "raw.nogc")


@pytest.fixture(scope="module")
def tables(lake_home: Path) -> Catalog:
    """Eight entries of a catalog, one of them a view."""
    warehouse = f"file://{lake_home}/warehouse"
    catalog = load_catalog("lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db", warehouse=warehouse)
    made: dict[str, Table] = {}
    for name, (commits, properties) in TABLES.items():
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        table = made[name] = catalog.create_table(name, SCHEMA, properties=dict(properties))
        for number in range(commits):
            table.append(pa.table([[number]], schema=SCHEMA))
    lost = made["ops.lost_file"].inspect.files().to_pylist()[0]["file_path"]
    for gone in (lost, made["ops.broken"].metadata_location):
        Path(gone.removeprefix("file://")).unlink()
    with closing(sqlite3.connect(lake_home / "catalog.db")) as database, database:
        database.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
            "VALUES ('lake_default', 'mart', 'a_view', 'file:///nowhere.json', 'VIEW')"
        )
    return catalog


def night(environment: Mapping[str, str], *arguments: str) -> str:
    """Run the DAG once and return its output."""
    command = AirflowCommand({**environment, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}, dag_run("fleet", *arguments))
    command.process.wait(900)
    return command.output


def states(lake_home: Path) -> dict[str, str]:
    """Return the states of the newest run's instances, by task."""
    query = (
        "SELECT task_id, state FROM task_instance WHERE dag_id = 'fleet' AND run_id = "
        "(SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
    )
    with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as database:
        return dict(database.execute(query))


def label(lake_home: Path) -> str:
    """Return the label of the mapped instance."""
    query = "SELECT rendered_map_index FROM task_instance WHERE dag_id = 'fleet' AND rendered_map_index LIKE '%done%'"
    with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as database:
        return str(next(each for (each,) in database.execute(query) if not each.startswith("maintenance")))


def reports(lake_home: Path) -> dict[str, Any]:
    query = "SELECT value FROM xcom WHERE key = 'return_value' AND dag_id = 'fleet' AND task_id = 'nightly.run'"
    with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as database:
        return {each["table"]: each for (value,) in database.execute(query) for each in json.loads(str(value))}


def remembered(catalog: Catalog) -> set[tuple[str, str, str]]:
    """Return what the history has of the tables."""
    rows = catalog.load_table("lake_ops.maintenance_history").scan().to_arrow().to_pylist()
    return {(row["table_name"], row["action"], row["outcome"]) for row in rows}


def test_a_night_maintains_what_is_due_by_one_start_of_spark_and_is_red_for_broken_tables_alone(
    migrated: Mapping[str, str], lake_home: Path, tables: Catalog
) -> None:
    output = night(migrated)
    assert states(lake_home) == {"nightly.plan": "success", "nightly.run": "success", "nightly.verdict": "failed"}
    assert output.count("Spark's own log:") == 1, output[-8000:]
    assert {name: each["outcome"] for name, each in reports(lake_home).items()} == {
        **dict.fromkeys(COMPACTED, "done"),
        "ops.lost_file": "failed",
    }
    assert label(lake_home) == "ops.lost_file, raw.events, raw.nogc, raw.v1: 1 failed, 3 done"
    for name in COMPACTED:
        table = tables.load_table(name)
        assert table.inspect.files().num_rows == 1
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(8))
    verdict = next(line for line in output.splitlines() if "AirflowFailException: " in line)
    assert "3 done, 2 unsupported, 2 failed" in verdict
    assert "plan of ops.broken: BrokenMetadataError" in verdict
    assert "compaction of ops.lost_file: " in verdict

    # All of it is remembered, and no lease is left.
    assert remembered(tables) == {
        *((name, "compaction", "done") for name in COMPACTED),
        ("ops.lost_file", "compaction", "failed"),
        ("ops.broken", "plan", "failed"),
        ("raw.nogc", "snapshot-expiry", "unsupported"),
        ("mart.a_view", "plan", "unsupported"),
    }
    assert tables.load_table("lake_ops.maintenance_leases").scan().count() == 0

    # Nothing is due: Airflow skips the jobs, no Spark is started, and the broken table is red as before.
    again = night(migrated, "--conf", json.dumps({"tables": "ops.broken"}))
    assert states(lake_home) == {"nightly.plan": "success", "nightly.run": "skipped", "nightly.verdict": "failed"}
    assert "Spark's own log:" not in again
    assert "1 failed: plan of ops.broken: BrokenMetadataError" in again

    healthy = night(migrated, "--conf", json.dumps({"tables": "mart.*"}))
    assert states(lake_home) == {"nightly.plan": "success", "nightly.run": "skipped", "nightly.verdict": "success"}
    # A view is said, and red for nobody.
    assert "1 unsupported" in healthy
