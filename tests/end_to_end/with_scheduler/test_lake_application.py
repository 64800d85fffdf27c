"""Several tables in one application: their rows, their events, and a verdict."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tests.end_to_end.standalone_airflow import StandaloneAirflow
from tests.end_to_end.with_scheduler.dags_of_airflow import GOOD
from tests.end_to_end.with_scheduler.table_contents import rows_of, run_keys

pytestmark = [pytest.mark.live, pytest.mark.slow]


@contextmanager
def busy_writer(table: Table) -> Iterator[None]:
    """Commit to a table all the time: several times while a driver plans and writes."""
    stopped = threading.Event()

    def write() -> None:
        number = 100
        while not stopped.wait(0.4):
            number += 1
            # Another commit was quicker, or the database is locked.
            with suppress(Exception):
                table.refresh().append(pa.table({"id": [number], "name": ["busy"]}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stopped.set()
        writer.join()


def test_tasks_of_one_application_end_each_by_itself_and_the_run_is_red_if_one_failed(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path
) -> None:
    inbox = lake_home / "inbox" / "many"
    inbox.mkdir(parents=True)
    for name in ("busy", *GOOD):
        (inbox / f"{name}.jsonl").write_text(f'{{"id": 1, "name": "{name}"}}\n')
    (inbox / "bad.jsonl").write_text('{"id": "no number", "name": "bad"}\n')
    catalog.create_namespace_if_not_exists("many")
    fragile = {"format-version": "2", "commit.retry.num-retries": "0"}
    busy = catalog.create_table(
        "many.busy",
        schema=pa.schema([("id", pa.int64()), ("name", pa.string())]),
        location=f"file://{lake_home}/warehouse/busy",
        properties=fragile,
    )
    airflow.unpause("many_tables")
    with busy_writer(busy):
        run = airflow.trigger("many_tables", {}).json()["dag_run_id"]
        assert airflow.wait_for_end("many_tables", run) == "failed"
    tasks = airflow.get(f"/dags/many_tables/dagRuns/{run}/taskInstances")["task_instances"]
    tries = {task["task_id"]: (task["state"], task["try_number"]) for task in tasks}
    assert tries == {"upserts": ("success", 1), "load.run": ("success", 2), "load.verdict": ("failed", 1)}
    reports = {report["table"].partition(".")[2]: report for report in airflow.returned("many_tables", run, "load.run")}
    ended = {name: report.get("error") or report["outcome"] for name, report in reports.items()}
    # The second try, for the conflict, finds what the first one has committed.
    assert ended == {**dict.fromkeys(GOOD, "already-applied"), "bad": "BadInputError", "busy": "CommitConflictError"}
    assert "cannot be read as id bigint" in reports["bad"]["reason"], reports["bad"]
    assert "commit refused" in reports["busy"]["reason"], reports["busy"]
    for name in GOOD:
        table = catalog.load_table(f"many.{name}")
        assert (rows_of(table, "id", "name"), len(run_keys(table))) == ([(1, name)], 1)
    for name in GOOD:
        airflow.wait_for_runs(f"after_{name}", 1)
    assert [len(airflow.runs(f"after_{name}")) for name in ("bad", "busy")] == [0, 0]
