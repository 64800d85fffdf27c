"""Connections that a secrets backend could not read are told from those that are not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk import configuration
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse, GetConnection
from airflow.secrets import BaseSecretsBackend

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, InvalidConnectionError
from airflow_lake_provider.hooks.database_connection import database_access
from airflow_lake_provider.hooks.kafka_connection import kafka_access, registry_access
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget

# All that reads a connection by its id.
READERS: dict[str, Callable[[str], Any]] = {
    "catalog": lambda conn_id: LakeCatalogHook(conn_id).connection,
    "spark": lambda conn_id: SparkTarget.read(conn_id, None),
    "database": database_access,
    "kafka": kafka_access,
    "registry": registry_access,
}
of_each_kind = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


class VaultDownError(Exception):
    """Of the client of a store of secrets: no error of Python's own."""


class SilentVault(BaseSecretsBackend):
    """A store of secrets that is sealed, or that has something else under the name."""

    error: Exception = VaultDownError("Vault is sealed, on get https://vault.example.com/v1/sys/seal")

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
        raise self.error


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[SilentVault]]:
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", f"{__name__}.SilentVault")
    configuration.clear_secrets_backends_cache()
    yield SilentVault
    configuration.clear_secrets_backends_cache()


@of_each_kind
@pytest.mark.usefixtures("vault")
def test_an_outage_of_the_secrets_backend_is_worth_a_retry(read: Callable[[str], Any]) -> None:
    with pytest.raises(
        CatalogUnavailableError,
        match="connection 'away' cannot be looked up: the secrets backend SilentVault failed: VaultDownError: Vault is",
    ) as raised:
        read("away")
    assert raised.value.retry_may_help


@pytest.mark.usefixtures("vault")
def test_a_connection_that_another_backend_has_is_read_during_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_THERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    assert SparkTarget.read("there", None).master == "local[2]"


def test_what_a_backend_has_and_nobody_can_read_is_no_outage(
    vault: type[SilentVault], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "error", ValueError("Port could not be cast to integer value as 'pass'"))
    with pytest.raises(
        InvalidConnectionError, match=r"what SilentVault has of it cannot be read.*ValueError"
    ) as raised:
        LakeCatalogHook("odd").connection  # noqa: B018
    assert "pass" not in str(raised.value)


def test_a_backend_that_says_itself_that_there_is_none_is_no_outage(
    vault: type[SilentVault], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "error", AirflowNotFoundException("no secret of that name"))
    with pytest.raises(InvalidConnectionError, match="connection 'nowhere' does not exist"):
        LakeCatalogHook("nowhere").connection  # noqa: B018


class Supervisor:
    """The far end of a task's or a trigger's socket; an error of the API server is raised at this end."""

    def __init__(self, *answers: ErrorResponse | ConnectionResult | None) -> None:
        self.answers = list(answers)

    def send(self, message: object) -> ErrorResponse | ConnectionResult | None:
        if not isinstance(message, GetConnection):
            return None
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ErrorResponse) and answer.error is ErrorType.API_SERVER_ERROR:
            raise AirflowRuntimeError(answer)
        return answer


@pytest.fixture
def on_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Supervisor], None]]:
    configuration.clear_secrets_backends_cache()
    yield lambda supervisor: monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    configuration.clear_secrets_backends_cache()


NOT_FOUND = ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND, detail={"conn_id": "away"})
DOWN = ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 503, "message": "Bad gateway"})


@of_each_kind
@pytest.mark.parametrize("answer", [DOWN, ErrorResponse(error=ErrorType.GENERIC_ERROR)], ids=["server", "other"])
def test_an_outage_of_the_api_server_is_worth_a_retry(
    read: Callable[[str], Any], answer: ErrorResponse, on_worker: Callable[[Supervisor], None]
) -> None:
    on_worker(Supervisor(answer))
    with pytest.raises(
        CatalogUnavailableError,
        match=r"'away' cannot be looked up: the secrets backend ExecutionAPISecretsBackend failed: .*_ERROR",
    ) as raised:
        read("away")
    assert raised.value.retry_may_help


@of_each_kind
def test_a_connection_that_the_api_server_has_not_is_missing(
    read: Callable[[str], Any], on_worker: Callable[[Supervisor], None]
) -> None:
    on_worker(Supervisor(NOT_FOUND))
    with pytest.raises(InvalidConnectionError, match="'away' does not exist; create it"):
        read("away")


def test_an_api_server_that_answers_again_is_worth_a_retry(on_worker: Callable[[Supervisor], None]) -> None:
    fields = {"conn_id": "away", "conn_type": "iceberg", "host": "http://127.0.0.1:1"}
    missing = dict.fromkeys(("schema", "login", "password", "port", "extra"))
    on_worker(Supervisor(DOWN, ConnectionResult.model_validate({**fields, **missing})))
    with pytest.raises(CatalogUnavailableError, match="did not answer at first, and does now"):
        LakeCatalogHook("away").connection  # noqa: B018


@of_each_kind
@pytest.mark.parametrize(
    "stored",
    [
        '{"conn_type": "iceberg", ',
        '{"conn_type": "iceberg", "extras": {}}',
        '{"conn_type": "iceberg", "password": 12345678}',
        '{"conn_type": "iceberg", "port": "eight"}',
        "iceberg://id:hunter2@http://127.0.0.1:1/api",
    ],
)
def test_a_variable_that_holds_no_connection_is_named_and_not_shown(
    read: Callable[[str], Any], stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TYPED_BY_HAND", stored)
    with pytest.raises(
        InvalidConnectionError, match="environment variable AIRFLOW_CONN_TYPED_BY_HAND cannot be read as a connection"
    ) as raised:
        read("typed_by_hand")
    assert not any(secret in str(raised.value) for secret in ("hunter2", "12345678"))


@of_each_kind
def test_a_connection_that_nobody_has_is_shown_how_to_make(read: Callable[[str], Any]) -> None:
    with pytest.raises(InvalidConnectionError, match=r"onnection 'nowhere' does not exist; create it.*\"conn_type\""):
        read("nowhere")
