"""The report that a driver leaves in a file, read back by the worker; an older one is removed before a submission."""

from __future__ import annotations

import json
import logging
from contextlib import suppress

import fsspec
from fsspec.implementations.local import LocalFileSystem

from airflow_lake_provider.contracts.job_report import JobFailure, JobReport, reports_from_plain
from airflow_lake_provider.operators.report_location import error_kind, said_by

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
        raise error_kind(error)(f"{what}, {said_by(error)}. The worker needs the right to delete there") from error
