"""A connection as Airflow keeps it; one that a secrets backend could not read is told from one that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError, ErrorType
from airflow.sdk.log import redact  # type: ignore[attr-defined]  # of its module of secrets, which is private

from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.contracts.errors import CatalogUnavailableError, InvalidConnectionError, LakeProviderError

if TYPE_CHECKING:
    from airflow.sdk import Connection

_ENVIRONMENT = "EnvironmentVariablesBackend"
# Without its own database Airflow does nothing at all, and a command that needs none has none.
_METASTORE = "MetastoreBackend"
# Of tasks and triggers: it takes every error of the API server for a connection that is not there.
_API_SERVER = "ExecutionAPISecretsBackend"
_LONGEST_SHOWN = 300


def stored_connection(conn_id: str, example: str, *, kind: str = "connection") -> Connection:
    """Return a connection.

    :param example: connection that would do, for the message.
    :param kind: what the message calls it.
    :raises InvalidConnectionError: there is none, or what is stored of it cannot be read as one.
    :raises CatalogUnavailableError: a secrets backend failed, so that nobody knows whether there is one.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        missing = InvalidConnectionError(f"{kind} {conn_id!r} does not exist; create it, for example as {example}")
        raise _unread(conn_id) or missing from error


def _unread(conn_id: str) -> LakeProviderError | None:
    """Return why a backend has not read a connection: Airflow goes on to the next one, and says so at DEBUG alone."""
    # Airflow itself has imported it by now.
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for backend in ensure_secrets_backend_loaded():
        name = type(backend).__name__
        if name == _METASTORE:
            continue
        try:
            if name == _API_SERVER and not _api_server_has(conn_id):
                continue
            connection = backend.get_connection(conn_id=conn_id)
            if connection is not None:
                # As Airflow does with each that it has read.
                connection.get_uri()
                return CatalogUnavailableError(f"connection {conn_id!r}: {name} did not answer at first, and does now")
        except AirflowNotFoundException:
            continue
        # Whatever a backend of others raises.
        except Exception as error:  # noqa: BLE001
            return _reason(conn_id, name, error)
    return None


def _api_server_has(conn_id: str) -> bool:
    """Ask the supervisor of this process, which asks the API server.

    :raises AirflowRuntimeError: nobody knows.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    answer = SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    if not isinstance(answer, ErrorResponse):
        return answer is not None
    if answer.error is not ErrorType.CONNECTION_NOT_FOUND:
        raise AirflowRuntimeError(answer)
    return False


def _reason(conn_id: str, backend: str, error: Exception) -> LakeProviderError:
    kind = type(error).__name__
    if backend == _ENVIRONMENT:
        # Its text may have a part of the password in it.
        return refused(
            conn_id,
            f"the environment variable AIRFLOW_CONN_{conn_id.upper()} cannot be read as a connection: {kind}. Write a "
            "URI, or a JSON object whose login and password are texts and whose port is a number",
        )
    if isinstance(error, (ValueError, TypeError, KeyError)) and not isinstance(error, OSError):
        return refused(conn_id, f"what {backend} has of it cannot be read as a connection: {kind}")
    message = str(redact(str(error)))[:_LONGEST_SHOWN]
    return CatalogUnavailableError(
        f"connection {conn_id!r} cannot be looked up: the secrets backend {backend} failed: {kind}: {message}"
    )
