"""Read the fields of Airflow's form into one set of properties, and refuse every contradiction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from airflow_lake_provider.catalogs import database_uri
from airflow_lake_provider.catalogs.connection_errors import refuse_trimmed, refused
from airflow_lake_provider.catalogs.property_translation import KINDS, SAME_PREFIXES, TRANSLATED
from airflow_lake_provider.catalogs.secret_properties import is_secret
from airflow_lake_provider.catalogs.warehouse import with_lower_scheme
from airflow_lake_provider.contracts.argument_validation import nearest

OWN_EXTRAS = ("catalog_name", "asset_authority", "table_format", "spark", "pyiceberg")
_IDENTITY = ("type", "uri", "warehouse", "catalog-impl", "py-catalog-impl", "token", "credential")
_URI_SCHEMES = {"rest": ("http", "https"), "hive": ("thrift",), "sql": database_uri.SQL_SCHEMES}
_SERVERS = ("http", "https", "thrift")
# PyIceberg hands them on to AWS's client as they are, which counts with them.
# Parameters of a URI that hold secrets of an API.
_KEYS = ("key", "code", "auth", "sas")
_NUMBERS = ("glue.max-retries",)
# They become headers, or a part of one.
_OF_HEADERS = ("token", "credential", "scope", "rest.auth.basic.username", "rest.auth.basic.password")
_LAST_OF_LATIN_1 = 0xFF
_SIGNING = ("rest.signing-region", "rest.signing-name", "rest.sigv4.max-retries")


@dataclass(frozen=True)
class Fields:
    """A connection's fields after reading, before translating.

    :param properties: PyIceberg properties shared by both sides, without type, uri and warehouse.
    :param spark_only: Iceberg-Java properties of the extra ``spark``.
    :param pyiceberg_only: properties of the extra ``pyiceberg``; ``auth`` and ``ssl`` may be objects, and a number of
        retries is one.
    """

    conn_id: str
    kind: str
    uri: str | None
    login: str | None = field(repr=False)
    password: str | None = field(repr=False)
    properties: dict[str, str] = field(repr=False)
    spark_only: dict[str, str] = field(repr=False)
    pyiceberg_only: dict[str, Any] = field(repr=False)


def read_fields(
    conn_id: str, host: str | None, login: str | None, password: str | None, extra: Mapping[str, Any]
) -> tuple[Fields, str | None]:
    """Read the fields and return them with the warehouse as written.

    :param conn_id: named in errors.
    :param host: the catalog's URI, the same as extra ``uri``.
    :param login: OAuth2 client id of a REST catalog, database user of a PostgreSQL catalog.
    :param password: its secret.
    :param extra: PyIceberg properties and our own extras.
    :raises InvalidConnectionError: for an unknown, incomplete or contradictory property.
    """
    properties = {name: _text(conn_id, name, value) for name, value in extra.items() if name not in OWN_EXTRAS}
    kind = _kind(conn_id, properties.pop("type", None), host or properties.get("uri"))
    uri = _uri(conn_id, kind, host, properties.pop("uri", None))
    if kind == "rest":
        _check_environment(conn_id, properties)
    warehouse = properties.pop("warehouse", None)
    for name in properties:
        _check_name(conn_id, kind, name)
    _check_credentials(conn_id, kind, uri, login, password, properties)
    if kind == "rest" and login and password:
        properties["credential"] = f"{login}:{password}"
    fields = Fields(
        conn_id=conn_id,
        kind=kind,
        uri=uri,
        login=login or None,
        password=password or None,
        properties=properties,
        spark_only={k: _text(conn_id, k, v) for k, v in _one_side(conn_id, "spark", extra).items()},
        pyiceberg_only={k: _of_pyiceberg(conn_id, k, v) for k, v in _one_side(conn_id, "pyiceberg", extra).items()},
    )
    return fields, warehouse


def _text(conn_id: str, name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str) and value.strip():
        _check_lines(conn_id, name, value.strip())
        return value.strip()
    if name in PYICEBERG_ONLY and isinstance(value, dict):
        _check_name(conn_id, "", name)
    shown = "empty" if value in (None, "") or isinstance(value, str) else f"of type {type(value).__name__}"
    raise refused(conn_id, f"property {name!r} is {shown}; give a text, a number or true/false, or leave it out")


def _check_lines(conn_id: str, name: str, value: str) -> None:
    # What is behind a line break would be a header of its own, and logs would show it.
    if (name.startswith("header.") or name in _OF_HEADERS) and re.search(r"[\x00-\x1f\x7f]", value):
        raise refused(
            conn_id, f"property {name!r} holds a line break or another control character, which a header cannot have"
        )
    # Java sends a question mark in place of another one, and Python fails.
    if (name.startswith("header.") or name == "token") and any(ord(letter) > _LAST_OF_LATIN_1 for letter in value):
        raise refused(conn_id, f"property {name!r} has a character that no header can have; write it in Latin-1")


def _check_environment(conn_id: str, properties: Mapping[str, str]) -> None:
    # EnvironmentUtil of Iceberg-Java, which its REST catalog alone asks.
    if named := next((name for name, value in properties.items() if value.startswith("env:")), None):
        raise refused(
            conn_id,
            f"property {named!r} begins with 'env:', where Spark would read a variable of its environment, and "
            'PyIceberg the text; write the value itself, or for Spark alone write it inside the extra "spark": {...}',
        )


def _of_pyiceberg(conn_id: str, name: str, value: object) -> object:
    if isinstance(value, dict):
        return value
    text = _text(conn_id, name, value)
    if name not in _NUMBERS:
        return text
    if not text.isdecimal():
        raise refused(conn_id, f"property {name!r} inside 'pyiceberg' is {text!r}; give a whole number, for example 3")
    return int(text)


def _kind(conn_id: str, given: str | None, uri: str | None) -> str:
    if given is None:
        scheme = _scheme(uri or "")
        wanted = [kind for kind, schemes in _URI_SCHEMES.items() if scheme in schemes]
        if scheme and wanted and wanted[0] != "rest":
            raise refused(
                conn_id, f'the extra \'type\' is missing and means rest; for a {scheme} uri write "type": "{wanted[0]}"'
            )
        return "rest"
    if given.lower() not in KINDS:
        raise refused(
            conn_id, f"type {given!r} is not supported, expected one of {', '.join(KINDS)}{nearest(given, KINDS)}"
        )
    return given.lower()


def _scheme(uri: str) -> str:
    # An address that cannot be read as a whole may hold a secret, which the error would show.
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", uri)
    return match.group(1).lower() if match else ""


def _uri(conn_id: str, kind: str, host: str | None, extra_uri: str | None) -> str | None:
    given = [_with_lower_schemes(kind, text.strip().rstrip("/")) for text in (host, extra_uri) if text and text.strip()]
    for text in given:
        _check_no_credentials_in(conn_id, text)
    if len(set(given)) > 1:
        raise refused(conn_id, f"host is {given[0]!r} and the extra 'uri' is {given[1]!r}; give one of them")
    if kind == "glue":
        if given:
            raise refused(
                conn_id, f"a glue catalog has no uri, got {given[0]!r}; for an own endpoint write glue.endpoint"
            )
        return None
    if not given:
        raise refused(conn_id, f"a {kind} catalog needs its URI, in the host field or as the extra 'uri'")
    for address in given[0].split(",") if kind == "hive" else given[:1]:
        scheme = _scheme(address.strip())
        if scheme not in _URI_SCHEMES[kind]:
            raise refused(
                conn_id,
                f"the URI of a {kind} catalog begins with one of {', '.join(_URI_SCHEMES[kind])}, "
                f"not with {scheme!r}: {address!r}",
            )
    if kind == "sql":
        database_uri.check(conn_id, given[0])
    return given[0]


def _with_lower_schemes(kind: str, uri: str) -> str:
    # Of Hive it may be a list of metastores.
    return ",".join(map(with_lower_scheme, uri.split(",") if kind == "hive" else [uri]))


def _check_no_credentials_in(conn_id: str, uri: str) -> None:
    # The URI itself is not shown: it may hold the password.
    for address in uri.split(","):
        try:
            parts = urlsplit(address)
        except ValueError:
            parts = None
        if parts is None:
            raise refused(conn_id, "the uri cannot be read as one")
        given = (*parse_qsl(parts.query, keep_blank_values=True), *parse_qsl(parts.fragment, keep_blank_values=True))
        names = {name.lower() for name, _ in given}
        # An unescaped '/', '?' or '#' in a password ends the authority early, so all behind it is looked at too.
        authority = parts.netloc if parts.scheme == "sqlite" else address
        if "@" in authority or "user" in names or any(is_secret(name) or name in _KEYS for name in names):
            raise refused(conn_id, "the uri holds a user or a password; use the connection's login and password fields")
        if "#" in address and parts.scheme in _SERVERS:
            raise refused(conn_id, "the uri has a '#', and no server gets what is behind it; write the uri without it")


def _check_name(conn_id: str, kind: str, name: str) -> None:
    if name in PYICEBERG_ONLY:
        raise refused(
            conn_id,
            f"property {name!r} cannot be translated for Spark: {PYICEBERG_ONLY[name]}. "
            'For PyIceberg alone write it inside the extra "pyiceberg": {...}',
        )
    if name in JAVA_ONLY or name.startswith(JAVA_ONLY_PREFIXES):
        instead = f"write {JAVA_ONLY[name]}, which serves both sides, or " if JAVA_ONLY.get(name) else ""
        raise refused(
            conn_id,
            f"property {name!r} is Iceberg-Java's and PyIceberg does not read it: {instead}"
            'for Spark alone write it inside the extra "spark": {...}',
        )
    kinds = TRANSLATED[name].kinds if name in TRANSLATED else _prefix_kinds(name)
    if kinds is None:
        everything = [*TRANSLATED, *PYICEBERG_ONLY, *JAVA_ONLY, *OWN_EXTRAS, "type", "uri", "warehouse"]
        raise refused(
            conn_id,
            f"property {name!r} is unknown{nearest(name, everything) or '.'} What only one side knows goes inside the "
            'extra "spark": {...} or "pyiceberg": {...}',
        )
    if kinds and kind not in kinds:
        raise refused(conn_id, f"property {name!r} belongs to a {kinds[0]} catalog, this one is of type {kind}")


def _prefix_kinds(name: str) -> tuple[str, ...] | None:
    return next((kinds for prefix, kinds in SAME_PREFIXES.items() if name.startswith(prefix)), None)


def _check_credentials(
    conn_id: str, kind: str, uri: str | None, login: str | None, password: str | None, properties: Mapping[str, str]
) -> None:
    if kind in ("hive", "glue") and (login or password):
        raise refused(conn_id, f"a {kind} catalog takes no login and password; leave the fields empty")
    if kind == "sql" and uri and database_uri.is_sqlite(uri) and (login or password):
        raise refused(conn_id, "a SQLite catalog has no login and password; leave the fields empty")
    if password and not login:
        raise refused(conn_id, "password is given without login")
    refuse_trimmed(conn_id, login, password)
    if kind == "rest" and uri:
        _check_rest_credentials(conn_id, uri, login, password, properties)


def _check_rest_credentials(
    conn_id: str, uri: str, login: str | None, password: str | None, properties: Mapping[str, str]
) -> None:
    if login and not password:
        raise refused(conn_id, "login (the OAuth2 client id) is given without password (the client secret)")
    if login and ":" in login:
        raise refused(
            conn_id,
            "login (the OAuth2 client id) has a ':', and both sides would end the client id at its first ':'; use a "
            "client whose id has none",
        )
    if login == "env":
        raise refused(
            conn_id,
            "login (the OAuth2 client id) is 'env', and Spark would read the secret as the name of a variable of its "
            "environment; use a client with another id",
        )
    given = [name for name in ("token", "credential") if name in properties] + (["login and password"] if login else [])
    if len(given) > 1:
        raise refused(conn_id, f"{' together with '.join(given)} is contradictory; give one of them")
    if given and given != ["token"] and "oauth2-server-uri" not in properties:
        # Iceberg's REST specification will remove the catalog's own endpoint, which clients fall back to today.
        raise refused(
            conn_id,
            f"{given[0]} came without the extra 'oauth2-server-uri', where tokens are asked for; write the "
            f'address of your identity provider, or "oauth2-server-uri": "{uri}/v1/oauth/tokens" where the '
            "catalog hands them out itself",
        )
    if any(name in properties for name in _SIGNING) and "rest.sigv4-enabled" not in properties:
        raise refused(conn_id, 'rest.signing-* properties have no effect without "rest.sigv4-enabled": true')


def _one_side(conn_id: str, side: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    given = extra.get(side, {})
    if not isinstance(given, dict):
        raise refused(conn_id, f"the extra {side!r} is an object of properties, got {type(given).__name__}")
    for name in given:
        # Iceberg-Java reads names in any case.
        if name.lower() in _IDENTITY:
            raise refused(conn_id, f"{name!r} inside {side!r} would make two catalogs of one; write it outside, once")
        if name.startswith("spark."):
            raise refused(
                conn_id,
                f"{name!r} inside {side!r} is a Spark option; write catalog properties there, without the prefix "
                "spark.sql.catalog.<name>; options of a job belong to the operator's conf",
            )
        if re.search(r"\s", name):
            raise refused(conn_id, f"{name!r} inside {side!r} is no property name")
    return given


_TUNING = "it tunes PyIceberg's own client"
_PROFILE = "Iceberg-Java reads no named AWS profile; set AWS_PROFILE where both sides run"
_GLUE_KEYS = "Iceberg-Java's Glue client takes no keys from properties; use a role or AWS_ACCESS_KEY_ID where both run"
_AZURE_IDENTITY = (
    "Iceberg-Java reads the service principal from AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET "
    "where Spark runs"
)
_AZURE_HOST = "Iceberg-Java takes the host of an Azure account from the table's location"
_KERBEROS = "Spark signs in with spark.kerberos.principal and spark.kerberos.keytab, given to the job"
_NESTED = "Iceberg-Java has no such object, it has rest.auth.* properties"
_SIGNER = "a REST server announces remote signing by itself, and both sides follow it"

# name -> why the other side cannot have it
PYICEBERG_ONLY: dict[str, str] = {
    "py-catalog-impl": "it names a Python class",
    "py-io-impl": "it names a Python class",
    "auth": _NESTED,
    "ssl": "Iceberg-Java takes certificates from the trust store of its JVM",
    "namespace-separator": "the two sides expect it in different encodings",
    "scan-planning-mode": "Spark plans its scans itself",
    "echo": _TUNING,
    "pool_pre_ping": _TUNING,
    "ugi": "Spark talks to Hive as the user of its process",
    "hive.hive2-compatible": "Iceberg-Java writes Hive 2 types always",
    "hive.kerberos-authentication": _KERBEROS + ", and needs hadoop.hive.metastore.kerberos.principal in 'spark'",
    "hive.kerberos-service-name": "Iceberg-Java takes it from hadoop.hive.metastore.kerberos.principal in 'spark'",
    "lock-check-retries": "Iceberg-Java waits for a time, hadoop.iceberg.hive.lock-timeout-ms in 'spark'",
    "glue.profile-name": _PROFILE,
    "glue.access-key-id": _GLUE_KEYS,
    "glue.secret-access-key": _GLUE_KEYS,
    "glue.session-token": _GLUE_KEYS,
    "glue.max-retries": "Iceberg-Java's Glue client has a fixed retry mode",
    "glue.retry-mode": "Iceberg-Java's Glue client has a fixed retry mode",
    "client.profile-name": _PROFILE,
    "s3.profile-name": _PROFILE,
    "s3.retry-strategy-impl": "it names a Python class",
    "s3.signer": _SIGNER,
    "s3.signer.uri": _SIGNER,
    "s3.signer.endpoint": _SIGNER,
    "gcs.access": _TUNING,
    "gcs.consistency": _TUNING,
    "gcs.cache-timeout": _TUNING,
    "gcs.session-kwargs": _TUNING,
    "gcs.default-bucket-location": _TUNING,
    "gcs.version-aware": _TUNING,
    "adls.connection-string": "Iceberg-Java reads an endpoint there; write adls.account-name and adls.account-key",
    "adls.credential": "it names a Python object; write adls.account-key, adls.sas-token or adls.token",
    "adls.tenant-id": _AZURE_IDENTITY,
    "adls.client-id": _AZURE_IDENTITY,
    "adls.client-secret": _AZURE_IDENTITY,
    "adls.blob-storage-authority": _AZURE_HOST,
    "adls.dfs-storage-authority": _AZURE_HOST,
    "adls.blob-storage-scheme": _AZURE_HOST,
    "adls.dfs-storage-scheme": _AZURE_HOST,
    "adls.anon": "Iceberg-Java always signs in to Azure",
    "hdfs.user": "Spark acts as the user of its process; set HADOOP_USER_NAME where it runs",
    "hdfs.kerberos_ticket": _KERBEROS,
}

# Iceberg-Java's name -> the PyIceberg property to write instead; empty: there is none
JAVA_ONLY: dict[str, str] = {
    "s3.path-style-access": "s3.force-virtual-addressing (its opposite)",
    "client.assume-role.arn": "s3.role-arn",
    "client.assume-role.region": "s3.region",
    "client.assume-role.session-name": "s3.role-session-name",
    "client.factory": "s3.role-arn, for a role to assume",
    "client.credentials-provider": "s3.anonymous, for open buckets",
    "s3.cross-region-access-enabled": "s3.resolve-region",
    "s3.sse.type": "s3.server-side-encryption",
    "s3.sse.key": "s3.sse-kms-key-id",
    "gcs.user-project": "gcs.requester-pays and gcs.project-id",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "rest.auth.type": "rest.sigv4-enabled, token or credential",
    "rest.access-key-id": "client.access-key-id",
    "rest.secret-access-key": "client.secret-access-key",
    "rest.session-token": "client.session-token",
    "jdbc.schema-version": "schema_version",
    "jdbc.init-catalog-tables": "init_catalog_tables",
    "jdbc.user": "the connection's login field",
    "jdbc.password": "the connection's password field",
    "catalog-impl": "",
    "io-impl": "",
    "cache-enabled": "",
    "clients": "",
}
JAVA_ONLY_PREFIXES = ("table-default.", "table-override.", "hadoop.", "http-client.", "jdbc.", "lock.", "rest.client.")
