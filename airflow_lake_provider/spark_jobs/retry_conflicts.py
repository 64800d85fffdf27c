"""Meet commit conflicts: try again from the start, or rebase what is pending onto the head that others left.

A format detects them itself, Iceberg's in ``formats/iceberg/commits/metadata_swap.py``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.progress import Progress

T = TypeVar("T")
C = TypeVar("C")
_LONGEST_WAIT = 30.0
# Seconds. Enough to part two drivers; a longer one gives a steady writer the time for its next commit.
_LONGEST_STEP_ASIDE = 0.3


def retry_conflicts(attempt: Callable[[int], T], max_attempts: int, progress: Progress) -> T:
    """Call ``attempt`` with 1, 2, ... until it does not end in a conflict.

    Full jitter: two losers of one race must not meet again in the next.

    :param attempt: decides anew each time, on the head it finds.
    :raises CommitConflictError: of the last attempt.
    """
    for number in range(1, max_attempts):
        try:
            return attempt(number)
        except CommitConflictError as conflict:
            seconds = random.uniform(0.0, min(2.0**number, _LONGEST_WAIT))
            progress.say(f"attempt {number} of {max_attempts}: {conflict} The next one begins in {seconds:.1f} s")
            time.sleep(seconds)
    try:
        return attempt(max_attempts)
    except CommitConflictError as conflict:
        lost = f"Other writers won {'all ' if max_attempts > 1 else ''}{max_attempts} of our attempts"
        raise CommitConflictError(f"{str(conflict).rstrip('.')}. {lost}; the task can be retried.") from conflict


def rebase_conflicts(
    attempt_commit: Callable[[C], T],
    rebase: Callable[[C], C],
    commit: C,
    retries: CommitRetries,
    progress: Progress,
    may_go_on: Callable[[], bool] = lambda: True,
) -> T:
    """Try a commit; after a conflict, try what ``rebase`` makes of it on the new head.

    :param rebase: its own conflict means that the batch has to start over, and ends this.
    :param may_go_on: asked after a conflict.
    :raises CommitConflictError: of the last try, or of ``rebase``.
    """
    attempts = retries.attempts(progress.say)
    next(attempts)
    while True:
        try:
            return attempt_commit(commit)
        except CommitConflictError as conflict:
            if not may_go_on() or (number := next(attempts, None)) is None:
                raise
            progress.say(f"commit {number - 1} of {retries.tries}: {conflict}")
            time.sleep(random.uniform(0.0, _LONGEST_STEP_ASIDE))
        commit = rebase(commit)
