"""Watchers in a real triggerer, on a catalog in PostgreSQL: it hangs, and the triggerer is killed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_lake_provider.triggers.catalog_poller import MOST_ABANDONED
from tests.benchmarks.watch import QUICK, Measured, account, hang, wait_for_heads
from tests.benchmarks.watched_lake import watched_lake
from tests.benchmarks.watching_triggerer import watching_triggerer

PLAN = replace(QUICK, tables=8)
# Five of them pass between a stored event and its watermark.
SECONDS_UNTIL_WATERMARKS = 9


@pytest.mark.live
@pytest.mark.slow
def test_nothing_is_lost_or_repeated_by_a_catalog_that_hangs_or_a_triggerer_that_is_killed(tmp_path: Path) -> None:
    settings = {"watch_look_timeout": str(PLAN.look_timeout)}
    with (
        watched_lake(tmp_path, PLAN.tables) as lake,
        watching_triggerer(lake, tmp_path / "airflow", "ours", PLAN.interval, settings) as triggerer,
    ):
        triggerer.wait_for_events(PLAN.tables)
        found = hang(lake, triggerer, PLAN, Measured(0, [], 0, 0))
        assert (found.lost, found.repeated) == (0, 0)
        assert found.alarms >= 1
        # A look that was given up when the catalog answered another one keeps its connection until it ends.
        assert found.connections <= 4 + MOST_ABANDONED

        time.sleep(SECONDS_UNTIL_WATERMARKS)
        before = len(triggerer.events())
        triggerer.kill()
        for table in lake.tables[:3]:
            lake.commit(table)
        triggerer.start()
        wait_for_heads(lake, triggerer, replace(PLAN, interval=60))
        time.sleep(2 * PLAN.interval)
        assert account(lake, triggerer.events()) == (0, 0)
        assert sorted(event.table for event in triggerer.events()[before:]) == lake.tables[:3]
