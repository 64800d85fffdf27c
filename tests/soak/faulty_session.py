"""Let the driver's calls fail: the one place of ``scripts/soak faults`` that knows how the package is reached.

A spec goes in, and a report, a failure or nothing comes out, which is what a driver that died leaves. Beside that,
only ``Progress.phase`` is known of the package. Files and the catalog's database fail in the JVM, below Iceberg.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action, failure
from tests.soak.bounded import bounded
from tests.soak.faulty_workers import failing_splits
from tests.soak.java_class import java_class
from tests.soak.lake import CATALOG, Lake
from tests.soak.served_specs import serve

_SOURCE = Path(__file__).with_name("Faults.java")
_LONGEST_JOB = 240.0
# Path of "event seconds", see DoomedProgress.
KILL_FILE = "LAKE_FAULTS_KILL_FILE"
# Every later call, too.
FOREVER = 2**31 - 1
PHASES = ("phase begins", "phase ends")


class Died(BaseException):
    """Stands for the end of the process: no handler of the driver takes it for an error."""


@dataclass(frozen=True)
class Fault:
    """Which calls of a run fail, and how.

    :param kind: a kind of call.
    :param first: number of the first call that fails, counted from 1.
    :param last: number of the last one.
    :param way: of a phase ``error`` or ``death``; of a catalog ``before`` or ``after`` and what the client gets.
    """

    kind: str
    first: int
    last: int
    way: str = ""

    def __str__(self) -> str:
        until = f" to {'the end' if self.last == FOREVER else self.last}" if self.last > self.first else ""
        return f"{self.kind} {self.first}{until}{f', {self.way}' if self.way else ''}"


@dataclass(frozen=True)
class Ran:
    """What came of a run.

    :param answer: None after a death.
    :param calls: number of calls by kind.
    :param raised: what failed: paths of files, or words.
    """

    answer: JobReport | JobFailure | None
    calls: Counter[str]
    raised: list[str]
    seconds: float


class CountedProgress(Progress):
    """Tells of each phase that begins or ends."""

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        self.call("phase begins", name)
        with super().phase(name) as facts:
            yield facts
        self.call("phase ends", name)

    def call(self, kind: str, name: str) -> None:
        """Do something there."""


@dataclass
class FaultyProgress(CountedProgress):
    """Counts the phases, and fails in one."""

    fault: Fault | None = None
    calls: Counter[str] = field(default_factory=Counter)
    raised: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Say nothing: two thousand logs are read by nobody."""

    def call(self, kind: str, name: str) -> None:
        """Fail where the fault says so."""
        self.calls[kind] += 1
        fault = self.fault
        if fault is None or fault.kind != kind or not fault.first <= self.calls[kind] <= fault.last:
            return
        self.raised.append(name)
        if fault.way == "death":
            raise Died
        raise OSError(f"a fault where {name} begins")


class DoomedProgress(CountedProgress):
    """Kills the process some time after a phase has begun or ended.

    :param event: which one, counted from 1.
    """

    def __init__(self, event: int, seconds: float) -> None:
        super().__init__()
        self._left, self._after = event, seconds

    def call(self, kind: str, name: str) -> None:
        """Kill, or let it be done."""
        self._left -= 1
        if self._left == 0:
            if not self._after:
                _kill()
            threading.Timer(self._after, _kill).start()


def _kill() -> None:
    # The JVM is in the same process group.
    os.killpg(0, signal.SIGKILL)


def serve_until_killed() -> None:
    """Serve specs as a driver; the file that an environment variable names dooms the next job."""
    file = Path(os.environ[KILL_FILE])

    def progress() -> Progress:
        if not file.exists():
            return Progress()
        event, seconds = file.read_text().split()
        file.unlink()
        return DoomedProgress(int(event), float(seconds))

    serve(progress)


@dataclass(frozen=True)
class FaultySession:
    """A session of its own over a lake whose files and database can fail.

    :param faults: the Java class.
    """

    spark: SparkSession
    faults: Any

    @classmethod
    @contextmanager
    def over(cls, lake: Lake, spark: SparkSession) -> Iterator[FaultySession]:
        """Open one beside a session, in the same JVM."""
        faults = java_class(spark, _SOURCE, "lake.faults.Faults")
        java: Any = spark.sparkContext._jsc
        faults.install(java.hadoopConfiguration(), f"{lake.home}/")
        # The settings of the application: a session that the package opens has them, too.
        application = java.sc().conf()
        prefix = f"spark.sql.catalog.{CATALOG}"
        settings = {name: text for name, text in lake.connection.spark_settings().items() if name.startswith(prefix)}
        settings[f"{prefix}.uri"] = settings[f"{prefix}.uri"].replace("jdbc:", "jdbc:lakefault:", 1)
        before = {name: application.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                application.set(name, value)
            session = spark.newSession()
            for name, value in settings.items():
                session.conf.set(name, value)
            yield cls(session, faults)
        finally:
            for name, value in before.items():
                application.remove(name) if value is None else application.set(name, value)
            faults.leave(java.hadoopConfiguration())

    def run(self, spec: JobSpec, fault: Fault | None = None) -> Ran:
        """Carry out a spec as a driver does.

        :raises Hang: it does not end.
        """
        progress = FaultyProgress(fault=fault if fault and fault.kind in PHASES else None)
        armed = fault if fault and fault.kind not in PHASES else Fault("", 0, 0)
        self.faults.arm(armed.kind, armed.first, armed.last, armed.way)
        splits = armed if armed.kind == "split" else Fault("split", 0, 0)
        workers = failing_splits(splits.first, splits.last, splits.way, progress.calls, progress.raised)
        started = time.monotonic()
        answer: JobReport | JobFailure | None = None
        try:
            with bounded(_LONGEST_JOB), workers:
                answer = dispatch_action(self.spark, spec, progress)
        except Died:
            pass
        # As the application does: every failure becomes an answer.
        except Exception as error:  # noqa: BLE001
            answer = failure("the Spark job", error)
        finally:
            counted = self.faults.disarm().splitlines()
        raised = [line.removeprefix("raised ") for line in counted if line.startswith("raised ")]
        calls = Counter(progress.calls)
        calls.update({line.split()[0]: int(line.split()[1]) for line in counted if not line.startswith("raised ")})
        return Ran(answer, calls, progress.raised + raised, time.monotonic() - started)

    def sql(self, statement: str) -> None:
        """Run a SQL text to its end."""
        self.spark.sql(statement)

    def remove_orphans(self, table: str) -> None:
        """Let Iceberg delete the files of a table that no snapshot reaches, however young they are."""
        jvm: Any = self.spark._jvm
        session: Any = self.spark._jsparkSession
        java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, f"{CATALOG}.{table}")
        java.refresh()
        action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(session).deleteOrphanFiles(java)
        action.olderThan(int(time.time() * 1000) + 60_000).execute()
