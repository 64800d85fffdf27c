"""A source that only a test has goes through a scheduler and drivers: one file, one registration, exactly once."""

from __future__ import annotations

import json
import time

import psutil
import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.airflow_command import processes
from tests.end_to_end.standalone_airflow import WAIT_SECONDS, StandaloneAirflow
from tests.end_to_end.with_scheduler.table_contents import rows_of, run_keys

pytestmark = [pytest.mark.live, pytest.mark.slow]

SUMS, DOUBLED = "numbers.sums", "numbers.doubled"


def sums(**counted: int) -> dict[str, int]:
    """Return what generators that have counted so far add up to, each number once."""
    return {name: sum(range(1, count + 1)) for name, count in counted.items()}


def kill_while_its_driver_reads(airflow: StandaloneAirflow, run: str) -> psutil.Process:
    """Kill the process of the Airflow task, and return its driver, which lives on."""
    deadline = time.monotonic() + WAIT_SECONDS
    while "[lake] read ..." not in airflow.task_logs("numbers", run):
        assert time.monotonic() < deadline, airflow.task_logs("numbers", run)
        time.sleep(0.1)
    (pid,) = processes(f"--name LakeUpsertOperator {SUMS}")
    driver = psutil.Process(pid)
    task = driver.parent()
    assert task is not None
    task.kill()
    return driver


def test_numbers_of_a_partly_ordered_source_are_added_once_whatever_happens(
    airflow: StandaloneAirflow, catalog: Catalog
) -> None:
    def start(counted: str) -> str:
        return str(airflow.trigger("numbers", {"counted": counted}).json()["dag_run_id"])

    def ended(run: str) -> tuple[str, int]:
        """Return the outcome of the last try, and its number."""
        airflow.wait_for_success("numbers", run)
        tries = airflow.get(f"/dags/numbers/dagRuns/{run}/taskInstances/sums")["try_number"]
        return airflow.returned("numbers", run, "sums")["outcome"], tries

    def expect(followed: int, **counted: int) -> None:
        """Compare both tables with what was counted; the runs of the asset are as many as the commits."""
        airflow.wait_for_runs("doubled_numbers", followed)
        expected = sorted(sums(**counted).items())
        assert rows_of(catalog.load_table(SUMS), "generator", "n") == expected
        assert rows_of(catalog.load_table(DOUBLED), "generator", "n") == [(name, 2 * total) for name, total in expected]
        assert len(run_keys(catalog.load_table(SUMS))) == followed

    airflow.unpause("numbers")
    first = start("a=3 b=2")
    driver = kill_while_its_driver_reads(airflow, first)
    assert driver.is_running(), "the driver died with its task, so this test would prove nothing"
    outcome, tries = ended(first)
    assert (outcome in ("applied", "already-applied"), tries) == (True, 2)
    expect(1, a=3, b=2)
    # Cleared, its run key is known; a new run of the same is known by the position.
    airflow.clear("numbers", first, "sums")
    assert ended(first) == ("already-applied", 3)
    assert ended(start("a=3 b=2")) == ("nothing-new", 1)
    # Neither before nor after what is consumed: "a" is delivered again in part, "b" goes on, "c" is new.
    assert ended(start("a=2 b=5 c=2")) == ("applied", 1)
    expect(2, a=3, b=5, c=2)
    (position,) = (text for name, text in catalog.load_table(SUMS).properties.items() if "lake.position." in name)
    assert json.loads(position)["positions"] == {"version-vector": {"a": 3, "b": 5, "c": 2}}
