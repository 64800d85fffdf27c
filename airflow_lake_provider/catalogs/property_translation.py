"""The PyIceberg properties a connection may hold, and what Iceberg-Java calls each of them.

The left side was read in PyIceberg 0.12 (``pyiceberg.io``, ``pyiceberg.catalog.*``). The right side was read in Iceberg
1.12 (``S3FileIOProperties``, ``AwsClientProperties``, ``AwsProperties``, ``HttpClientProperties``, ``GCPProperties``,
``AzureProperties``, ``OAuth2Properties``, ``AuthProperties``, ``RESTCatalogProperties``, ``JdbcUtil``,
``MetastoreLock``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

KINDS = ("rest", "sql", "hive", "glue")
_JAVA_INT = 2**31
_SSE_TYPES = {"AES256": "s3", "aws:kms": "kms", "aws:kms:dsse": "dsse-kms"}


def _same(value: str) -> str:
    return value


def truth(value: str) -> bool:
    """Read a boolean property as PyIceberg does (``pyiceberg.types.strtobool``).

    :param value: y, yes, t, true, on, 1 or their opposites.
    :raises ValueError: when it is none of these.
    """
    lowered = value.lower()
    if lowered in ("y", "yes", "t", "true", "on", "1"):
        return True
    if lowered in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _bool(value: str) -> str:
    return str(truth(value)).lower()


def _opposite(value: str) -> str:
    return str(not truth(value)).lower()


def milliseconds(seconds: str) -> int:
    """Read seconds as milliseconds.

    :raises ValueError: they are no number from 0 on, or more than Java has an ``int`` for.
    """
    number = float(seconds) * 1000
    if not 0 <= number < _JAVA_INT:
        raise ValueError(f"{seconds!r} is no number of seconds from 0 to {_JAVA_INT // 1000}")
    return round(number)


def _milliseconds(seconds: str) -> str:
    return str(milliseconds(seconds))


def _whole(value: str) -> str:
    if not (value.isascii() and value.isdecimal()):
        raise ValueError(f"{value!r} is no whole number from 0 on, such as 100")
    return value


def _page_size(value: str) -> str:
    if not int(_whole(value)):
        raise ValueError("a page has at least one entry")
    return value


def _sse_type(value: str) -> str:
    if value not in _SSE_TYPES:
        raise ValueError(f"{value!r} is none of {', '.join(_SSE_TYPES)}")
    return _SSE_TYPES[value]


def _schema_version(value: str) -> str:
    if value not in ("v0", "v1"):
        raise ValueError(f"{value!r} is neither v0 nor v1")
    return value.upper()


@dataclass(frozen=True)
class JavaProperty:
    """One property of PyIceberg.

    :param java: Iceberg-Java's name, or empty when several are translated together, in `object_stores` and
        `spark_catalog`.
    :param kinds: catalog kinds that read it; all when empty.
    :param convert: value of PyIceberg -> value of Iceberg-Java; ValueError when it is not understood.
    """

    java: str = ""
    kinds: tuple[str, ...] = ()
    convert: Callable[[str], str] = _same


def _rest(java: str, convert: Callable[[str], str] = _same) -> JavaProperty:
    return JavaProperty(java, ("rest",), convert)


TRANSLATED: dict[str, JavaProperty] = {
    "token": _rest("token"),
    "credential": _rest("credential"),
    "scope": _rest("scope"),
    "audience": _rest("audience"),
    "resource": _rest("resource"),
    "oauth2-server-uri": _rest("oauth2-server-uri"),
    "prefix": _rest("prefix"),
    "snapshot-loading-mode": _rest("snapshot-loading-mode"),
    "view-endpoints-supported": _rest("view-endpoints-supported", _bool),
    "rest-page-size": _rest("rest-page-size", _page_size),
    "rest.sigv4-enabled": _rest("", _bool),
    "rest.signing-region": _rest("rest.signing-region"),
    "rest.signing-name": _rest("rest.signing-name"),
    "rest.sigv4.max-retries": _rest("rest.client.max-retries", _whole),
    "schema_version": JavaProperty("jdbc.schema-version", ("sql",), _schema_version),
    "init_catalog_tables": JavaProperty("jdbc.init-catalog-tables", ("sql",), _bool),
    "lock-check-min-wait-time": JavaProperty("hadoop.iceberg.hive.lock-check-min-wait-ms", ("hive",), _milliseconds),
    "lock-check-max-wait-time": JavaProperty("hadoop.iceberg.hive.lock-check-max-wait-ms", ("hive",), _milliseconds),
    "glue.id": JavaProperty("glue.id", ("glue",)),
    "glue.skip-archive": JavaProperty("glue.skip-archive", ("glue",), _bool),
    "glue.endpoint": JavaProperty("glue.endpoint", ("glue",)),
    "glue.region": JavaProperty("client.region", ("glue",)),
    "client.region": JavaProperty("client.region"),
    "client.access-key-id": JavaProperty(),
    "client.secret-access-key": JavaProperty(),
    "client.session-token": JavaProperty(),
    "client.role-arn": JavaProperty(),
    "client.role-session-name": JavaProperty(),
    "s3.region": JavaProperty("client.region"),
    "s3.resolve-region": JavaProperty("s3.cross-region-access-enabled", (), _bool),
    "s3.endpoint": JavaProperty("s3.endpoint"),
    "s3.force-virtual-addressing": JavaProperty("s3.path-style-access", (), _opposite),
    "s3.access-key-id": JavaProperty(),
    "s3.secret-access-key": JavaProperty(),
    "s3.session-token": JavaProperty(),
    "s3.role-arn": JavaProperty(),
    "s3.role-session-name": JavaProperty(),
    "s3.anonymous": JavaProperty(convert=_bool),
    "s3.proxy-uri": JavaProperty("http-client.proxy-endpoint"),
    "s3.connect-timeout": JavaProperty("http-client.apache.connection-timeout-ms", (), _milliseconds),
    "s3.request-timeout": JavaProperty("http-client.apache.socket-timeout-ms", (), _milliseconds),
    "s3.server-side-encryption": JavaProperty("s3.sse.type", (), _sse_type),
    "s3.sse-kms-key-id": JavaProperty("s3.sse.key"),
    "gcs.project-id": JavaProperty("gcs.project-id"),
    "gcs.oauth2.token": JavaProperty("gcs.oauth2.token"),
    "gcs.oauth2.token-expires-at": JavaProperty("gcs.oauth2.token-expires-at", (), _whole),
    "gcs.service.host": JavaProperty("gcs.service.host"),
    "gcs.requester-pays": JavaProperty(convert=_bool),
    "adls.account-name": JavaProperty(),
    "adls.account-key": JavaProperty(),
    "adls.account-host": JavaProperty(),
    "adls.sas-token": JavaProperty(),
    "adls.token": JavaProperty("adls.token"),
    "hdfs.host": JavaProperty(),
    "hdfs.port": JavaProperty(convert=_whole),
}

# Both sides read every property of these prefixes under the same name.
SAME_PREFIXES: dict[str, tuple[str, ...]] = {"header.": ("rest",), "adls.sas-token.": ()}
