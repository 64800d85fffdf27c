"""Schemas of a registry with Confluent's API, over plain HTTP."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.source_access import RegistryAccess

_SECONDS = 30
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
# Of the codes that blame who asks, those that another try may change.
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
_NAMED = ("record", "error", "enum", "fixed")


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry, asked by the driver."""

    access: RegistryAccess

    def writer(self, number: int) -> str:
        """Return the schema of an id, as JSON.

        :raises LakeProviderError: the registry has no such schema, or does not answer.
        """
        return self._schema(f"/schemas/ids/{number}", f"schema {number}")

    def latest(self, subject: str, advice: str = "") -> str:
        """Return the latest schema of a subject, as JSON.

        :param advice: what to do where there is no such subject.
        :raises LakeProviderError: the registry has no such subject, or does not answer.
        """
        what = f"subject {subject}"
        try:
            return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest", what)
        except BadInputError as error:
            # Not of one that it refers to.
            if not advice or f"has no {what};" not in str(error):
                raise
            raise BadInputError(f"{error} {advice}") from error

    def _schema(self, path: str, what: str) -> str:
        definitions: dict[str, Any] = {}
        try:
            schema = self._text(path, what, definitions)
            return json.dumps(with_definitions(json.loads(schema), definitions)) if definitions else schema
        except LakeProviderError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidConnectionError(
                f"{what} of {self.access.url} refers to other schemas, and cannot be read with them: {error!r}"
            ) from error

    def _text(self, path: str, what: str, definitions: dict[str, Any]) -> str:
        """Return a schema as it was registered, and add those that it refers to, by their names."""
        answered = self._get(path, what)
        if answered.get("schemaType", "AVRO") != "AVRO":
            raise UnsupportedError(f"{what} of {self.access.url} is {answered['schemaType']}, and Avro is read")
        for each in answered.get("references") or ():
            name, subject, version = each["name"], each["subject"], each["version"]
            if name not in definitions:
                definitions[name] = None
                place = f"/subjects/{quote(subject, safe='')}/versions/{version}"
                definitions[name] = json.loads(self._text(place, f"version {version} of {subject}", definitions))
        return str(answered["schema"])

    def _get(self, path: str, what: str) -> dict[str, Any]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        address = f"{self.access.url}{path}"
        # Of http or https, as the connection was checked.
        request = urllib.request.Request(address, headers=headers)  # noqa: S310
        if self.access.user or self.access.password:
            login = f"{self.access.user}:{self.access.password}".encode()
            # Not to where it is redirected, which may be another host.
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                answered = json.load(answer)
        except urllib.error.HTTPError as error:
            raise self._refused(error.code, what) from error
        except (OSError, HTTPException) as error:
            raise JobFailedError(f"the registry {self.access.url} does not answer: {error}") from error
        except ValueError as error:
            raise InvalidConnectionError(
                f"{address} answers no JSON; is it a registry with Confluent's API?"
            ) from error
        if not isinstance(answered, dict) or "schema" not in answered:
            raise InvalidConnectionError(f"{address} answers no schema; is it a registry with Confluent's API?")
        return answered

    def _refused(self, code: int, what: str) -> LakeProviderError:
        url = self.access.url
        if code in _REFUSED:
            return AccessDeniedError(f"{url}: user {self.access.user!r} may not read {what}, it answers {code}")
        if code == HTTPStatus.NOT_FOUND:
            return BadInputError(f"{url} has no {what}; is it the registry that the producers of the topic use?")
        answered = f"the registry {url} answers {code} for {what}"
        if HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR and code not in _PASSING:
            return InvalidConnectionError(f"{answered}; is it a registry with Confluent's API, and its address whole?")
        return JobFailedError(answered)


def with_definitions(schema: Any, definitions: dict[str, Any], namespace: str = "") -> Any:
    """Return a schema of Avro with the definition of each name where the name is used first, as Avro's parser wants it.

    :param definitions: by full name; what is used is taken out.
    :param namespace: of names without one.
    """
    if isinstance(schema, list):
        return [with_definitions(each, definitions, namespace) for each in schema]
    if isinstance(schema, str):
        return _defined(schema, definitions, namespace)
    if schema["type"] in _NAMED:
        owner = schema["name"].rpartition(".")[0] or schema.get("namespace", namespace)
        fields = [
            {**field, "type": with_definitions(field["type"], definitions, owner)} for field in schema.get("fields", ())
        ]
        return {**schema, "fields": fields} if fields else schema
    if schema["type"] in ("array", "map"):
        part = "items" if schema["type"] == "array" else "values"
        return {**schema, part: with_definitions(schema[part], definitions, namespace)}
    kind = with_definitions(schema["type"], definitions, namespace)
    return schema if kind == schema["type"] else kind


def _defined(name: str, definitions: dict[str, Any], namespace: str) -> Any:
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    used = full if full in definitions else name
    if used not in definitions:
        return name
    definition = definitions.pop(used)
    if isinstance(definition, dict) and "." not in definition.get("name", "."):
        # Where it is used it would get the namespace around it.
        definition = {"namespace": "", **definition}
    return with_definitions(definition, definitions)
