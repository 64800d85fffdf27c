"""Make the file of Spark's own log in ``[lake] spark_log_folder``, for each try, and name it in logs and errors."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf
from airflow.sdk.log import redact  # type: ignore[attr-defined]  # of its module of secrets, which is private

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.submission.spark_log import SparkLog

if TYPE_CHECKING:
    from airflow.sdk import Context


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
