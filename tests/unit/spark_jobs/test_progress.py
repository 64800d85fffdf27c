"""Seconds of the phases of a job, which add up to the whole however they lie within each other."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from airflow_lake_provider.spark_jobs.progress import Progress


def test_a_phase_within_another_one_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 10.0, 14.0, 15.0, 20.0, 22.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = Progress()
    with progress.phase("find files"):
        with progress.phase("commit"):
            pass
        with suppress(OSError), progress.phase("delete files"):
            raise OSError("disk full")
    with progress.phase("commit"):
        pass
    assert progress.seconds == {"find files": 15 - 2 - 4, "commit": 2 + 2, "delete files": 4}
