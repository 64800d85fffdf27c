"""One run on a cluster of workers: what it tells lineage and links, and that no secret is seen anywhere.

Looked at are command lines, logs, XCom, templates, Spark's environment and events, and OpenLineage's events.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run
from tests.end_to_end.secret_watch import SecretWatch, assert_no_secret_was_seen, new_mark, pages_at
from tests.shop_oracle import SHOP


def test_no_secret_of_the_connection_is_seen_anywhere_and_a_cluster_of_workers_runs_the_job(
    migrated: Mapping[str, str], lake_home: Path, unused_tcp_port: int
) -> None:
    inbox, events, jobs = lake_home / "secret-inbox", lake_home / "spark-events", lake_home / "secret-jobs"
    told = lake_home / "lineage"
    for folder in (inbox, events, jobs, told):
        folder.mkdir()
    shutil.copy(SHOP / "part-1.jsonl.gz", inbox)
    lake = json.loads(migrated["AIRFLOW_CONN_LAKE_DEFAULT"])
    mark = new_mark()
    secrets = {"s3.secret-access-key": f"{mark}secret", "s3.access-key-id": f"{mark}key-id"}
    lake["extra"] = {**lake["extra"], **secrets, "warehouse": f"file://{lake_home}/secret-warehouse"}
    defaults = lake_home / "spark-conf"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text(
        f"spark.ui.enabled true\nspark.ui.port {unused_tcp_port}\nspark.driver.bindAddress 127.0.0.1\n"
        "spark.driver.host 127.0.0.1\nspark.executor.memory 1g\n"
    )
    environment = {
        **migrated,
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW_VAR_SHOP_INBOX": str(inbox),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(lake),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {
                "conn_type": "spark",
                "host": "local-cluster[2,1,1024]",
                "extra": {"spark_history_url": f"https://airflow:{mark}history@history.example.com/"},
            }
        ),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(told / "events.jsonl"), "append": True}
        ),
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(jobs),
        "SPARK_EVENTS": f"file://{events}",
        "SPARK_CONF_DIR": str(defaults),
    }
    with SecretWatch(mark, jobs, partial(pages_at, unused_tcp_port)) as watch:
        output = AirflowCommand(environment, dag_run("products_once")).wait()

    assert "[lake] commit" in output
    assert_sparks_own_lines_are_in_a_file(output, Path(migrated["AIRFLOW_HOME"]))
    assert any("spark.sql.catalog.lake_default.s3.secret-access-key" in page for page in watch.environments)
    assert_no_secret_was_seen(watch, output, events, [Path(migrated["AIRFLOW_HOME"]), told])
    assert_lineage_is_told(told / "events.jsonl", lake_home)
    assert_the_application_is_linked(Path(migrated["AIRFLOW_HOME"]), events)


def assert_sparks_own_lines_are_in_a_file(output: str, airflow_home: Path) -> None:
    """Look for lines that each driver of Spark begins with; secrets are looked for in all of the home."""
    (own,) = (airflow_home / "logs" / "lake_spark").rglob("*.log")
    assert f"Spark's own log: {own} on " in output
    assert "INFO SparkContext: Running Spark version" in own.read_text()
    assert "INFO SparkContext" not in output
    assert "log4j" not in output
    assert " has been deprecated in Spark" not in own.read_text() + output


def assert_lineage_is_told(file: Path, lake_home: Path) -> None:
    """Compare the event of the task's end with the table as PyIceberg reads it."""
    found = [json.loads(line) for line in file.read_text().splitlines()]
    (ended,) = (e for e in found if e["eventType"] == "COMPLETE" and e["job"]["name"] == "products_once.products")
    (read,), (written,) = ended["inputs"], ended["outputs"]
    catalog = SqlCatalog("lake_default", uri=f"sqlite:///{lake_home}/catalog.db")
    table = catalog.load_table("shop.products")
    catalog.close()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rows = table.scan().to_arrow().num_rows
    assert (read["namespace"], read["name"]) == ("file", f"{lake_home}/secret-inbox")
    assert read["inputFacets"]["inputStatistics"]["fileCount"] == 1
    assert (written["namespace"], written["name"]) == ("file", table.location().removeprefix("file://"))
    assert written["facets"]["version"]["datasetVersion"] == str(snapshot.snapshot_id)
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == rows > 0
    columns = [field.name for field in table.schema().fields]
    assert [field["name"] for field in written["facets"]["schema"]["fields"]] == columns


def assert_the_application_is_linked(airflow_home: Path, events: Path) -> None:
    """Compare the link with the name of Spark's event log; the address of the driver's pages was there before."""
    (application,) = {log.name.removeprefix("eventlog_v2_") for log in events.iterdir()}
    connection = sqlite3.connect(airflow_home / "airflow.db")
    links = dict(connection.execute("SELECT key, value FROM xcom WHERE key LIKE '\\_link\\_%' ESCAPE '\\'").fetchall())
    connection.close()
    assert json.loads(links["_link_SparkApplicationLink"]) == f"https://history.example.com/history/{application}"
    assert json.loads(links["_link_YarnApplicationLink"]) == ""
