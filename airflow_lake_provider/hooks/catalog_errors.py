"""Tell errors of a catalog's call apart: nobody answered, the answer is nonsense, or the table's metadata is broken."""

from __future__ import annotations

import errno
import gzip
import json
import re
import sys
import zlib
from typing import Any

from airflow_lake_provider.catalogs.secret_properties import is_secret
from airflow_lake_provider.contracts.errors import BrokenMetadataError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.failure_causes import (
    ACCESS_DENIED,
    CREDENTIALS,
    TLS,
    FailureKind,
    cause_in,
)

# A file that is gone or may not be read stays so. Other errors of a file system may pass.
_STAYING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, gzip.BadGzipFile)
_STAYING_NUMBERS = (errno.ELOOP, errno.ENAMETOOLONG)
# What parsing of another shape than expected ends in. MemoryError is none: another process may have had the memory.
_OF_SHAPE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError),
    *(EOFError, zlib.error),
)
# Of HTTP answers that PyIceberg has no error of its own for: RFC 9110 section 15.5.9, RFC 8470 section 5.2.
_LATER = (408, 425)
# PyIceberg's words for an error whose body is none of the REST specification, such as the page of a proxy.
_NO_ERROR = ("Could not decode json payload", "Received unexpected JSON Payload")
_MOST_DETAILS = 3
# Of SQLite, PostgreSQL and MySQL: a file or tables that something else has made.
_NO_CATALOG = re.compile(
    r"file is not a database|database disk image is malformed|no such (?:table|column)"
    r"|(?:relation|column) \S+ does not exist|(?i:unknown column|table \S+ doesn't exist)"
)
# What PyIceberg 0.12 says of types, transforms and versions of the table spec that it does not know.
_AHEAD = re.compile(
    r"Unsupported field type: |Type not recognized: |Could not parse (?:geometry|geography)\b"
    r"|Could not match (?:bucket|truncate)|Multi argument transforms are not yet supported"
    r"|Input tag '[4-9]' found using 'format_version'"
)
# Of metadata. Other members that are null are refused by Iceberg's Java, too.
_NULL_IN_JAVA = ("snapshot-log", "metadata-log")
# As the stores of PyArrow say it, in an OSError without a number.
_GONE = ("NO_SUCH_BUCKET", "NO_SUCH_KEY", "NoSuchBucket", "NoSuchKey")


def text_of(error: BaseException) -> str:
    """Return what an error says, without the contents of what could not be read.

    A catalog may name any file of this machine as metadata, and an answer may hold credentials. Pydantic shows the
    beginning and the end of either.
    """
    from pydantic import ValidationError

    # PyIceberg's own error of that name has Pydantic's as its argument.
    validation = next((each for each in (error, *error.args) if isinstance(each, ValidationError)), None)
    if validation is None:
        return f"{type(error).__name__}: {error}"
    details = validation.errors(include_url=False, include_context=False)
    listed = "; ".join(_detail(detail["loc"], detail["msg"], detail["input"]) for detail in details[:_MOST_DETAILS])
    return f"{type(error).__name__}: {validation.error_count()} in {validation.title}: {listed}"


def _detail(place: tuple[int | str, ...], message: str, given: object) -> str:
    is_named = place and not any(is_secret(str(part)) for part in place)
    shown = f", got {given!r:.80}" if is_named and isinstance(given, (str, int, float, type(None))) else ""
    return f"{'.'.join(map(str, place))}: {message}{shown}" if place else message


def is_unanswered(error: Exception) -> bool:
    """Tell whether there was no answer, or one that says to come again later."""
    from pyiceberg.exceptions import (
        AuthorizationExpiredError,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
    )

    if is_nonsense(error):
        return False
    if _status(error) in _LATER:
        return True
    answers = (AuthorizationExpiredError, ServerError, ServiceUnavailableError, TooManyRequestsError)
    is_later = isinstance(error, answers) or (_is_of_transport(error) and not _is_staying(error))
    return is_later or _is_unanswered_by_aws(error)


