"""A REST catalog whose requests end in time: those for its configuration and for tokens, too."""

from __future__ import annotations

import time
from typing import Any

from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from requests import Session

from airflow_lake_provider.hooks.bounded_catalogs.http_requests import BoundedRequests, bound
from airflow_lake_provider.hooks.bounded_catalogs.trusted_answers import TrustedAnswers, refuse_redirect


class LakeRestCatalog(TrustedAnswers):
    """PyIceberg's catalog, with limits for each of its calls, and for what its server may say."""

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
