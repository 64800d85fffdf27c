"""A REST catalog whose requests end in time: those for its configuration and for tokens, too.

A server may be silent, slow byte by byte, huge, or packed many times over. The timeouts of ``requests`` are for each
read. Here the deadline of the whole call counts, for headers as for bodies, and the bytes of an unpacked answer.
"""

from __future__ import annotations

import http.client
import io
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from pyiceberg.exceptions import NoSuchNamespaceError, OAuthError, RESTError
from requests import Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError
from requests.utils import prepend_scheme_if_needed, select_proxy
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.poolmanager import ProxyManager
from urllib3.util.connection import allowed_gai_family

from airflow_lake_provider.contracts.errors import BrokenMetadataError, InvalidConnectionError
from airflow_lake_provider.hooks.bounded_catalogs.trusted_answers import TrustedAnswers, refuse_redirect
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, deadline, most_bytes, refuse_size, seconds_left
from airflow_lake_provider.tables.base import CatalogPolicy, ListedTable

log = logging.getLogger(__name__)
# Of Apache Polaris, which names it among the endpoints of its configuration.
_POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"
# Polaris has four types of policies for maintenance, and the rest are rare.
_MOST_PAGES = 10
_NOT_OFFERED = (400, 404, 405, 501)


class LakeRestCatalog(TrustedAnswers):
    """PyIceberg's catalog, with limits for each of its calls, and for what its server may say."""

    def listed_in(self, namespace: tuple[str, ...]) -> list[ListedTable]:
        """Return the tables of a namespace, and its views where the catalog has some and shows them."""
        tables = super().listed_in(namespace)
        try:
            views = self.list_views(namespace)
        # Some name the endpoint and answer 404, as for a namespace that is gone, or nothing that is a list of views.
        except (RESTError, NotImplementedError, NoSuchNamespaceError, ValueError) as error:
            log.warning("catalog %s: it does not list the views of %s: %s", self.name, ".".join(namespace), error)
            return tables
        return [*tables, *(ListedTable(tuple(levels), foreign="a view") for levels in views)]

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


_REFUSED = frozenset({400, 401, 403})


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
        if answer.status_code in _REFUSED:
            raise OAuthError(f"{self.token_url} refused the client: {answer.status_code} {answer.reason}")
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


# A catalog has no reason for more; each is a request of its own.
_MOST_REDIRECTS = 5
_PIECE = 64 * 1024
# What an answer has beside its body: status, headers, and the frame of each chunk.
_FRAME_BYTES = 1024 * 1024


class _BoundedReads(io.RawIOBase):
    """Read a socket until a deadline, and no more than so many bytes."""

    def __init__(self, raw: Any, connected: Any) -> None:
        self._raw, self._socket = raw, connected
        self._until, self._most, self._read = deadline(), most_bytes() + _FRAME_BYTES, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(seconds_left(self._until))
        read: int | None = self._raw.readinto(buffer)
        self._read += read or 0
        refuse_size(self._read, self._most, "the answer")
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """An answer that is read from its first byte on within the limits of the call."""

    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp: io.BufferedReader = io.BufferedReader(_BoundedReads(self.fp.detach(), sock))


class _BoundedConnect(HTTPConnection):
    """Try each address of a host in turn; urllib3 gives each of them the whole of the timeout."""

    response_class = _BoundedResponse

    def _new_conn(self) -> socket.socket:
        name = self._dns_host
        try:
            resolved = socket.getaddrinfo(name, self.port, allowed_gai_family(), socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return super()._new_conn()  # says so
        addresses = list(dict.fromkeys(str(each[4][0]) for each in resolved))
        try:
            for left, self._dns_host in zip(range(len(addresses), 0, -1), addresses, strict=True):
                self.timeout = min(CONNECT_SECONDS, seconds_left() / left)
                try:
                    return super()._new_conn()
                except HTTPError:
                    if left == 1:
                        raise
        finally:
            self._dns_host = name  # a certificate is of the name
        return super()._new_conn()


class _Connection(_BoundedConnect):
    pass


class _SecureConnection(_BoundedConnect, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_with_scheme: Any = prepend_scheme_if_needed
_POOLS = {"http": _Pool, "https": _SecurePool}


class BoundedRequests:
    """Adapter of ``requests`` that sends through another one, within the limits of the call.

    :param inner: such as one that signs requests.
    """

    def __init__(self, inner: HTTPAdapter | None = None) -> None:
        self._inner = inner or HTTPAdapter()
        self._inner.poolmanager.pool_classes_by_scheme = _POOLS

    def send(
        self,
        request: Any,
        stream: bool = False,  # noqa: ARG002  read whole, to count it
        timeout: Any = None,  # noqa: ARG002  that of the call counts
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and read its whole answer.

        :raises BrokenMetadataError: the answer has more bytes than allowed.
        :raises OSError: there was no answer in time; errors of requests are among them.
        """
        if proxy := select_proxy(request.url, proxies):
            manager = self._inner.proxy_manager_for(_with_scheme(proxy, "http"))
            if type(manager) is not ProxyManager:
                scheme = urlsplit(proxy).scheme
                raise InvalidConnectionError(
                    f"the proxy for {urlsplit(request.url).hostname} is of {scheme!r}, expected http or https; the "
                    "deadline of a call does not hold for others. Name one in HTTPS_PROXY, or the host in NO_PROXY"
                )
            manager.pool_classes_by_scheme = _POOLS
        left = seconds_left()
        limits = (min(CONNECT_SECONDS, left), left)
        response = self._inner.send(request, True, limits, verify, cert, proxies)
        try:
            _read(response)
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def _read(response: Any) -> None:
    if "," in response.headers.get("Content-Encoding", ""):
        # Each layer may be a thousand times as large as the one around it, and is unpacked whole.
        raise ChunkedEncodingError(f"the answer is packed as {response.headers['Content-Encoding']!r}, expected once")
    most, body = most_bytes(), bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        refuse_size(len(body), most, "the answer")
    response._content = bytes(body)


def bound(session: Session) -> Session:
    """Let a session send its requests within the limits of the call; return it."""
    session.mount("https://", BoundedRequests())  # type: ignore[arg-type]  # has the methods of an adapter
    session.mount("http://", BoundedRequests())  # type: ignore[arg-type]  # likewise
    session.max_redirects = _MOST_REDIRECTS
    return session
