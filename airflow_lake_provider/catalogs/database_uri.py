"""The address of a SQL catalog, as SQLAlchemy and as JDBC write it."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from airflow_lake_provider.catalogs.connection_errors import nearest, refused

# A commit waits for another writer this long before it fails.
SQLITE_BUSY_SECONDS = 60
_POSTGRESQL_SCHEMES = ("postgresql", "postgresql+psycopg2", "postgresql+psycopg", "postgresql+pg8000")
SQL_SCHEMES = ("sqlite", *_POSTGRESQL_SCHEMES)
# libpq's name -> pgjdbc's name, where both take the same values
_POSTGRESQL_OPTIONS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "connect_timeout": "connectTimeout",
    "application_name": "ApplicationName",
}


def is_sqlite(uri: str) -> bool:
    """Tell SQLite from PostgreSQL.

    :param uri: a checked SQLAlchemy URI.
    """
    return urlsplit(uri).scheme == "sqlite"


def check(conn_id: str, uri: str) -> None:
    """Refuse an address that the two sides would not read alike.

    :param conn_id: named in the error.
    :param uri: SQLAlchemy URI without user and password.
    :raises InvalidConnectionError: for another database, a SQLite file both cannot open, an option one side lacks.
    """
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "sqlite":
        if parts.netloc or not parts.path.startswith("//") or ":memory:" in parts.path:
            raise refused(
                conn_id,
                f"uri {uri!r} names no file that Spark and Airflow both find; write sqlite:////absolute/path.db",
            )
        known = {"timeout"}
    elif parts.scheme in _POSTGRESQL_SCHEMES:
        if not parts.hostname or not parts.path.strip("/"):
            raise refused(
                conn_id, f"uri {uri!r} lacks host or database; write postgresql+psycopg2://host:5432/database"
            )
        known = set(_POSTGRESQL_OPTIONS)
    else:
        raise refused(
            conn_id,
            f"a sql catalog lives in SQLite or PostgreSQL, uri has scheme {parts.scheme!r}"
            f"{nearest(parts.scheme, SQL_SCHEMES)}",
        )
    for option in sorted(options.keys() - known):
        raise refused(
            conn_id,
            f"option {option!r} in uri cannot be translated for the other side; known: {', '.join(sorted(known))}"
            f"{nearest(option, known)}",
        )


def sqlalchemy_uri(uri: str, login: str | None, password: str | None) -> str:
    """Return the URI that PyIceberg's SqlCatalog opens; it holds the password, so it stays in memory.

    :param uri: a checked SQLAlchemy URI without user.
    :param login: database user.
    :param password: its password.
    """
    parts = urlsplit(uri)
    if is_sqlite(uri):
        return uri if parts.query else f"{uri}?timeout={SQLITE_BUSY_SECONDS}"
    if not login:
        return uri
    user = quote(login, safe="") + (f":{quote(password, safe='')}" if password else "")
    return parts._replace(netloc=f"{user}@{parts.netloc}").geturl()


def jdbc_uri(uri: str) -> str:
    """Return the URI that Iceberg's JdbcCatalog opens; user and password go as own properties.

    :param uri: a checked SQLAlchemy URI without user.
    """
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    if is_sqlite(uri):
        # sqlite-jdbc reads pragmas from the query; WAL lets readers go on while a writer commits.
        timeout = round(float(options.get("timeout", SQLITE_BUSY_SECONDS)) * 1000)
        return f"jdbc:sqlite:{parts.path[1:]}?busy_timeout={timeout}&journal_mode=WAL"
    query = urlencode({_POSTGRESQL_OPTIONS[name]: value for name, value in options.items()})
    return f"jdbc:postgresql://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
