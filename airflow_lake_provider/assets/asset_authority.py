"""The authority of a table's asset URI, as a DAG file can know it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

from airflow_lake_provider.contracts.errors import InvalidConnectionError

if TYPE_CHECKING:
    from airflow.sdk.bases.secrets_backend import BaseSecretsBackend

_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+")


def asset_authority(lake_conn_id: str) -> str:
    """Return the connection's extra ``asset_authority``, or the connection id where it has none or does not exist.

    A connection that exists but cannot be read must not look like one that does not exist: the URI is the asset's
    identity, and would change for one parse of the DAG file.

    :raises InvalidConnectionError: when the extra is not JSON or the authority does not fit into a URI.
    :raises Exception: whatever a secrets backend raises.
    """
    authority = _extra_authority(lake_conn_id) or lake_conn_id
    return checked_authority(authority)


def checked_authority(authority: str) -> str:
    """Return ``authority``.

    :raises InvalidConnectionError: unless it has only letters, digits, ``.``, ``_`` and ``-``.
    """
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidConnectionError(
            f"asset authority {authority!r} does not fit into an asset URI; use letters, digits, '.', '_' and '-'"
        )
    return authority


def _extra_authority(conn_id: str) -> str | None:
    # BaseHook.get_connection hides the errors of backends and ends in "not defined", hence this walk over them.
    for backend in ensure_secrets_backend_loaded():
        found, extra = _ask(backend, conn_id)
        if found:
            return _authority_in(conn_id, extra)
    return None


def _ask(backend: BaseSecretsBackend, conn_id: str) -> tuple[bool, str | None]:
    if isinstance(backend, ExecutionAPISecretsBackend):
        return _ask_api_server(conn_id)
    connection = backend.get_connection(conn_id=conn_id)
    return connection is not None, connection.extra if connection is not None else None


def _ask_api_server(conn_id: str) -> tuple[bool, str | None]:
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    answer = SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    if isinstance(answer, ErrorResponse):
        if answer.error is ErrorType.CONNECTION_NOT_FOUND:
            return False, None
        raise AirflowRuntimeError(answer)
    return True, getattr(answer, "extra", None)


def _authority_in(conn_id: str, extra: str | None) -> str | None:
    try:
        read = json.loads(extra or "{}")
    except json.JSONDecodeError as error:
        raise InvalidConnectionError(f"connection {conn_id!r}: its extra is not JSON ({error.msg})") from None
    authority = read.get("asset_authority") if isinstance(read, dict) else None
    return None if authority is None else str(authority)
