"""Meter a piece of work in a Spark session: time, CPU of the driver's processes, bytes of its stages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psutil
from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Used:
    """Seconds and bytes.

    :param cpu_seconds: of the JVM and of this process; in local mode that is all of the work.
    :param read: bytes that stages read from files; ``shuffled``: wrote for other stages.
    """

    seconds: float
    cpu_seconds: float
    read: int
    shuffled: int

    def __str__(self) -> str:
        megabytes = f"{self.read / 1e6:.1f} MB read, {self.shuffled / 1e6:.1f} MB shuffled"
        return f"{self.seconds:.2f} s, {self.cpu_seconds:.2f} s of CPU, {megabytes}"


class SparkMeter:
    """Measures from its making to :meth:`read`."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._context = context._jsc.sc()
        self._driver = psutil.Process(context._gateway.proc.pid)
        self._newest = max(self._stages(), default=-1)
        self._cpu, self._started = self._cpu_seconds(), time.monotonic()

    def read(self) -> Used:
        """Return what was used since."""
        seconds, cpu = time.monotonic() - self._started, self._cpu_seconds() - self._cpu
        # The store hears of a stage a little after its job has returned.
        self._context.listenerBus().waitUntilEmpty()
        stages = [stage for number, stage in self._stages().items() if number > self._newest]
        return Used(
            seconds=seconds,
            cpu_seconds=cpu,
            read=sum(int(stage.inputBytes()) for stage in stages),
            shuffled=sum(int(stage.shuffleWriteBytes()) for stage in stages),
        )

    def _stages(self) -> dict[int, Any]:
        store = self._context.statusStore()
        nothing = [getattr(store, f"stageList$default${number}")() for number in range(2, 6)]
        listed = store.stageList(None, *nothing)
        return {int(listed.apply(index).stageId()): listed.apply(index) for index in range(listed.size())}

    def _cpu_seconds(self) -> float:
        times = self._driver.cpu_times()
        return float(times.user + times.system) + time.process_time()
