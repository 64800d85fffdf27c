"""The address of a SQL catalog, as SQLAlchemy and as JDBC write it.

PyIceberg opens what SQLAlchemy reads in it, so SQLAlchemy's own parser says what JDBC has to be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.property_translation import milliseconds
from airflow_lake_provider.contracts.argument_validation import nearest

if TYPE_CHECKING:
    from sqlalchemy import URL

# A commit waits for another writer this long before it fails.
SQLITE_BUSY_SECONDS = 60
SQL_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg2", "postgresql+psycopg", "postgresql+pg8000")
_SQLITE, _POSTGRESQL = "sqlite:////absolute/path.db", "postgresql+psycopg2://host:5432/database"
# libpq's name -> pgjdbc's name, where both take the same values
POSTGRESQL_OPTIONS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "connect_timeout": "connectTimeout",
    "application_name": "ApplicationName",
}

POSTGRESQL_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# Of these pg8000 has one, and none for encryption.
_OF_PG8000 = ("application_name",)


def is_sqlite(uri: str) -> bool:
    """Tell SQLite from PostgreSQL in a SQLAlchemy URI of one of :data:`SQL_SCHEMES`."""
    return uri.startswith("sqlite:")


def check(conn_id: str, uri: str) -> None:
    """Refuse an address that the two sides would not read alike.

    :param conn_id: named in the error.
    :param uri: SQLAlchemy URI of one of :data:`SQL_SCHEMES`, without user and password.
    :raises InvalidConnectionError: for a SQLite file both cannot open, an option one side lacks, what is no URI.
    """
    # Airflow and PyIceberg bring it, and a DAG file is parsed without it.
    from sqlalchemy.exc import ArgumentError

    try:
        url = _parsed(uri)
    except (ArgumentError, ValueError):
        raise refused(conn_id, f"uri {uri!r} is none of SQLAlchemy; write {_SQLITE} or {_POSTGRESQL}") from None
    path = url.database or ""
    if is_sqlite(uri):
        # JDBC's options begin at the first question mark.
        if url.host or not path.startswith("/") or ":memory:" in path or "?" in path:
            raise refused(conn_id, f"uri {uri!r} names no file that Spark and Airflow both find; write {_SQLITE}")
        options = {"timeout"}
    else:
        if not url.host or not path.strip("/"):
            raise refused(conn_id, f"uri {uri!r} lacks host or database; write {_POSTGRESQL}")
        options = set(_OF_PG8000 if url.drivername.endswith("+pg8000") else POSTGRESQL_OPTIONS)
    for option in sorted(url.query.keys() - options):
        raise refused(
            conn_id,
            f"option {option!r} in uri is not one that both sides read; known with {url.drivername}: "
            f"{', '.join(sorted(options))}{nearest(option, options)}",
        )
    if repeated := [option for option, value in url.query.items() if not isinstance(value, str)]:
        raise refused(conn_id, f"uri {uri!r} has {', '.join(repeated)} more than once; give one value")
    _check_values(conn_id, {name: str(value) for name, value in url.query.items()})
    try:
        _busy_milliseconds(url)
    except ValueError as error:
        raise refused(conn_id, f"option 'timeout' in uri is not understood: {error}") from None


def _check_values(conn_id: str, options: Mapping[str, str]) -> None:
    """Refuse values of PostgreSQL's options that one of libpq and pgjdbc does not take."""
    if (mode := options.get("sslmode", "require")) not in POSTGRESQL_SSL_MODES:
        raise refused(conn_id, f"option 'sslmode' in uri is one of {', '.join(POSTGRESQL_SSL_MODES)}, got {mode!r}")
    seconds = options.get("connect_timeout", "0")
    if not (seconds.isascii() and seconds.isdecimal()):
        raise refused(conn_id, f"option 'connect_timeout' in uri is a whole number of seconds, got {seconds!r}")
    if not (certificate := options.get("sslrootcert", "/")).startswith("/"):
        raise refused(
            conn_id,
            "option 'sslrootcert' in uri is an absolute path, of a file that is there for the worker and the driver, "
            f"got {certificate!r}",
        )


def sqlalchemy_uri(uri: str, login: str | None, password: str | None) -> str:
    """Return the URI that PyIceberg's SqlCatalog opens; it holds the password, so it stays in memory.

    :param uri: a checked SQLAlchemy URI without user.
    """
    if is_sqlite(uri):
        waits = _parsed(uri).query.get("timeout", str(SQLITE_BUSY_SECONDS))
        return f"{uri.partition('?')[0]}?{urlencode({'timeout': waits})}"
    # SQLAlchemy takes psycopg2 there up to 2.0, and psycopg from 2.1 on.
    uri = uri.replace("postgresql://", "postgresql+psycopg2://", 1)
    if not login:
        return uri
    user = quote(login, safe="") + (f":{quote(password, safe='')}" if password else "")
    return uri.replace("://", f"://{user}@", 1)


def jdbc_uri(uri: str) -> str:
    """Return the URI that Iceberg's JdbcCatalog opens; user and password go as own properties.

    :param uri: a checked SQLAlchemy URI without user.
    """
    url = _parsed(uri)
    options = {name: str(value) for name, value in url.query.items()}
    if is_sqlite(uri):
        # sqlite-jdbc reads pragmas from the query; WAL lets readers go on while a writer commits.
        return f"jdbc:sqlite:{url.database}?busy_timeout={_busy_milliseconds(url)}&journal_mode=WAL"
    host = f"[{url.host}]" if ":" in str(url.host) else str(url.host)
    port = f":{url.port}" if url.port else ""
    # libpq takes one port for each of several hosts, and pgjdbc its default for all but the last.
    hosts = ",".join(each + port for each in host.split(","))
    query = urlencode({POSTGRESQL_OPTIONS[name]: value for name, value in options.items()})
    return f"jdbc:postgresql://{hosts}/{quote(str(url.database))}" + (f"?{query}" if query else "")


def _busy_milliseconds(url: URL) -> int:
    return milliseconds(str(url.query.get("timeout", SQLITE_BUSY_SECONDS)))


def _parsed(uri: str) -> URL:
    from sqlalchemy import make_url

    return make_url(uri)
