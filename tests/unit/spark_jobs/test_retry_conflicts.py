"""Between two tries that lose a race there is a wait, of up to twice as long each time."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import rebase_conflicts, retry_conflicts


@pytest.fixture
def longest_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits that were slept, each as long as it may be."""
    slept: list[float] = []
    monkeypatch.setattr("random.uniform", lambda shortest, longest: longest)
    monkeypatch.setattr("time.sleep", slept.append)
    return slept


def losing(_: Any) -> None:
    raise CommitConflictError("Another writer was first.")


def test_the_next_attempt_begins_after_up_to_twice_as_long_but_never_more_than_half_a_minute(
    longest_waits: list[float],
) -> None:
    with pytest.raises(CommitConflictError, match="Other writers won all 7 of our attempts"):
        retry_conflicts(losing, 7, Progress())
    assert longest_waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_commit_that_is_rebased_steps_aside_for_less_than_a_second(longest_waits: list[float]) -> None:
    retries = CommitRetries.of("shop.orders", {"commit.retry.num-retries": "2"}, 4)
    with pytest.raises(CommitConflictError):
        rebase_conflicts(losing, lambda commit: commit, "batch", retries, Progress())
    assert [wait for wait in longest_waits if wait] == [0.3, 0.3]
