"""A twentieth of the soak of jobs: a driver is killed within a job of several tables, and the retry does the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.jobs import ROUNDS, soak

pytestmark = pytest.mark.in_every_part


def test_a_retry_of_a_killed_job_does_what_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    found = soak(tmp_path, seed=20, rounds=max(1, ROUNDS // 20))
    assert found["killed"] == 1
