"""Try an optimistic commit again from the start while other writers win."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.progress import Progress

T = TypeVar("T")
_LONGEST_WAIT = 30.0


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
            progress.say(f"attempt {number} of {max_attempts}: {conflict}")
            time.sleep(random.uniform(0.0, min(2.0**number, _LONGEST_WAIT)))
    return attempt(max_attempts)
