"""A source that only a test has goes through Airflow and a driver: one file, one registration, exactly once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from scripts.airflow_process import AirflowProcess
from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run, processes
from tests.end_to_end.test_table_operators import reports

MONDAY, TUESDAY, WEDNESDAY = "2026-01-05", "2026-01-06", "2026-01-07"


def sums(**counted: int) -> dict[str, int]:
    """Return what generators that have counted so far add up to, each number once."""
    return {name: sum(range(1, count + 1)) for name, count in counted.items()}


def table(lake_home: Path, name: str) -> Table:
    return load_catalog("lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db").load_table(name)


def rows(lake_home: Path, name: str) -> dict[str, int]:
    found = table(lake_home, name).scan().to_arrow().to_pylist()
    assert len({row["generator"] for row in found}) == len(found)
    return {row["generator"]: row["n"] for row in found}


def run_keys(lake_home: Path, name: str) -> list[str]:
    """Return the run keys of a table's commits, newest first."""
    found = table(lake_home, name)
    summaries = [each.summary for each in ancestors_of(found.current_snapshot(), found.metadata) if each.summary]
    return [summary["lake.run-key"] for summary in summaries if summary["lake.run-key"]]


def test_numbers_of_a_partly_ordered_source_are_added_once_whatever_happens(
    migrated: Mapping[str, str], lake_home: Path
) -> None:
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}

    def numbers(day: str, counted: str) -> tuple[str, ...]:
        return dag_run("numbers", day, "--conf", json.dumps({"counted": counted}))

    def run(day: str, counted: str) -> tuple[str, str]:
        airflow.run(*numbers(day, counted))
        found = reports(lake_home, "numbers")
        return found["sums"]["outcome"], found["doubled"]["outcome"]

    def expect(**counted: int) -> None:
        assert rows(lake_home, "numbers.sums") == sums(**counted)
        assert rows(lake_home, "numbers.doubled") == {name: 2 * total for name, total in sums(**counted).items()}

    # The first try is killed while its driver lives on; the retry meets what that one commits.
    killed = AirflowCommand(environment, numbers(MONDAY, "a=3 b=2"))
    killed.wait_for("[lake] read ...")
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    assert processes("run_job.py --spec"), "the driver died with its task, so this test would prove nothing"
    # The other runs share a process: they prove nothing of its start.
    with closing(AirflowProcess(environment, lake_home / "airflow.log", print)) as airflow:
        assert run(MONDAY, "a=3 b=2")[0] in ("applied", "already-applied")
        expect(a=3, b=2)
        assert len(run_keys(lake_home, "numbers.sums")) == 1
        # Cleared, its run key is known; a new run of the same is known by the position.
        assert run(MONDAY, "a=3 b=2") == ("already-applied", "nothing-new")
        assert run(TUESDAY, "a=3 b=2") == ("nothing-new", "nothing-new")
        expect(a=3, b=2)
        # Neither before nor after what is consumed: "a" is delivered again in part, "b" goes on.
        assert run(TUESDAY, "a=2 b=5") == ("applied", "applied")
        expect(a=3, b=5)
        assert run(WEDNESDAY, "a=3 b=1") == ("nothing-new", "nothing-new")
        assert run(WEDNESDAY, "a=4 b=4 c=2") == ("applied", "applied")
        expect(a=4, b=5, c=2)
    (position,) = (
        text for name, text in table(lake_home, "numbers.sums").properties.items() if "lake.position." in name
    )
    assert json.loads(position)["positions"] == {"version-vector": {"a": 4, "b": 5, "c": 2}}
