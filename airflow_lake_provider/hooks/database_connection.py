"""An Airflow connection to a relational database, read for the driver of a job. The worker opens no database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from airflow.sdk.log import mask_secret

from airflow_lake_provider.catalogs.catalog_connection import read_options
from airflow_lake_provider.catalogs.connection_errors import refuse_trimmed, refused
from airflow_lake_provider.catalogs.database_uri import POSTGRESQL_OPTIONS, POSTGRESQL_SSL_MODES
from airflow_lake_provider.catalogs.secret_properties import forms
from airflow_lake_provider.contracts.argument_validation import number
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.hooks.stored_connection import stored_connection

EXAMPLE = (
    '{"conn_type": "postgres", "host": "db.example.com", "port": 5432, "schema": "shop", "login": "reader", '
    '"password": "<password>", "extra": {"sslmode": "require"}}'
)
# Of other hooks, and without a meaning for a driver that reads.
_NOT_OURS = frozenset({"cursor", "enable_log_db_messages", "keepalives", "keepalives_idle", "keepalives_interval"})


@dataclass(frozen=True)
class _Kind:
    """A kind of database.

    :param scheme: of its addresses of JDBC.
    :param options: of the extra, by the names that its driver has for them.
    :param unused: of the extra, for other hooks.
    :param fixed: of every address.
    """

    scheme: str
    port: int
    options: Mapping[str, str]
    unused: frozenset[str]
    fixed: tuple[str, ...] = ()


_POSTGRESQL = _Kind("postgresql", 5432, POSTGRESQL_OPTIONS, _NOT_OURS)
_MYSQL = _Kind(
    "mysql",
    3306,
    {"ssl_mode": "sslMode", "ssl_ca": "serverSslCert", "connect_timeout": "connectTimeout"},
    frozenset({"cursor", "charset", "local_infile", "client", "enable_log_db_messages"}),
    # The driver of MariaDB takes an address of MySQL only so; Spark quotes names in backticks for no other one.
    ("permitMysqlScheme",),
)
_KINDS = {"postgres": _POSTGRESQL, "postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL}
_SEPARATORS = frozenset("?&#")
# A name, or an address of IP; one of version 6 may have a zone.
_SERVER = re.compile(r"[\w.-]+|\[?[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?\]?")
# Modes of MySQL, as the driver of MariaDB names them.
_SSL_MODES = {
    "DISABLED": "disable",
    "REQUIRED": "trust",
    "VERIFY_CA": "verify-ca",
    "VERIFY_IDENTITY": "verify-full",
}


def database_access(conn_id: str) -> DatabaseAccess:
    """Read a connection; its password is masked in Airflow's logs from here on.

    :raises InvalidConnectionError: it does not exist, is incomplete, or has an option that cannot be translated.
    :raises UnsupportedError: it is of a kind of database that is not read yet.
    """
    stored = stored_connection(conn_id, EXAMPLE)
    for secret in forms(stored.password) if stored.password else ():
        mask_secret(secret)
    if (kind := _KINDS.get(stored.conn_type or "")) is None:
        raise UnsupportedError(
            f"connection {conn_id!r}: its type is {stored.conn_type!r}, and databases of that type are not supported "
            f"yet; JdbcTable reads PostgreSQL, MySQL and MariaDB, by a connection such as {EXAMPLE}"
        )
    if not stored.host or not stored.schema:
        raise refused(conn_id, f"it needs a host, and the name of the database in its schema, for example {EXAMPLE}")
    refuse_trimmed(conn_id, stored.login, stored.password)
    given = read_options(conn_id, stored.extra, taken=kind.options, unused=kind.unused, what="reading by JDBC")
    servers = _servers(conn_id, stored.host, stored.port or kind.port)
    options = {kind.options[name]: _option(conn_id, kind, name, value) for name, value in given.items()}
    if kind is _MYSQL:
        # Its driver decodes nothing.
        for text in (stored.schema, *options.values()):
            if _SEPARATORS.intersection(text):
                raise refused(conn_id, f"MariaDB's driver takes no ? & # in an address, got {text!r}")
        schema, pairs = stored.schema, "&".join(f"{name}={value}" for name, value in options.items())
    else:
        schema, pairs = quote(stored.schema, safe=""), urlencode(options)
    query = "&".join(part for part in (*kind.fixed, pairs) if part)
    return DatabaseAccess(
        url=f"jdbc:{kind.scheme}://{servers}/{schema}?{query}".rstrip("?"),
        user=stored.login or "",
        password=stored.password or "",
    )


def _servers(conn_id: str, host: str, port: int) -> str:
    """Return the servers of an address, each with the port: a driver takes its own default for those without."""
    servers = [each.strip() for each in host.split(",")]
    if not all(map(_SERVER.fullmatch, servers)):
        # Of a whole address it would show the login.
        raise refused(
            conn_id,
            "its host must be the name or the IP address of a server, or several with commas between them. Port, "
            f"database and login have fields of their own, for example {EXAMPLE}",
        )
    names = (f"[{each.strip('[]')}]" if ":" in each else each for each in servers)
    return ",".join(f"{name}:{port}" for name in names)


def _option(conn_id: str, kind: _Kind, name: str, value: str) -> str:
    if name == "connect_timeout":
        seconds = number(value, f"connection {conn_id!r}: extra connect_timeout")
        # The driver of MariaDB counts milliseconds.
        return str(1000 * seconds if kind is _MYSQL else seconds)
    if name == "sslmode" and value.lower() not in POSTGRESQL_SSL_MODES:
        raise refused(conn_id, f"sslmode is one of {', '.join(POSTGRESQL_SSL_MODES)}, got {value!r}")
    if name == "ssl_mode":
        if (mode := _SSL_MODES.get(value.upper())) is None:
            raise refused(conn_id, f"ssl_mode is one of {', '.join(_SSL_MODES)}, got {value!r}")
        return mode
    return value
