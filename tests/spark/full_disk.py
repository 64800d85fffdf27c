"""A disk that is full, as any user can make it: the kernel refuses what a JVM writes beyond a size of a file."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def files_of_at_most(spark: SparkSession, size: int) -> Iterator[None]:
    """Let no file of the session's JVM grow beyond a size; its writes end in an IOException."""
    process = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # JVM attribute
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
