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


def _milliseconds(seconds: str) -> str:
    return str(round(float(seconds) * 1000))


def _sse_type(value: str) -> str:
    if value not in _SSE_TYPES:
        raise ValueError(f"{value!r} is none of {', '.join(_SSE_TYPES)}")
    return _SSE_TYPES[value]


def _schema_version(value: str) -> str:
    if value not in ("v0", "v1"):
        raise ValueError(f"{value!r} is neither v0 nor v1")
    return value.upper()


@dataclass(frozen=True)
class Known:
    """One property of PyIceberg.

    :param java: Iceberg-Java's name, or empty when several are translated together, in `object_stores` and
        `spark_catalog`.
    :param kinds: catalog kinds that read it; all when empty.
    :param convert: value of PyIceberg -> value of Iceberg-Java; ValueError when it is not understood.
    """

    java: str = ""
    kinds: tuple[str, ...] = ()
    convert: Callable[[str], str] = _same


def _rest(java: str, convert: Callable[[str], str] = _same) -> Known:
    return Known(java, ("rest",), convert)


TRANSLATED: dict[str, Known] = {
    "token": _rest("token"),
    "credential": _rest("credential"),
    "scope": _rest("scope"),
    "audience": _rest("audience"),
    "resource": _rest("resource"),
    "oauth2-server-uri": _rest("oauth2-server-uri"),
    "prefix": _rest("prefix"),
    "snapshot-loading-mode": _rest("snapshot-loading-mode"),
    "view-endpoints-supported": _rest("view-endpoints-supported", _bool),
    "rest-page-size": _rest("rest-page-size"),
    "rest.sigv4-enabled": _rest(""),
    "rest.signing-region": _rest("rest.signing-region"),
    "rest.signing-name": _rest("rest.signing-name"),
    "rest.sigv4.max-retries": _rest("rest.client.max-retries"),
    "schema_version": Known("jdbc.schema-version", ("sql",), _schema_version),
    "init_catalog_tables": Known("jdbc.init-catalog-tables", ("sql",), _bool),
    "lock-check-min-wait-time": Known("hadoop.iceberg.hive.lock-check-min-wait-ms", ("hive",), _milliseconds),
    "lock-check-max-wait-time": Known("hadoop.iceberg.hive.lock-check-max-wait-ms", ("hive",), _milliseconds),
    "glue.id": Known("glue.id", ("glue",)),
    "glue.skip-archive": Known("glue.skip-archive", ("glue",), _bool),
    "glue.endpoint": Known("glue.endpoint", ("glue",)),
    "glue.region": Known("client.region", ("glue",)),
    "client.region": Known("client.region"),
    "client.access-key-id": Known(),
    "client.secret-access-key": Known(),
    "client.session-token": Known(),
    "client.role-arn": Known(),
    "client.role-session-name": Known(),
    "s3.region": Known("client.region"),
    "s3.resolve-region": Known("s3.cross-region-access-enabled", (), _bool),
    "s3.endpoint": Known("s3.endpoint"),
    "s3.force-virtual-addressing": Known("s3.path-style-access", (), _opposite),
    "s3.access-key-id": Known(),
    "s3.secret-access-key": Known(),
    "s3.session-token": Known(),
    "s3.role-arn": Known(),
    "s3.role-session-name": Known(),
    "s3.anonymous": Known(),
    "s3.proxy-uri": Known("http-client.proxy-endpoint"),
    "s3.connect-timeout": Known("http-client.apache.connection-timeout-ms", (), _milliseconds),
    "s3.request-timeout": Known("http-client.apache.socket-timeout-ms", (), _milliseconds),
    "s3.server-side-encryption": Known("s3.sse.type", (), _sse_type),
    "s3.sse-kms-key-id": Known("s3.sse.key"),
    "gcs.project-id": Known("gcs.project-id"),
    "gcs.oauth2.token": Known("gcs.oauth2.token"),
    "gcs.oauth2.token-expires-at": Known("gcs.oauth2.token-expires-at"),
    "gcs.service.host": Known("gcs.service.host"),
    "gcs.requester-pays": Known(),
    "adls.account-name": Known(),
    "adls.account-key": Known(),
    "adls.account-host": Known(),
    "adls.sas-token": Known(),
    "adls.token": Known("adls.token"),
    "hdfs.host": Known(),
    "hdfs.port": Known(),
}

# Both sides read every property of these prefixes under the same name.
SAME_PREFIXES: dict[str, tuple[str, ...]] = {"header.": ("rest",), "adls.sas-token.": ()}
