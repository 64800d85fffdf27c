"""An alarm where Airflow keeps replacing a watcher, as it does when DAG files disagree."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from airflow_lake_provider.triggers.watcher_conflicts import watched_once
from tests.unit.triggers.virtual_time import run_virtually

NAMES = (f"asset {number}" for number in itertools.count())


async def replace(name: str, settings: list[dict[str, Any]], seconds: float, *, error: bool = False) -> None:
    """Run watchers with these settings one after another, each for a time."""

    async def run(given: dict[str, Any]) -> None:
        with watched_once(name, given):
            if error:
                await asyncio.sleep(seconds / 2)
                raise RuntimeError("as a trigger that fails")
            await asyncio.Event().wait()

    for given in settings:
        running = asyncio.create_task(run(given))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait({running})


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


SLOW, QUICK = {"table": "shop.orders", "poll_interval": 60.0}, {"table": "shop.orders", "poll_interval": 5.0}


def test_two_files_with_different_settings_are_told_with_the_difference(caplog: pytest.LogCaptureFixture) -> None:
    name = next(NAMES)
    run_virtually(replace(name, [SLOW, QUICK, SLOW], 30))
    (sentence,) = said(caplog)
    assert name in sentence
    assert "poll_interval is 5.0 or 60.0" in sentence
    assert "Declare it once" in sentence


def test_a_file_without_the_watcher_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    run_virtually(replace(next(NAMES), [SLOW] * 4, 30))
    assert "another one has no watch=True, or other arguments" in said(caplog)[0]


def test_a_definition_seen_thrice_in_a_row_is_not_taken_for_the_only_one(caplog: pytest.LogCaptureFixture) -> None:
    run_virtually(replace(next(NAMES), [SLOW, SLOW, SLOW, QUICK], 3))
    (sentence,) = said(caplog)
    assert "poll_interval is 5.0 or 60.0" in sentence


def test_the_alarm_repeats_after_a_quarter_of_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    run_virtually(replace(next(NAMES), [SLOW, QUICK] * 60, 30))
    assert len(said(caplog)) == 4


@pytest.mark.parametrize(
    ("settings", "seconds", "error"),
    [([SLOW, QUICK], 30, False), ([SLOW, QUICK, SLOW], 3600, False), ([SLOW] * 9, 1, True), ([SLOW] * 3, 30, False)],
    ids=["an edit", "edits hours apart", "a trigger that fails", "a DAG that is paused twice"],
)
def test_an_edit_and_an_error_are_no_disagreement(
    settings: list[dict[str, Any]], seconds: float, error: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run_virtually(replace(next(NAMES), settings, seconds, error=error))
    assert said(caplog) == []
