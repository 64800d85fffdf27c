"""The delay of a retry by its error, in a real scheduler and triggerer: of plain, mapped and deferred tasks."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.contracts.reports.job import EVERY_TASK, JobFailure, reports_to_json
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.unit.resource_manager import ResourceManager, resource_manager

pytestmark = [pytest.mark.live, pytest.mark.slow]

# By table: what the driver says that works on it.
ERRORS = {"conflict": "CommitConflictError", "unknown": "UnknownOutcomeError", "outage": "CatalogUnavailableError"}
ERRORS |= {"refused": "BadInputError", "failed": "JobFailedError"}
DAG_FILE = """
from datetime import timedelta
from airflow.sdk import DAG, ExceptionRetryPolicy, RetryRule
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator

TABLES = ["shop.unknown", "shop.outage", "shop.refused"]
ALWAYS = ExceptionRetryPolicy([RetryRule(Exception, retry_delay=timedelta(hours=7))])
DEFERRED = {{"spark_conn_id": "yarn", "deferrable": True, "yarn_track_via_rm_api": True, "status_poll_interval": 5}}
with DAG("delays", schedule=None, default_args={{"retries": 2, "where": "id = 1", "report_location": {reports!r}}}):
    LakeDeleteRowsOperator(task_id="plain", table="shop.failed")
    LakeDeleteRowsOperator.partial(task_id="mapped").expand(table=["shop.conflict", "shop.refused"])
    LakeDeleteRowsOperator.partial(task_id="deferred", **DEFERRED).expand(table=TABLES)
    LakeDeleteRowsOperator(task_id="delay_of_author", table="shop.conflict", retry_delay=timedelta(hours=5))
    always = LakeDeleteRowsOperator.partial(task_id="policy_of_author", retry_policy=ALWAYS)
    always.expand(table=["shop.conflict", "shop.refused"])
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


@pytest.fixture
def yarn() -> Iterator[ResourceManager]:
    # It runs for one more look: a task that goes on at once may pass for lost on a busy machine.
    with resource_manager(("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")) as found:
        yield found


@pytest.fixture
def airflow(
    airflow_environment: Mapping[str, str],
    lake_home: Path,
    yarn: ResourceManager,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[StandaloneAirflow]:
    dags, commands, reports = (lake_home / name for name in ("delays", "commands", "reports"))
    for folder in (dags, commands, reports):
        folder.mkdir()
    (dags / "delays.py").write_text(DAG_FILE.format(reports=f"file://{reports}"))
    failures = {table: JobFailure(error=error, message=error, traceback="") for table, error in ERRORS.items()}
    said = {table: reports_to_json({EVERY_TASK: failure}) for table, failure in failures.items()}
    (commands / "spark3-submit").write_text(SPARK_SUBMIT.format(python=sys.executable, reports=said))
    (commands / "spark3-submit").chmod(0o755)
    on_yarn = json.loads(yarn.connection)
    local = {"conn_type": "spark", "host": "local[2]", "extra": BINARY}
    environment = {
        **airflow_environment,
        "PATH": f"{commands}:{airflow_environment['PATH']}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__LAKE__CLASS_ARCHIVE": "off",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(local),
        "AIRFLOW_CONN_YARN": json.dumps({**on_yarn, "extra": {**on_yarn["extra"], **BINARY}}),
    }
    running = StandaloneAirflow(environment, lake_home / "standalone", unused_tcp_port_factory())
    try:
        running.wait_until_healthy()
        yield running
    finally:
        running.stop()


def outcomes(home: Path, run: str) -> dict[tuple[str, int], tuple[str, float | None]]:
    """Return state and delay of each task of a run after its first try, as Airflow's database has them."""
    columns = "SELECT task_id, map_index, state, retry_delay_override FROM task_instance"
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        found = database.execute(f"{columns} WHERE try_number = 1 AND run_id = ?", [run]).fetchall()
    return {(task, place): (state, delay) for task, place, state, delay in found if state in ENDS}


def has_lost_tasks(home: Path, run: str) -> bool:
    """Return whether Airflow took a task of a run for lost, and retried or failed it unseen by its policy."""
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        events = database.execute("SELECT event FROM log WHERE run_id = ?", [run]).fetchall()
    return any(event in LOST for (event,) in events)


def test_retries_wait_by_the_error_and_what_never_helps_has_none(airflow: StandaloneAirflow, lake_home: Path) -> None:
    catalog = load_catalog(
        "lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db", warehouse=f"file://{lake_home}/warehouse"
    )
    with closing(catalog):
        catalog.create_namespace("shop")
        for table in ERRORS:
            catalog.create_table(f"shop.{table}", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    wait_for("the DAG", lambda: airflow.get("/dags")["dags"] or None, airflow.output)
    airflow.unpause("delays")
    for _ in range(MOST_RUNS):
        run, seen = first_tries(airflow)
        if not has_lost_tasks(airflow.home, run):
            break
    assert seen == EXPECTED


def first_tries(airflow: StandaloneAirflow) -> tuple[str, dict[tuple[str, int], tuple[str, float | None]]]:
    """Run the DAG until each task has ended its first try."""
    run = json.loads(airflow.trigger("delays", {}).text)["dag_run_id"]
    seen: dict[tuple[str, int], tuple[str, float | None]] = {}

    def all_seen() -> bool | None:
        # The first to fail may have its second try before the last one has its first.
        seen.update(outcomes(airflow.home, run))
        return len(seen) == len(EXPECTED) or None

    wait_for("every task's first try", all_seen, lambda: f"{seen}\n{airflow.task_logs('delays', run)}")
    return run, seen
