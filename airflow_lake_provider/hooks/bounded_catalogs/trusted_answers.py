"""A REST catalog whose server may say neither what code runs nor where the connection's credentials go."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import StagedTable, Table
from requests import Response, Session

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.untrusted_properties import (
    is_endpoint,
    is_same_origin,
    judge,
    may_follow,
    objections_of_spark,
)
from airflow_lake_provider.hooks.bounded_catalogs.metadata_files import bound_files
from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables
from airflow_lake_provider.iceberg.metadata_facts import read_facts
from airflow_lake_provider.tables.base import ListedTable
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable, UnparsedIcebergTable

_AUTH_MANAGER = "auth.manager"
_OK = 200


class _Answered(Exception):  # noqa: N818  an answer of HTTP, not an error
    """The table, before PyIceberg parses it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class TrustedAnswers(TrustedTables, RestCatalog):
    """Part of a REST catalog that judges what the server answers.

    ``properties`` are the connection's, and what the server may say beside them. Credentials of the server are used
    for files alone.
    """

    # Those that the server's configuration names, such as ``GET /v1/{prefix}/namespaces``.
    endpoints: frozenset[str] = frozenset()

    def load_for_facts(self, table: ListedTable) -> LoadedIcebergTable:
        """Load a table without PyIceberg's parsing of the answer."""
        self._of_thread.takes_answer = True
        try:
            # With its own ways to ask, to ask again, and to refuse.
            return super().load_for_facts(table)
        except _Answered as answered:
            text = answered.text
        finally:
            self._of_thread.takes_answer = False
        answer = _parsed(text)
        return UnparsedIcebergTable(
            read_facts(str(table), answer.get("metadata") if isinstance(answer, dict) else None),
            len(text),
            lambda: self._response_to_table(table.levels, TableResponse.model_validate_json(text)),
        )

    def _take_answer(self, response: Response, **_: Any) -> None:
        asks = getattr(self._of_thread, "takes_answer", False)
        if asks and response.status_code == _OK and response.request.method == "GET":
            raise _Answered(response.text)

    def _fetch_config(self) -> None:
        self._own: dict[str, Any] = dict(self.properties)
        self._config: dict[str, dict[str, Any]] = {}
        # Of the tables that were loaded; a hook of a job loads few.
        self._answers: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        asked = self.uri
        super()._fetch_config()
        self._refuse_other_server(str(self.uri), asked)
        config = {**self._config.get("defaults", {}), **self._own, **self._config.get("overrides", {})}
        self._set_by_server = {name: value for name, value in config.items() if self._own.get(name) != value}
        verdict = judge(self._set_by_server, self._own, asked)
        # An endpoint may get its credentials with a table.
        self._tell("its configuration says", [name for name in verdict.ignored if not is_endpoint(name)])
        self.properties = {**self._own, **verdict.accepted}
        # Without the snapshots that no branch reaches, an expiry has nothing to expire.
        self.properties.pop("snapshot-loading-mode", None)

    def _refuse_other_server(self, uri: str, asked: str) -> None:
        if not is_same_origin(uri, asked):
            raise UnsupportedError(
                f"the catalog at {asked} sends its clients to another server, {uri}, which would get the credentials; "
                "if that is right, write that address into the connection"
            )

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        self._of_thread = threading.local()
        session.hooks["response"] += [refuse_redirect, self._note_config, self._take_answer]

    def _note_config(self, response: Response, **_: Any) -> None:
        # A redirect counts as "ok" for requests, and what it leads to may end with a slash.
        is_answer = response.ok and not response.is_redirect
        if is_answer and not self._config and response.url.partition("?")[0].rstrip("/").endswith("/config"):
            try:
                answer = response.json()
            except (ValueError, RecursionError):
                return  # PyIceberg reads it next, and says so
            parts = answer if isinstance(answer, dict) else {}
            self._config = {name: parts.get(name) or {} for name in ("defaults", "overrides")}
            endpoints = parts.get("endpoints")
            self.endpoints = frozenset(map(str, endpoints if isinstance(endpoints, list) else ()))

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        config = {name: str(value) for name, value in table_response.config.items()}
        return Table(**self._parts_of(identifier_tuple, table_response), config=config)

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        return StagedTable(**self._parts_of(identifier_tuple, table_response))

    def _parts_of(self, name: tuple[str, ...], answer: TableResponse) -> dict[str, Any]:
        io, place = self._files_of(name, answer), answer.metadata_location
        return {"identifier": name, "metadata_location": place, "metadata": answer.metadata, "io": io, "catalog": self}

    def _files_of(self, name: tuple[str, ...], answer: TableResponse) -> FileIO:
        location = answer.metadata_location
        vended = self._resolve_storage_credentials(answer.storage_credentials, location)
        verdict = judge({**self._set_by_server, **answer.config, **vended}, self._own, self.uri)
        self._tell(f"table {'.'.join(name)} is told", verdict.ignored)
        credentials: list[dict[str, Any]] = [each.config for each in answer.storage_credentials] or [{}]
        self._answers[name] = [{**answer.config, **each} for each in credentials]
        properties = {**self._of_table(answer.metadata.properties), **verdict.over(self._own)}
        if self._auth_manager:
            properties[_AUTH_MANAGER] = self._auth_manager
        return bound_files(load_file_io({**properties, "uri": self.uri}, location))

    def refuse_for_spark(self, own: Mapping[str, str], table: tuple[str, ...] | None = None) -> None:
        """Refuse what Iceberg-Java would follow: it asks by itself, and filters nothing.

        :param own: the connection's properties as Iceberg-Java has them.
        :param table: levels of its name, of one that was loaded; None for the configuration alone.
        :raises UnsupportedError: naming the properties.
        """
        defaults = {name: value for name, value in self._config.get("defaults", {}).items() if name not in own}
        config = {**defaults, **self._config.get("overrides", {})}
        if table is None:
            _refuse(f"catalog {self.name}", objections_of_spark(config, own, self.uri, awaits_credentials=True))
            return
        for answer in self._answers.get(table, []):
            _refuse(f"table {'.'.join(table)}", objections_of_spark({**config, **answer}, own, self.uri))


def _parsed(text: str) -> Any:
    """Return what an answer says.

    :raises JSONDecodeError: it is no JSON that anybody reads.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("the answer is nested too deeply", "", 0) from None


def _refuse(what: str, names: tuple[str, ...]) -> None:
    if names:
        raise UnsupportedError(
            f"{what}: its answer says {', '.join(map(repr, names))}, which Spark would follow, and which only the "
            "connection may say. If it is right, write it into the connection; else have the server leave it out"
        )


def refuse_redirect(response: Response, **_: Any) -> None:
    """Refuse an answer that leads to another server; a hook of a session.

    :raises UnsupportedError: it does.
    """
    if not response.is_redirect:
        return
    target = urljoin(response.url, response.headers["Location"])
    if not may_follow(target, response.url):
        raise UnsupportedError(
            f"{response.url.partition('?')[0]} redirects to another server, which would get headers and bodies with "
            f"secrets: {target.partition('?')[0][:200]!r}. If that is right, write that address into the connection"
        )
