"""Say why a driver that left no report has ended: by its exit code, and the last lines of its log."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.failure_causes import (
    DISK_FULL,
    HEAP,
    JAVA,
    JVM_GONE,
    KILLED,
    NO_SPARK,
    SCRATCH_FULL,
    SCRATCH_GONE,
    VALUE,
    FailureCause,
    cause_in,
)
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import FAILED_TASKS_EXIT_CODE, JobFailure

# What Airflow's hook says of spark-submit, and of a driver in Kubernetes.
_EXIT_CODE = re.compile(r"(?:Error code is|spark exit code is): (-?\d+)")
_LAST_LINES = 200
# Codes of ``spark-submit``, or of the shell that looks for it, where no driver began; none where it is not there.
_WITHOUT_DRIVER: tuple[list[int], ...] = ([], [1], [127])
# Spark's own, of SparkExitCode and ExecutorExitCode.
_BY_EXIT_CODE = {52: HEAP, 53: SCRATCH_GONE}
_KILL = 9
_BY_SIGNAL = {
    2: "the driver was interrupted (signal 2): somebody, or the shutdown of its machine, ended it",
    6: "the driver's JVM aborted (signal 6): look at the end of its log, and for a file hs_err_pid*.log",
    7: "the driver's JVM ended with signal 7, mostly of a full disk or a full /dev/shm below a file in memory",
    11: "the driver's JVM crashed (signal 11): look at the end of its log, and for a file hs_err_pid*.log",
    15: "the driver was told to end (signal 15): by somebody, by its scheduler, or by the shutdown of its machine",
}


@dataclass
class DriverEnd:
    """All that a worker knows of the end of a driver."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES), repr=False)
    error: str = ""

    def heed(self, line: str) -> None:
        """Remember a line of its log."""
        self.lines.append(line)

    @property
    def is_in_order(self) -> bool:
        """True where the driver reported a failure and its JVM then ended as it was told to."""
        return self._codes == [FAILED_TASKS_EXIT_CODE]

    @property
    def is_by_itself(self) -> bool:
        """True where nothing ended the driver but its result, or its JVM over the archive of classes."""
        return self._codes in ([], [1], [FAILED_TASKS_EXIT_CODE])

    @property
    def _codes(self) -> list[int]:
        return [int(code) for code in _EXIT_CODE.findall(self.error) if code != "0"]

    def explained(
        self, report: JobReport | JobFailure | None, table: str, lost: str
    ) -> JobReport | JobFailure | LakeProviderError:
        """Return what a driver left; where it could not say why it ended, with what is known of that.

        :param table: how messages begin.
        :param lost: what is said where it left nothing.
        """
        if isinstance(report, JobReport):
            return report
        if isinstance(report, JobFailure):
            is_of_python = report.error == JobFailedError.__name__ and JVM_GONE.name in report.message
            why = self.why() if is_of_python else None
            return report if why is None else replace(report, message=f"{table}: {why}")
        why = self.why()
        # The end of a driver alone says nothing that no retry mends, as a warning may be in its log. But spark-submit
        # ends by itself where it starts none.
        cause = self._cause()
        is_final = cause is not None and cause.kind in (NO_SPARK, JAVA) and self._codes in _WITHOUT_DRIVER
        error = UnsupportedError if is_final else JobFailedError
        return error(f"{table}: {lost}" if why is None else f"{table}: {why}. The driver left no report")

    def why(self) -> str | None:
        """Return why it ended, with what to do; None where neither its exit code nor its log tells."""
        cause = self._cause()
        for code in self._codes:
            signal = -code if code < 0 else code - 128
            kind = KILLED if signal == _KILL else _BY_EXIT_CODE.get(code)
            if kind is not None:
                return FailureCause(kind, f"the driver ended with exit code {code}").sentence()
            if signal in _BY_SIGNAL and (cause is None or cause.kind not in (HEAP, KILLED, DISK_FULL, SCRATCH_FULL)):
                return _BY_SIGNAL[signal]
        return None if cause is None else cause.sentence()

    def _cause(self) -> FailureCause | None:
        # Where there is a code, the rest is the command line.
        cause = cause_in([*([] if self._codes else [self.error]), *reversed(self.lines)])
        # It ends a task, and no driver.
        return None if cause is not None and cause.kind is VALUE else cause
