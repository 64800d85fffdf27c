"""The start of a driver, without a session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json

# Its session opens once the module that carries the job out is there.
DRIVER = """
import sys, time
from airflow_lake_provider.spark_jobs import run_job

def opened():
    needed = {f"airflow_lake_provider.spark_jobs.{name}" for name in NEEDED}
    deadline = time.monotonic() + 60
    while not needed <= sys.modules.keys() and time.monotonic() < deadline:
        time.sleep(0.01)
    raise SystemExit(f"missing: {sorted(needed - sys.modules.keys())}")

run_job.open_session = opened
run_job.main(["--spec", sys.argv[1]])
"""


def ended(spec: Path, needed: list[str]) -> str:
    code = DRIVER.replace("NEEDED", repr(needed))
    run = subprocess.run([sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=False)
    return run.stderr.strip().splitlines()[-1]


def test_what_a_job_needs_is_imported_while_its_session_opens(tmp_path: Path) -> None:
    run = RunIdentity.of("dag", "run", "task", "-1")
    spec = tmp_path / "spec.json"
    spec.write_text(job_to_json(Job({"task": CompactionSpec(catalog="lake", table="shop.orders", run=run)})))
    needed = ["actions.maintain_table", "formats.iceberg.iceberg_format"]
    assert ended(spec, needed) == "missing: []"


def test_a_spec_that_is_shipped_or_broken_keeps_no_session_from_opening(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    assert ended(spec, []) == "missing: []"
    spec.write_text("{")
    assert ended(spec, []) == "missing: []"


APPLICATION = """
import gc, json, runpy, sys
from types import SimpleNamespace
from airflow_lake_provider.spark_jobs import run_tasks
from airflow_lake_provider.spark_jobs.session import open_session

def opened():
    seen.append(("session", gc.isenabled()))
    return SimpleNamespace(sparkContext=SimpleNamespace(uiWebUrl=None, applicationId="local")), []

def run(*_):
    seen.append(("tasks", gc.isenabled()))
    return {}

seen = []
open_session.open_session, run_tasks.run_tasks = opened, run
sys.argv[1:] = ["--spec", sys.argv[1]]
try:
    runpy.run_path(run_tasks.__file__.replace("run_tasks", "run_job"), run_name="__main__")
finally:
    print(json.dumps([*seen, ("left", len(gc.get_objects()) < 1000)]))
"""


def test_a_driver_looks_for_garbage_while_its_tasks_run_and_not_while_it_starts_and_ends(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(job_to_json(Job({})))
    command = [sys.executable, "-c", APPLICATION, str(spec)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.splitlines()[-1]) == [["session", False], ["tasks", True], ["left", True]]
