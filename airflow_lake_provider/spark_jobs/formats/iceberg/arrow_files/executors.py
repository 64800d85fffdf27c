"""Executors whose Python workers read and write files: whether they can, and have memory beside the JVM's heap."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.jvm.gateway import java_context, jvm_of, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS

# A row group in Arrow's format, the compressed one that is read, and the libraries; in MiB.
MEMORY_OF_A_TASK = 700
_CONTAINERS = ("yarn", "k8s")
_OF_WORKERS = "spark.executor.pyspark.memory"
_OVERHEAD = "spark.executor.memoryOverhead"
# The second is what Spark sets for a driver in Python that Kubernetes runs.
_FACTORS = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
# As Spark has them without any setting.
_FACTOR, _LEAST_OVERHEAD, _HEAP = "0.1", "384m", "1g"
# As SparkContext reads it: the driver runs all tasks.
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:\s*,\s*\d+)?\])?")
_MEMINFO, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


class DriverTurns:
    """Lets some threads of the driver rewrite files at once.

    :param most: threads that have a turn at the same time.
    """

    def __init__(self, most: int) -> None:
        self._free, self._lock, self._running = BoundedSemaphore(most), Lock(), 0

    @contextmanager
    def one(self) -> Iterator[int]:
        """Wait for a turn, and give how many threads have one now."""
        with self._free:
            running = self._count(1)
            try:
                yield running
            finally:
                self._count(-1)

    def _count(self, more: int) -> int:
        with self._lock:
            self._running += more
            return self._running


@once_a_driver
def turns_in_driver(spark: SparkSession) -> DriverTurns | None:
    """Return what lets as many threads of the driver rewrite files at once as there would be tasks.

    :return: None where executors are other processes, on other machines perhaps.
    """
    cores = cores_of_driver(spark)
    return None if cores is None else DriverTurns(cores)


def cores_of_driver(spark: SparkSession) -> int | None:
    """Return the cores of a local master; None where the driver does not run all tasks.

    ``spark.default.parallelism`` may say any other number.
    """
    local = _LOCAL.fullmatch(str(spark.sparkContext.master))
    if local is None:
        return None
    cores = local.group(1) or "1"
    return int(jvm_of(spark).java.lang.Runtime.getRuntime().availableProcessors()) if cores == "*" else int(cores)


@once_a_driver
def worker_obstacle(spark: SparkSession) -> str | None:
    """Return why Python workers cannot read files; None where one of them has loaded all that it needs."""

    def load(_: int) -> str | None:
        try:
            from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import file_parts  # noqa: F401  # loaded alone
        # An old Python does not read the file, an old library lacks a name.
        except Exception as error:  # noqa: BLE001
            return f"Python workers do not load what they need: {type(error).__name__}: {error}"
        return None

    try:
        return _asked(spark, "load pyarrow in a Python worker", load)
    except SPARK_ERRORS as error:
        return f"Python workers do not start: {root_message(error)}"


def memory_obstacle(spark: SparkSession, tasks: int) -> str | None:
    """Return that an executor has too little memory beside its heap for the Python workers of tasks at once.

    A container of YARN or Kubernetes that needs more than it has is killed, the JVM with it. Elsewhere the machine of
    one executor is asked what it has left.

    :param tasks: that the whole cluster runs at once.
    """
    conf = java_context(spark).conf()
    master = str(conf.get("spark.master"))
    if master.partition(":")[0] in _CONTAINERS:
        return container_obstacle(conf)

    cores_here = cores_of_driver(spark)

    def left(_: int) -> tuple[int, int | None]:
        return cores_here or os.cpu_count() or 1, memory_left()

    try:
        cores, mib = left(0) if master.startswith("local") else _asked(spark, "see what memory is left", left)
    except SPARK_ERRORS as error:
        return f"Python workers do not start: {root_message(error)}"
    wanted = min(tasks, cores) * MEMORY_OF_A_TASK
    if mib is None or mib >= wanted:
        return None
    return f"a machine has less memory left than Python workers may need: {MEMORY_OF_A_TASK} MiB for each of its tasks"


def _asked(spark: SparkSession, description: str, question: Callable[[int], Any]) -> Any:
    """Return what a Python worker answers, which is used again: it ends where not all of its input is read."""
    with described_jobs(spark, description):
        return spark.sparkContext.parallelize([0], 1).map(question).collect()[0]


@contextmanager
def described_jobs(spark: SparkSession, description: str) -> Iterator[None]:
    """Let jobs of this thread have a description, and then the one of before."""
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.setJobDescription(before or "")


def container_obstacle(conf: Any) -> str | None:
    """Return that containers of executors are too small.

    :param conf: ``org.apache.spark.SparkConf`` of the driver.
    """
    if conf.contains(_OF_WORKERS):
        return f"{_OF_WORKERS} bounds the address space of Python workers"
    tasks = max(1, int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))
    mib, wanted = _overhead(conf), tasks * MEMORY_OF_A_TASK
    if mib >= wanted:
        return None
    return (
        f"executors have {mib:,} MiB beside the heap, and Python workers of {tasks} tasks may need {wanted:,}: raise "
        f"{_OVERHEAD}"
    )


def _overhead(conf: Any) -> int:
    """Return the MiB beside the heap that Spark asks the cluster for."""
    if conf.contains(_OVERHEAD):
        return int(conf.getSizeAsMb(_OVERHEAD))
    factor = float(next((conf.get(name) for name in _FACTORS if conf.contains(name)), _FACTOR))
    least = conf.getSizeAsMb("spark.executor.minMemoryOverhead", _LEAST_OVERHEAD)
    return max(int(least), int(factor * conf.getSizeAsMb("spark.executor.memory", _HEAP)))


def memory_left(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int | None:
    """Return the MiB that this machine and its container have left; None where neither says it.

    :param group: folder of the container's control group, version 2. Its cached files go when memory is wanted.
    """
    left = []
    with suppress(OSError, ValueError, LookupError):
        left.append(int(_figures(meminfo)["MemAvailable:"]) >> 10)
    with suppress(OSError, ValueError, LookupError):
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        left.append((limit - used + int(_figures(group / "memory.stat")["inactive_file"])) >> 20)
    return min(left, default=None)


def _figures(file: Path) -> dict[str, str]:
    return {words[0]: words[1] for line in file.read_text().splitlines() if len(words := line.split()) > 1}
