"""A REST catalog whose requests end in time: those for its configuration and for tokens, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from requests import Session

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.hooks.bounded_catalogs.http_requests import BoundedRequests, bound
from airflow_lake_provider.hooks.bounded_catalogs.trusted_answers import TrustedAnswers, refuse_redirect
from airflow_lake_provider.tables.base import CatalogPolicy, ListedTable

log = logging.getLogger(__name__)
# Of Apache Polaris, which names it among the endpoints of its configuration.
_POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"
# Polaris has four types of policies for maintenance, and the rest are rare.
_MOST_PAGES = 10
_NOT_OFFERED = (400, 404, 405, 501)


class LakeRestCatalog(TrustedAnswers):
    """PyIceberg's catalog, with limits for each of its calls, and for what its server may say."""

    def policies_for(self, table: ListedTable) -> list[CatalogPolicy]:
        """Return the policies that Apache Polaris applies to a table, inherited ones first.

        :raises BrokenMetadataError: the answer is none of that endpoint.
        """
        if _POLICIES not in self.endpoints:
            return []
        policies = [_applicable(each) for page in self._policy_pages(table) for each in page]
        return [policy for _, policy in sorted(policies, key=lambda each: not each[0])]

    def _policy_pages(self, table: ListedTable) -> Iterator[list[Any]]:
        *namespace, name = table.levels
        asked = {"namespace": "\x1f".join(namespace), "target-name": name}
        url = f"{self.uri.rstrip('/')}/polaris/v1/{self.properties.get('prefix', '')}/applicable-policies"
        for _ in range(_MOST_PAGES):
            answer = self._session.get(url, params=asked)
            if answer.status_code == 403:
                log.warning(
                    "catalog %s: it does not show the policies of table %s to this connection", self.name, table
                )
                return
            if answer.status_code in _NOT_OFFERED:
                return
            answer.raise_for_status()
            page = answer.json()
            policies = page.get("applicable-policies") if isinstance(page, dict) else None
            if not isinstance(policies, list):
                raise BrokenMetadataError(f"{table}: the answer of {_POLICIES} has no list of applicable-policies")
            yield policies
            if not (token := page.get("next-page-token")):
                return
            asked["page-token"] = str(token)
        raise BrokenMetadataError(f"{table}: the catalog has more than {_MOST_PAGES} pages of policies for it")

    def _config_headers(self, session: Session) -> None:
        # The first that is done with each new session, before it asks for a token.
        bound(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        if isinstance(self._auth_manager, OAuth2AuthManager):
            self._auth_manager.token_provider = _BoundedTokens.like(self._auth_manager.token_provider)
        return session

    def _init_sigv4(self, session: Session) -> None:
        super()._init_sigv4(session)
        signing: Any = session.get_adapter(self.uri)
        session.mount(self.uri, BoundedRequests(signing))  # type: ignore[arg-type]  # has the methods of an adapter


class _BoundedTokens(OAuth2TokenProvider):
    """PyIceberg's asks without a timeout, and holds a lock meanwhile."""

    @classmethod
    def like(cls, other: OAuth2TokenProvider) -> _BoundedTokens:
        names = ("client_id", "client_secret", "token_url", "scope", "refresh_margin", "expires_in")
        return cls(**{name: getattr(other, name) for name in names})

    def get_token(self) -> str:
        if self._token and time.monotonic() < self._expires_at:
            return self._token
        data = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        with bound(Session()) as session:
            session.hooks["response"].append(refuse_redirect)
            answer = session.post(self.token_url, data=data, headers={"Authorization": self._client_secret_header})
        answer.raise_for_status()
        payload = answer.json()
        lifetime = payload.get("expires_in", self.expires_in)
        if lifetime is None:
            raise ValueError(f"{self.token_url} does not say how long its token is valid; give expires_in")
        token = str(payload["access_token"])
        self._token, self._expires_at = token, int(time.monotonic() + float(lifetime) - self.refresh_margin)
        return token


def _applicable(given: Any) -> tuple[bool, CatalogPolicy]:
    """Return whether a policy is inherited, and the policy."""
    parts = given if isinstance(given, dict) else {}
    kind, name, content = (parts.get(each) for each in ("policy-type", "name", "content"))
    texts = (each if isinstance(each, str) else "" for each in (kind, name, content))
    return bool(parts.get("inherited")), CatalogPolicy(*texts)