def _is_of_transport(error: Exception) -> bool:
    from sqlalchemy.exc import InterfaceError, OperationalError

    # Hive's client is optional; one that was never imported raised nothing.
    thrift = sys.modules.get("thrift.transport.TTransport")
    hive = (thrift.TTransportException,) if thrift is not None else ()
    # requests' errors are OSErrors and so are those of sockets and of PyArrow's object stores.
    return isinstance(error, (OperationalError, InterfaceError, OSError, *hive))


def is_nonsense(error: Exception) -> bool:
    """Tell whether an answer of HTTP or of Thrift is none of a catalog: no JSON, as a proxy's page, or another form."""
    from pydantic import ValidationError
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError
    from requests.exceptions import InvalidJSONError

    if isinstance(error, (RESTError, NoSuchTableError, NoSuchNamespaceError)) and any(
        w in str(error) for w in _NO_ERROR
    ):
        return True
    protocol = sys.modules.get("thrift.protocol.TProtocol")
    if isinstance(error, (InvalidJSONError, json.JSONDecodeError)):
        return True
    if protocol is not None and isinstance(error, protocol.TProtocolException):
        return True
    # Of an answer, whose class is named so; that of a file of metadata is the table's own.
    if not isinstance(error, ValidationError) or not error.title.endswith("Response"):
        return False
    is_no_json = any(detail["type"] == "json_invalid" for detail in error.errors(include_url=False))
    return is_no_json or not error.title.startswith("Table")


def is_forbidden(error: Exception) -> bool:
    """Tell whether a catalog knows who asks, and does not allow it: status 403 of REST, or a policy of AWS."""
    from pyiceberg.exceptions import ForbiddenError

    return isinstance(error, ForbiddenError) or _aws_answer(error)[0] == "AccessDeniedException"


def is_refused(error: Exception) -> bool:
    """Tell whether a catalog says no to the credentials or to the call itself, as for a wrong warehouse."""
    from pyiceberg.exceptions import BadRequestError, ForbiddenError, OAuthError, RESTError, UnauthorizedError

    if isinstance(error, (ForbiddenError, OAuthError, UnauthorizedError)) or _cause_in_database(error) is CREDENTIALS:
        return True
    is_other = type(error) is RESTError or isinstance(error, BadRequestError)
    return is_other and _status(error) not in _LATER and not is_nonsense(error)


def is_access_denied(error: Exception) -> bool:
    """Tell whether a file, a store or a database may not be read by who asks; a catalog says it otherwise."""
    from requests.exceptions import RequestException

    if _cause_in_database(error) is ACCESS_DENIED:
        return True
    if isinstance(error, RequestException) or not isinstance(error, OSError):
        return False
    cause = cause_in([f"{type(error).__name__}: {error}"])
    return cause is not None and cause.kind is ACCESS_DENIED


def is_untrusted(error: Exception) -> bool:
    """Tell whether a server does not encrypt, or has a certificate that is not trusted: it will not have another."""
    is_of_transport = _is_of_transport(error) or _is_aws_error(error, "HTTPClientError", "ConnectionError")
    return is_of_transport and TLS.find(str(error)) is not None


def is_no_catalog(error: Exception) -> bool:
    """Tell whether a database answered, and what is in it is no catalog of Iceberg, or one of another version."""
    from sqlalchemy.exc import DBAPIError

    return isinstance(error, DBAPIError) and _NO_CATALOG.search(str(error.orig)) is not None


def _cause_in_database(error: Exception) -> FailureKind | None:
    """Return what a database's error is by its words, as a driver of Spark tells it."""
    from sqlalchemy.exc import DBAPIError

    cause = cause_in([f"{type(error).__name__}: {error.orig}"]) if isinstance(error, DBAPIError) else None
    return cause.kind if cause is not None else None


