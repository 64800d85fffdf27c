"""Meter a piece of work in a Spark session: time, CPU of the driver's processes, its stages and calls to the JVM."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

import psutil
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_MOST_SECONDS_OF_GARBAGE = 10


@dataclass(frozen=True, kw_only=True)
class Used:
    """Seconds and bytes.

    :param cpu_seconds: of the JVM and of this process; in local mode that is all of the work.
    :param task_seconds: CPU of the tasks, without collecting garbage, compiling and planning.
    :param stages: that ran.
    :param read: bytes that stages read from files; ``shuffled``: wrote for other stages.
    :param calls: commands that went through PySpark's gateway.
    :param classes: that Spark generated and compiled; code it has seen before is not counted.
    """

    seconds: float
    cpu_seconds: float
    task_seconds: float
    stages: int
    read: int
    shuffled: int
    calls: int
    classes: int

    def __str__(self) -> str:
        megabytes = f"{self.read / 1e6:.1f} MB read, {self.shuffled / 1e6:.1f} MB shuffled"
        made = f"{self.stages} stages, {self.calls} calls, {self.classes} classes"
        return f"{self.seconds:.2f} s, {self.cpu_seconds:.2f} s of CPU, {megabytes}, {made}"


class _CountedCalls:
    """Takes the place of a gateway client's ``send_command`` until :meth:`stop`."""

    def __init__(self, client: Any) -> None:
        self.count = 0
        self._client, self._send = client, client.send_command
        client.send_command = self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self._send(*arguments, **options)

    def stop(self) -> int:
        self._client.send_command = self._send
        return self.count


def _collect_garbage(client: Any) -> None:
    """Let the work before pay for its own garbage: a call, by a thread, for each Java object that Python dropped."""
    gc.collect()
    end = time.monotonic() + _MOST_SECONDS_OF_GARBAGE
    # Only where threads are pinned, as by default, does a thread give the objects back.
    while getattr(client, "finalizer_deque", None) and time.monotonic() < end:
        time.sleep(0.01)


class SparkMeter:
    """Measures from its making to :meth:`read`."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._context = context._jsc.sc()
        self._driver = psutil.Process(context._gateway.proc.pid)
        self._first = self._next_stage()
        jvm: Any = spark._jvm
        self._compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
        self._classes = int(self._compiled.getCount())
        client = context._gateway._gateway_client
        _collect_garbage(client)
        self._calls = _CountedCalls(client)
        self._cpu, self._started = self._cpu_seconds(), time.monotonic()

    def read(self) -> Used:
        """Return what was used since."""
        seconds, cpu = time.monotonic() - self._started, self._cpu_seconds() - self._cpu
        calls = self._calls.stop()
        classes = int(self._compiled.getCount()) - self._classes
        # The store hears of a stage a little after its job has returned.
        self._context.listenerBus().waitUntilEmpty()
        stages = self._stages_that_ran()
        return Used(
            seconds=seconds,
            cpu_seconds=cpu,
            task_seconds=sum(int(stage.executorCpuTime()) for stage in stages) / 1e9,
            stages=len(stages),
            calls=calls,
            classes=classes,
            read=sum(int(stage.inputBytes()) for stage in stages),
            shuffled=sum(int(stage.shuffleWriteBytes()) for stage in stages),
        )

    def _next_stage(self) -> int:
        return int(self._context.dagScheduler().nextStageId())

    def _stages_that_ran(self) -> list[Any]:
        made = map(self._stage, range(self._first, self._next_stage()))
        return [stage for stage in made if stage is not None and stage.status().toString() != "SKIPPED"]

    def _stage(self, number: int) -> Any:
        """Return a stage; None where the session has forgotten it: of many stages the skipped ones first."""
        try:
            return self._context.statusStore().lastStageAttempt(number)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() != "NoSuchElementException":
                raise
            return None

    def _cpu_seconds(self) -> float:
        times = self._driver.cpu_times()
        return float(times.user + times.system) + time.process_time()
