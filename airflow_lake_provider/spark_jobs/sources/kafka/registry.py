"""Schemas of a registry with Confluent's API, over plain HTTP."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
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


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry, asked by the driver."""

    access: RegistryAccess

    def writer(self, number: int) -> str:
        """Return the schema of an id, as JSON.

        :raises LakeProviderError: the registry has no such schema, or does not answer.
        """
        return self._schema(f"/schemas/ids/{number}", f"schema {number}")

    def latest(self, subject: str) -> str:
        """Return the latest schema of a subject, as JSON.

        :raises LakeProviderError: the registry has no such subject, or does not answer.
        """
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject {subject}")

    def _schema(self, path: str, what: str) -> str:
        answered = self._get(path, what)
        if answered.get("schemaType", "AVRO") != "AVRO":
            raise UnsupportedError(f"{what} of {self.access.url} is {answered['schemaType']}, and Avro is read")
        if answered.get("references"):
            raise UnsupportedError(f"{what} of {self.access.url} refers to other schemas, which is not supported yet")
        return str(answered["schema"])

    def _get(self, path: str, what: str) -> dict[str, object]:
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
        return JobFailedError(f"the registry {url} answers {code} for {what}")
