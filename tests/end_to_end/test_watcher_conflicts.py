"""Two DAG files that give one asset different watchers, in a real DAG processor and triggerer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.end_to_end.airflow_command import AirflowCommand
from tests.end_to_end.lake_environment import environment_of, make_database

# The triggerer looks once a second: a watcher that lives shorter is not seen.
DAG_FILE = """
import time
from datetime import UTC, datetime
from airflow.sdk import DAG
from airflow_lake_provider.assets.lake_table import lake_table_asset

time.sleep(3)
orders = lake_table_asset("shop.orders", watch=True, poll_interval={interval})
begin = datetime(2026, 1, 1, tzinfo=UTC)
dag = DAG("every_{interval}", schedule=[orders], start_date=begin, is_paused_upon_creation=False)
"""


@pytest.mark.live
@pytest.mark.slow
def test_dag_files_that_disagree_on_a_watched_asset_are_named_in_the_triggerers_log(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    for interval in (20, 30):
        (dags / f"every_{interval}.py").write_text(DAG_FILE.format(interval=interval))
    environment = {
        **environment_of(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "2",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    }
    make_database(environment)

    with _running(environment, "dag-processor"), _running(environment, "triggerer", "--skip-serve-logs") as triggerer:
        triggerer.wait_for("DAG files declare the asset differently", seconds=240)
        line = next(line for line in triggerer.lines if "declare the asset differently" in line)
        # Airflow does not always start both of them; see watcher_conflicts.py.
        assert "poll_interval is 20.0 or 30.0" in line or "another one has no watch=True, or other arguments" in line
        assert "import it into every DAG file" in line


@contextmanager
def _running(environment: dict[str, str], *arguments: str) -> Iterator[AirflowCommand]:
    command = AirflowCommand(environment, arguments)
    try:
        yield command
    finally:
        with suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.wait()
