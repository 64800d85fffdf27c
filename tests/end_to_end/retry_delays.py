"""A DAG whose drivers fail, each with an error of its own: how long the retries of its tasks have to wait."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog

from airflow_lake_provider.contracts.reports.report_codec import EVERY_TASK, JobFailure, reports_to_json
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for

DAG_ID = "retry_delays"
# By table: what the driver says that works on it.
ERRORS = {"conflict": "CommitConflictError", "unknown": "UnknownOutcomeError", "outage": "CatalogUnavailableError"}
ERRORS |= {"refused": "BadInputError", "failed": "JobFailedError"}
DAG_FILE = """
from datetime import timedelta
from airflow.sdk import DAG, ExceptionRetryPolicy, RetryRule
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator

TABLES = ["delays.unknown", "delays.outage", "delays.refused"]
ALWAYS = ExceptionRetryPolicy([RetryRule(Exception, retry_delay=timedelta(hours=7))])
DEFERRED = {{"spark_conn_id": "yarn", "deferrable": True, "yarn_track_via_rm_api": True, "status_poll_interval": 5}}
COMMON = {{"retries": 2, "where": "id = 1", "report_location": {reports!r}, "spark_conn_id": "failing"}}
with DAG("retry_delays", schedule=None, default_args=COMMON):
    LakeDeleteRowsOperator(task_id="plain", table="delays.failed")
    LakeDeleteRowsOperator.partial(task_id="mapped").expand(table=["delays.conflict", "delays.refused"])
    LakeDeleteRowsOperator.partial(task_id="deferred", **DEFERRED).expand(table=TABLES)
    LakeDeleteRowsOperator(task_id="delay_of_author", table="delays.conflict", retry_delay=timedelta(hours=5))
    always = LakeDeleteRowsOperator.partial(task_id="policy_of_author", retry_policy=ALWAYS)
    always.expand(table=["delays.conflict", "delays.refused"])
"""
# In place of Spark: it leaves the report of a driver that has failed.
SPARK_SUBMIT = """#!{python}
import os, sys
table = sys.argv[sys.argv.index("--name") + 1].rpartition(".")[2]
with open(sys.argv[sys.argv.index("--report") + 1].removeprefix("file://"), "w") as report:
    report.write({reports!r}[table])
print(f"Submitted application application_1764000000000_{{os.getpid():07}}", flush=True)
"""
BINARY = {"spark-binary": "spark3-submit"}
MINUTE, HOUR = 60.0, 3600.0
MOST_RUNS = 4
# What Airflow writes of a task that it takes for lost.
LOST = ("state mismatch", "heartbeat timeout")
ENDS = ("up_for_retry", "failed", "success")
# By task and place in its expansion: state, and the seconds that a policy gives; None for the task's own delay.
EXPECTED: dict[tuple[str, int], tuple[str, float | None]] = {
    ("plain", -1): ("up_for_retry", None),
    ("mapped", 0): ("up_for_retry", MINUTE),
    ("mapped", 1): ("failed", None),
    ("deferred", 0): ("up_for_retry", 2 * MINUTE),
    ("deferred", 1): ("up_for_retry", 10 * MINUTE),
    ("deferred", 2): ("failed", None),
    ("delay_of_author", -1): ("up_for_retry", None),
    ("policy_of_author", 0): ("up_for_retry", 7 * HOUR),
    ("policy_of_author", 1): ("failed", None),
}


def prepare(folder: Path, dags: Path, on_yarn: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Write the DAG and the command that its tasks start in place of Spark, and return the environment for them.

    :param folder: empty folder for the command and the reports.
    :param dags: Airflow's folder of DAG files.
    :param on_yarn: Spark connection to a resource manager, as JSON.
    :param environment: of Airflow.
    """
    commands, reports = folder / "commands", folder / "reports"
    for made in (folder, commands, reports):
        made.mkdir()
    (dags / f"{DAG_ID}.py").write_text(DAG_FILE.format(reports=f"file://{reports}"))
    failures = {table: JobFailure(error=error, message=error, traceback="") for table, error in ERRORS.items()}
    said = {table: reports_to_json({EVERY_TASK: failure}) for table, failure in failures.items()}
    command = commands / BINARY["spark-binary"]
    command.write_text(SPARK_SUBMIT.format(python=sys.executable, reports=said))
    command.chmod(0o755)
    yarn = json.loads(on_yarn)
    return {
        "PATH": f"{commands}:{environment['PATH']}",
        "AIRFLOW_CONN_FAILING": json.dumps({"conn_type": "spark", "host": "local[2]", "extra": BINARY}),
        "AIRFLOW_CONN_YARN": json.dumps({**yarn, "extra": {**yarn["extra"], **BINARY}}),
    }


def make_tables(catalog: Catalog, folder: Path) -> None:
    """Make the tables that the tasks name, below a folder."""
    catalog.create_namespace_if_not_exists("delays")
    for name in ERRORS:
        table = catalog.create_table(f"delays.{name}", pa.schema([("id", pa.int64())]), f"file://{folder}/{name}")
        table.append(pa.table({"id": [1]}))


def _outcomes(home: Path, run: str) -> dict[tuple[str, int], tuple[str, float | None]]:
    """Return state and delay of each task of a run after its first try, as Airflow's database has them."""
    columns = "SELECT task_id, map_index, state, retry_delay_override FROM task_instance"
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        found = database.execute(f"{columns} WHERE try_number = 1 AND run_id = ?", [run]).fetchall()
    return {(task, place): (state, delay) for task, place, state, delay in found if state in ENDS}


def _has_lost_tasks(home: Path, run: str) -> bool:
    """Return whether Airflow took a task of a run for lost, and retried or failed it unseen by its policy."""
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        events = database.execute("SELECT event FROM log WHERE run_id = ?", [run]).fetchall()
    return any(event in LOST for (event,) in events)


def first_tries_of_a_run(airflow: StandaloneAirflow) -> dict[tuple[str, int], tuple[str, float | None]]:
    """Run the DAG, again where Airflow took a task for lost, and return how each first try ended."""
    for _ in range(MOST_RUNS):
        run, seen = _first_tries(airflow)
        if not _has_lost_tasks(airflow.home, run):
            break
    return seen


def _first_tries(airflow: StandaloneAirflow) -> tuple[str, dict[tuple[str, int], tuple[str, float | None]]]:
    """Run the DAG until each task has ended its first try."""
    run = json.loads(airflow.trigger(DAG_ID, {}).text)["dag_run_id"]
    seen: dict[tuple[str, int], tuple[str, float | None]] = {}

    def all_seen() -> bool | None:
        # The first to fail may have its second try before the last one has its first.
        seen.update(_outcomes(airflow.home, run))
        return len(seen) == len(EXPECTED) or None

    wait_for("every task's first try", all_seen, lambda: f"{seen}\n{airflow.task_logs(DAG_ID, run)}")
    return run, seen
