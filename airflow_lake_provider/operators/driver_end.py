"""The reason why a driver that left no report has ended: its exit code, and the last lines of its log."""

from __future__ import annotations

import logging
import re
import socket
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf
from airflow.sdk.log import redact  # type: ignore[attr-defined]  # of its module of secrets, which is private

from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.reports.failure_causes import (
    DISK_FULL,
    HEAP,
    JVM_GONE,
    KILLED,
    SCRATCH_FULL,
    SCRATCH_GONE,
    FailureCause,
    cause_in,
)
from airflow_lake_provider.contracts.reports.job import JobFailure, JobReport
from airflow_lake_provider.submission.spark_log import SparkLog

if TYPE_CHECKING:
    from airflow.sdk import Context


# What Airflow's hook says of spark-submit, and of a driver in Kubernetes.
_EXIT_CODE = re.compile(r"(?:Error code is|spark exit code is): (-?\d+)")
_LAST_LINES = 200
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
    said: str = ""

    def heed(self, line: str) -> None:
        """Remember a line of its log."""
        self.lines.append(line)

    def explained(
        self, found: JobReport | JobFailure | None, table: str, lost: str
    ) -> JobReport | JobFailure | JobFailedError:
        """Return what a driver left; where it could not say why it ended, with what is known of that.

        :param table: how messages begin.
        :param lost: what is said where it left nothing.
        """
        if isinstance(found, JobReport):
            return found
        if isinstance(found, JobFailure):
            is_of_python = found.error == JobFailedError.__name__ and JVM_GONE.name in found.message
            why = self._why() if is_of_python else None
            return found if why is None else replace(found, message=f"{table}: {why}")
        why = self._why()
        # The end of a driver alone says nothing that no retry mends: it may be a warning that is in its log.
        return JobFailedError(f"{table}: {lost}" if why is None else f"{table}: {why}. The driver left no report")

    def _why(self) -> str | None:
        codes = [int(code) for code in _EXIT_CODE.findall(self.said) if code != "0"]
        # Where there is a code, the rest is the command line.
        told = cause_in([*([] if codes else [self.said]), *reversed(self.lines)])
        for code in codes:
            signal = -code if code < 0 else code - 128
            kind = KILLED if signal == _KILL else _BY_EXIT_CODE.get(code)
            if kind is not None:
                return FailureCause(kind, f"the driver ended with exit code {code}").sentence()
            if signal in _BY_SIGNAL and (told is None or told.kind not in (HEAP, KILLED, DISK_FULL, SCRATCH_FULL)):
                return _BY_SIGNAL[signal]
        return None if told is None else told.sentence()


_log = logging.getLogger(__name__)
_FOLDER = "lake_spark"
_OFF = "off"


def open_spark_log(context: Context) -> SparkLog:
    """Make the file that ``[lake] spark_log_folder`` asks for; where that fails, all lines stay in the task's log.

    :raises InvalidSpecError: ``[lake] spark_log_days`` is no number of days.
    """
    folder, days = _folder(), _days()
    if folder is None:
        return SparkLog()
    instance = context["ti"]
    mapped = () if instance.map_index in (None, -1) else (str(instance.map_index),)
    label = ".".join((instance.dag_id, instance.run_id, instance.task_id, *mapped, f"try{instance.try_number}"))
    try:
        log = SparkLog.open(folder, label, _masked, days)
    except (OSError, ValueError) as error:
        _log.warning("Spark's own lines are in this log, as its file cannot be made in %s: %s", folder, error)
        return SparkLog()
    # Where task logs are kept elsewhere, and no folder was named, the file may go with the worker.
    log.is_replayed = not _named() and conf.getboolean("logging", "remote_logging", fallback=False)
    return log


def pointer(log: SparkLog) -> str:
    """Return the words that name the file; empty where there is none."""
    return "" if log.path is None else f"Spark's own log: {log.path} on {socket.gethostname()}"


def pointed_to(error: LakeProviderError, log: SparkLog) -> LakeProviderError:
    """Return an error of a job with the file named at its end."""
    if log.path is not None:
        error.args = (f"{error}\n{pointer(log)}", *error.args[1:])
    return error


def _named() -> str:
    return str(conf.get("lake", "spark_log_folder", fallback="")).strip()


def _folder() -> Path | None:
    named = _named()
    if named == _OFF:
        return None
    base = named or str(Path(conf.get("logging", "base_log_folder", fallback="~/airflow/logs")) / _FOLDER)
    return Path(base).expanduser().absolute()


def _days() -> int:
    days = conf.getint("lake", "spark_log_days", fallback=14)
    if days < 0:
        raise InvalidSpecError(f"[lake] spark_log_days must be a number of days, or 0 to keep all, got {days}")
    return int(days)


def _masked(line: str) -> str:
    return str(redact(line))
