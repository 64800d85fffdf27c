"""Tell whether an address, or a redirect, leads to the server that was asked: the same scheme, host and port."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def origin(address: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port; None for what is no address of the web."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or "\\" in address:
        return None
    return parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme]


def is_same_origin(address: str, catalog: str) -> bool:
    """Tell whether an address is one of the catalog's server; a path is.

    :param address: named by somebody else.
    :param catalog: address of the catalog.
    """
    if address != address.strip() or "\\" in address or address.startswith("//"):
        return False
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address):
        return origin(address) is not None and origin(address) == origin(catalog)
    return True


def may_follow(redirect: str, asked: str) -> bool:
    """Tell whether a redirect leads to the server that was asked, or to the same host by TLS.

    :param redirect: absolute address.
    :param asked: the one that answered so.
    """
    there, here = origin(redirect), origin(asked)
    if there is None or here is None:
        return False
    return there == here or (there == ("https", here[1], 443) and here[::2] == ("http", 80))
