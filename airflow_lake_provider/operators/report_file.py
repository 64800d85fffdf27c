"""Find where a driver leaves its report, read it back on the worker, and remove an older one before a submission."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
from airflow.sdk.configuration import conf
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from airflow_lake_provider.catalogs.warehouse import holds_keys
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import EVERY_TASK, JobFailure, reports_from_plain
from airflow_lake_provider.contracts.specs.spec_codec import Job

_log = logging.getLogger(__name__)


def read_reports(path: str) -> dict[str, JobReport | JobFailure]:
    """Read what a driver left, by task; nothing of a task that it did not come to.

    :param path: local path, or fsspec path.
    """
    try:
        files, place = fsspec.core.url_to_fs(path)
        # Opening a pipe in a folder that others share would wait for somebody who writes to it.
        if isinstance(files, LocalFileSystem) and files.exists(place) and not files.isfile(place):
            _log.error("The report at %s is no file", path)
            return {}
        with fsspec.open(path, "rt", encoding="utf-8") as file:
            return reports_from_plain(json.load(file))
    except FileNotFoundError:
        return {}
    # Each file system has errors of its own, and the table itself can still tell what happened.
    except Exception:  # noqa: BLE001
        _log.exception("The report at %s cannot be read", path)
        return {}


def reports_of(tasks: Collection[str], path: str) -> dict[str, JobReport | JobFailure]:
    """Read what a driver left, and warn of what it did for tasks that the author's list has no more.

    :param tasks: names of those that the list has.
    """
    reports = read_reports(path)
    for name, report in reports.items():
        if name not in tasks and name != EVERY_TASK:
            what = repr(report.outcome.value) if isinstance(report, JobReport) else report.error
            _log.warning(
                "%s: this task has left the list since its application was submitted. Its outcome is %s; neither XCom "
                "nor an asset event tells of it",
                name,
                what,
            )
    return reports


def forget_report(report: str) -> None:
    """Remove the report of an earlier attempt: in cluster mode all attempts of a run share its place.

    :raises InvalidSpecError: the worker may not; the old report would be taken for the next attempt's.
    :raises JobFailedError: the store does not answer.
    """
    try:
        files, path = fsspec.core.url_to_fs(report)
        with suppress(FileNotFoundError):
            files.rm_file(path)
    # Each file system has errors of its own.
    except Exception as error:
        what = f"nothing was submitted: the report of an earlier attempt at {report} cannot be removed"
        raise error_kind(error)(f"{what}, {one_line(error)}. The worker needs the right to delete there") from error


# Of the protocols that fsspec brings, those that Hadoop writes to as well.
_SHARED = ("file", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "oss", "hdfs", "webhdfs")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.+)", re.DOTALL)
# File systems take names of 255 bytes; a catalog's name has none but ASCII letters, digits, hyphens and underscores.
_LONGEST_CATALOG = 128
# Whatever else a store answers may be over in a minute.
_FINAL = (PermissionError, NotADirectoryError, FileExistsError, ValueError, ImportError)
# A service that hands out credentials failed, or they ran out; another try gets new ones.
_PASSING = ("credentialretrieval", "retrieving credentials", "expired")


def shared_report(job: Job, run: RunIdentity, location: str | None, lake: str = "") -> str:
    """Return where the driver of this run leaves its report; the same for every attempt, which may reconnect to it.

    :param run: of the Airflow task.
    :param location: the operator's; default the setting ``[lake] report_location``.
    :param lake: address of the catalog, as of ``CatalogConnection.address``.
    :raises InvalidSpecError: there is no location, the worker cannot read there, or Hadoop cannot write.
    :raises JobFailedError: the store does not answer.
    """
    name, base = "report_location", location
    if not base:
        name, base = "[lake] report_location", conf.get("lake", "report_location", fallback="").strip()
    if not base:
        raise InvalidSpecError(
            f"{_tables(job)}: in cluster mode the driver is on another machine, so its report needs a place that both "
            "sides reach. Give report_location, such as 's3://bucket/reports', or set [lake] report_location. Nothing "
            "was submitted"
        )
    if holds_keys(base):
        # It is not shown, and the command line of spark-submit would show it, too.
        raise InvalidSpecError(
            f"{_tables(job)}: {name} holds keys before its host; give both sides their keys otherwise, such "
            "as by a role or by the environment. Nothing was submitted"
        )
    report = f"{base.rstrip('/')}/{_name(job, run, lake)}.json"
    _look(f"{name} {base!r}", _protocol(f"{name} {base!r}", base), report)
    return report


def _tables(job: Job) -> str:
    return ", ".join(dict.fromkeys(spec.table for spec in job.tasks.values()))


def _name(job: Job, run: RunIdentity, lake: str) -> str:
    """Return ``<catalog>-<32 hex>``, in which no other catalog, environment or run shares the digits.

    Copies of one DAG in a test and a production environment have equal ids, and often one bucket for reports.
    """
    environment = conf.get("api", "base_url", fallback="")
    catalog = next(iter(job.tasks.values())).catalog
    parts = (environment, lake, catalog, run.label)
    return f"{catalog[:_LONGEST_CATALOG]}-{hashlib.sha256(chr(0x1F).join(parts).encode()).hexdigest()[:32]}"


def _protocol(name: str, base: str) -> str:
    """Return the protocol of a location, ``file`` for a path of this machine."""
    url = _URL.fullmatch(base)
    protocol = url[1].lower() if url else "file"
    path = url[2] if url else base
    if "::" in base or (protocol in known_implementations and protocol not in _SHARED):
        raise InvalidSpecError(
            f"{name}: the driver writes the report with Hadoop, which has no {base.partition('://')[0]}://; both know "
            f"{', '.join(_SHARED)}"
        )
    if protocol == "file" and not path.startswith("/"):
        raise InvalidSpecError(
            f"{name} is relative, and worker and driver start in folders of their own; give a path from the root, such "
            "as '/mnt/reports', of a folder that both have, or a URL such as 's3://bucket/reports'"
        )
    return protocol


def _look(name: str, protocol: str, report: str) -> None:
    """Look for the report as it will be looked for after the job, so that what is missing is told before it."""
    try:
        files: Any = fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        raise InvalidSpecError(f"{name}: this worker cannot read {protocol}://: {_missing(protocol, error)}") from error
    try:
        files, path = fsspec.core.url_to_fs(report)
        if protocol == "file":
            # A folder that both have is there or can be made; the earlier report in it must be removable.
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _probe(Path(path))
        else:
            files.exists(path)
    # Each file system has errors of its own.
    except Exception as error:
        # S3 says it of a key that is not there yet, where the worker may not list; forget_report asks for the rights.
        if protocol != "file" and isinstance(error, PermissionError) and not is_passing(error):
            return
        if protocol == "hdfs" and isinstance(error, OSError) and "lib" in str(error):
            raise InvalidSpecError(f"{name}: this worker cannot read hdfs://: {_missing(protocol, error)}") from error
        raise error_kind(error)(
            f"{name}: this worker cannot use it, {one_line(error)}. Nothing was submitted"
        ) from error


def _probe(report: Path) -> None:
    # Others may write to a shared folder: a name that they guess could be a link to a file of ours.
    probe = report.with_suffix(f".{secrets.token_hex(8)}.probe")
    probe.touch(exist_ok=False)
    probe.unlink(missing_ok=True)


def _missing(protocol: str, error: Exception) -> str:
    if protocol == "hdfs":
        return (
            f"{one_line(error)}. Install pyarrow and Hadoop's native client libhdfs, with JAVA_HOME, HADOOP_HOME and "
            "CLASSPATH set, or give the name node's HTTP address as webhdfs://host:9870/folder"
        )
    if protocol == "abfss":
        return "a Python package is missing. Install adlfs, on every machine that runs Airflow tasks"
    if isinstance(error, ValueError):
        return f"fsspec knows no such protocol; it brings {', '.join(_SHARED)}, and packages add others"
    return f"a Python package is missing. {str(error).rstrip('.')}, on every machine that runs Airflow tasks"


def is_passing(error: Exception) -> bool:
    """Tell whether other credentials may be there in a minute."""
    text = f"{type(error).__name__} {error}".lower()
    return any(words in text for words in _PASSING)


def error_kind(error: Exception) -> type[InvalidSpecError | JobFailedError]:
    """Return the type of error that a store's answer is: one that a retry would hear again, or one that may pass."""
    if is_passing(error):
        return JobFailedError
    no_credentials = "credential" in f"{type(error).__name__} {error}".lower()
    return InvalidSpecError if isinstance(error, _FINAL) or no_credentials else JobFailedError


def one_line(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
