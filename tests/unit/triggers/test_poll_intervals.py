"""Poll intervals of triggers: given by an author or by a setting, and stored as seconds."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger, LakeSnapshotTrigger

TABLE = "shop.orders"


def test_the_poll_interval_comes_from_the_settings_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_lake_provider.triggers.watch_settings import default_poll_interval

    assert default_poll_interval() == 60.0
    monkeypatch.setenv("AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL", "7.5")
    assert default_poll_interval() == 7.5


@pytest.mark.parametrize("interval", [30, 30.0, timedelta(seconds=30), "PT30S"])
def test_an_interval_is_stored_as_seconds_however_it_is_given(interval: Any) -> None:
    """The poller compares the intervals of all triggers of a catalog."""
    waits = LakeSnapshotTrigger(table=TABLE, since="1", poll_interval=interval)
    watches = LakeSnapshotEventTrigger(table=TABLE, asset_name="orders", poll_interval=interval, min_interval=interval)
    stored = waits.serialize()[1], watches.serialize()[1]
    assert [each["poll_interval"] for each in stored] == [30.0, 30.0]
    assert json.loads(watches.shared_stream_key())["min_interval"] == 30.0


@pytest.mark.parametrize("interval", ["soon", -1, float("nan"), True, [60]])
def test_an_interval_that_is_none_is_refused_before_there_is_a_trigger(interval: Any) -> None:
    with pytest.raises(InvalidSpecError, match="poll_interval"):
        LakeSnapshotTrigger(table=TABLE, since="1", poll_interval=interval)
    for name in ("poll_interval", "min_interval"):
        with pytest.raises(InvalidSpecError, match=name):
            LakeSnapshotEventTrigger(table=TABLE, asset_name="orders", **{name: interval})


@pytest.mark.parametrize("setting", ["0", "-1", "nan"])
def test_an_interval_of_the_settings_that_is_none_is_refused_by_its_name(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL", setting)
    with pytest.raises(InvalidSpecError, match=r"\[lake\] snapshot_poll_interval must be a number above 0"):
        LakeSnapshotSensor(task_id="wait", table=TABLE)
