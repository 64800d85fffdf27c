"""Count rows in the job that reads them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

# Spark 3.5 tells of a query behind its end.
_LONGEST_WAIT = 2.0


def observed_count(rows: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return the rows, and their number for who asks once a job has read them all.

    Spark leaves out what it has found to be empty, and with it the count: such rows are counted by a job of their own.
    Spark's own way to ask would wait for ever then.
    """
    observation = Observation()

    @cache
    def count() -> int:
        until = time.monotonic() + _LONGEST_WAIT
        # Spark 3.5 has none of the newer ways to ask without waiting.
        future = observation._jo.future()  # type: ignore[union-attr]  # it is observed
        while not future.isCompleted():
            if time.monotonic() > until:
                return rows.count()
            time.sleep(0.05)
        return int(future.value().get().get().getLong(0))

    return rows.observe(observation, sf.count(sf.lit(1)).alias("rows")), count