def _status(error: Exception) -> int | None:
    """Return the status of the HTTP answer that PyIceberg made an error of."""
    return getattr(getattr(error.__cause__, "response", None), "status_code", None)


def is_unreadable(error: Exception) -> bool:
    """Tell whether an error of loading a table says that its metadata is broken, or gone."""
    from pyiceberg.exceptions import NoSuchPropertyException
    from pyiceberg.exceptions import ValidationError as InvalidMetadataError

    return isinstance(error, (*_OF_SHAPE, NoSuchPropertyException, InvalidMetadataError)) or _is_staying(error)


def is_ahead(error: Exception) -> bool:
    """Tell whether metadata has what other writers may make and PyIceberg does not read: it is not broken by that."""
    from pydantic import ValidationError

    validation = next((each for each in (error, *error.args) if isinstance(each, ValidationError)), None)
    if validation is None:
        return _AHEAD.search(str(error)) is not None
    return any(
        _AHEAD.search(detail["msg"]) or _is_of_another_writer(detail["type"], detail["loc"], detail["input"])
        for detail in validation.errors(include_url=False, include_context=False)
    )


def _is_of_another_writer(kind: str, place: tuple[int | str, ...], given: object) -> bool:
    """Tell whether Iceberg's Java takes what PyIceberg refuses."""
    if kind == "list_type":
        return given is None and place[-1] in _NULL_IN_JAVA
    # Engines have blobs of their own in statistics files. Snapshots of version 1 may list their manifests themselves.
    is_blob = kind == "literal_error" and "blob-metadata" in place
    return is_blob or (kind == "missing" and place[-1] == "manifest-list")


def is_gone(error: Exception) -> bool:
    """Tell whether there is no such file."""
    return isinstance(error, FileNotFoundError) or any(word in str(error) for word in _GONE)


def unreadable(table: str, error: Exception, why: str) -> LakeProviderError:
    """Return the error of a table whose metadata is not read.

    :param table: it, and the connection.
    :param why: what the error says, without secrets.
    """
    if is_ahead(error):
        return UnsupportedError(
            f"{table}: PyIceberg, by which workers look at tables, does not read its metadata: {why}. It need not be "
            "broken, so leave it as it is. Without these operators, Spark may read and write the table"
        )
    broken = "file is gone" if is_gone(error) else "cannot be read"
    return BrokenMetadataError(
        f"{table}: its metadata {broken}: {why}. Restore the metadata file, or register an earlier one"
    )


def _is_staying(error: Exception) -> bool:
    if isinstance(error, _STAYING) or (isinstance(error, OSError) and error.errno in _STAYING_NUMBERS):
        return True
    return isinstance(error, OSError) and any(word in str(error) for word in _GONE)


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


def _is_unanswered_by_aws(error: Exception) -> bool:
    """Tell whether AWS was not reached, was busy, or no longer takes keys that are renewed by themselves."""
    if _is_aws_error(error, "HTTPClientError", "ConnectionError", "CredentialRetrievalError"):
        return True
    code, status = _aws_answer(error)
    return code in _BUSY or status >= _LEAST_SERVER_ERROR


def is_refused_by_aws(error: Exception) -> bool:
    """Tell whether AWS refused the keys, or there are none."""
    return _aws_answer(error)[0] in _REFUSED or _is_aws_error(error, "NoCredentialsError", "PartialCredentialsError")


def _aws_answer(error: Exception) -> tuple[str, int]:
    """Return code and HTTP status of an answer of AWS; empty and 0 for an error that is none."""
    if not _is_aws_error(error, "ClientError"):
        return "", 0
    response: dict[str, Any] = getattr(error, "response", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(response.get("Error", {}).get("Code", "")), int(status)


def _is_aws_error(error: Exception, *names: str) -> bool:
    # The client is optional; one that was never imported raised nothing.
    exceptions = sys.modules.get("botocore.exceptions")
    return exceptions is not None and isinstance(error, tuple(getattr(exceptions, name) for name in names))
