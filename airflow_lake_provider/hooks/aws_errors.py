"""Errors of AWS's own client, by which Glue is asked: nobody answered, or somebody refused the keys."""

from __future__ import annotations

import sys
from typing import Any

_LEAST_SERVER_ERROR = 500
# As Glue names them in an answer of status 400; its own are in the reference of each of its actions, the others in
# "Common errors".
_BUSY = frozenset(
    {"ExpiredTokenException", "RequestExpired", "ThrottlingException", "Throttling", "TooManyRequestsException"}
)
_REFUSED = frozenset(
    {
        "AccessDeniedException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "NotAuthorized",
        "OptInRequired",
        "UnrecognizedClientException",
    }
)


def is_unanswered(error: Exception) -> bool:
    """Tell whether AWS was not reached, was busy, or no longer takes keys that are renewed by themselves."""
    if _is_one_of(error, "HTTPClientError", "ConnectionError", "CredentialRetrievalError"):
        return True
    code, status = _answer(error)
    return code in _BUSY or status >= _LEAST_SERVER_ERROR


def is_refusal(error: Exception) -> bool:
    """Tell whether AWS refused the keys, or there are none."""
    return _answer(error)[0] in _REFUSED or _is_one_of(error, "NoCredentialsError", "PartialCredentialsError")


def _answer(error: Exception) -> tuple[str, int]:
    """Return code and HTTP status of an answer of AWS; empty and 0 for an error that is none."""
    if not _is_one_of(error, "ClientError"):
        return "", 0
    response: dict[str, Any] = getattr(error, "response", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(response.get("Error", {}).get("Code", "")), int(status)


def _is_one_of(error: Exception, *names: str) -> bool:
    # The client is optional; one that was never imported raised nothing.
    exceptions = sys.modules.get("botocore.exceptions")
    return exceptions is not None and isinstance(error, tuple(getattr(exceptions, name) for name in names))
