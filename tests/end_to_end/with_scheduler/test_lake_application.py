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

from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.dags_of_airflow import GOOD
from tests.end_to_end.with_scheduler.table_contents import rows_of

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
    found = {report["table"].partition(".")[2]: report for report in airflow.returned("many_tables", run, "load.run")}
    ended = {name: report.get("error") or report["outcome"] for name, report in found.items()}
    applied = dict.fromkeys(GOOD, "applied")
    assert ended == {**applied, "bad": "BadInputError", "busy": "CommitConflictError"}, found
    assert {name: rows_of(catalog.load_table(f"many.{name}"), "id", "name") for name in applied} == {
        name: [(1, name)] for name in applied
    }
    for name in applied:
        wait_for(f"the run after {name}", lambda name=name: airflow.runs(f"after_{name}") or None, airflow.output)  # type: ignore[misc]
    started = {name: len(airflow.runs(f"after_{name}")) for name in ended}
    assert started == {**dict.fromkeys(applied, 1), "bad": 0, "busy": 0}
