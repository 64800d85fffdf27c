"""Traces that a text leaves when Spark runs any part of it: jobs, a file of a shell command, a property of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SECRET = "s3cr3t-of-the-session"
_PROPERTY = "lake.canary"


class SparkTraces:
    """Traces that a refused text must not leave.

    :param canary: path of the file that a shell command of an attack makes.
    """

    def __init__(self, spark: SparkSession, canary: Path) -> None:
        self._spark, self.canary = spark, canary
        self._system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]  # set by then
        self._system.clearProperty(_PROPERTY)
        self._system.setProperty("lake.secret", SECRET)
        spark.conf.set("spark.lake.secret", SECRET)

    def jobs(self) -> int:
        """Number of jobs that were ever started, by the scheduler's own counter."""
        context: Any = self._spark.sparkContext._jsc
        return int(context.sc().dagScheduler().numTotalJobs())

    def executed(self) -> list[str]:
        """List what was run outside of Spark."""
        found = ["a shell command"] if self.canary.exists() else []
        return found + (["a static method"] if self._system.getProperty(_PROPERTY) is not None else [])

    def values(self) -> list[str]:
        """Values that no message may have."""
        return [SECRET, str(self._system.getenv("PATH"))]

    @contextmanager
    def none_left(self) -> Iterator[None]:
        """Assert that nothing is run meanwhile."""
        before = self.jobs()
        yield
        assert self.executed() == []
        assert self.jobs() == before
