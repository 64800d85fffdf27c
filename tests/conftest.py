"""Tests over random examples draw the same ones in each run, so that CI tells of a change and not of its luck.

``LAKE_EXAMPLES=40 scripts/test ...`` draws that many, and others each time.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.part import Part

# A slow example on a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
if "LAKE_EXAMPLES" not in os.environ:
    settings.load_profile("fixed")

# These take a minute or more. They begin first: a process that begins one last would end long after the other.
LONGEST = [
    "test_actions_of_several_commits.py",
    "test_change_events.py",
    "test_deleted_keys_table.py",
    "test_events_by_key.py",
    "test_faults.py",
    "test_fleet_beside_writers.py",
    "test_hostile_tables.py",
    "test_iceberg_v2.py",
    "test_iceberg_v3.py",
    "test_killed_driver.py",
    "test_late_snapshots.py",
    "test_races.py",
    "test_redelivery.py",
    "test_row_merge.py",
    "test_key_changes_across_batches.py",
    "test_table_histories.py",
    "test_upsert_benchmark.py",
]


@event.listens_for(Engine, "connect")
def commit_without_waiting_for_the_disk(connection: Any, _: object) -> None:
    """Let SQLite leave to the system when a commit is on the disk: no test cuts the power."""
    if type(connection).__module__ == "sqlite3":
        connection.execute("PRAGMA synchronous=OFF")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take ``--part``."""
    parser.addoption("--part", default="1/1", help="run every n-th test of each file, such as 2/4")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of other parts, and put the files that take longest first."""
    part = Part.parse(config.getoption("part"))
    items[:] = [item for item in items if part.takes(item)]
    items.sort(key=_place)


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among what lives as long as the process: it took a fourth of the CPU time.

    Tests and the modules that they import are some million objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_sessionfinish() -> None:
    """Let Python free what stayed: modules in C warn of what they still have when the process ends."""
    gc.unfreeze()


def _place(item: pytest.Item) -> int:
    return LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
