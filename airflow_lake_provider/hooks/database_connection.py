"""An Airflow connection to a relational database, read for the driver of a job. The worker opens no database."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_lake_provider.catalogs.catalog_connection import read_extra
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.database_uri import POSTGRESQL_OPTIONS
from airflow_lake_provider.catalogs.secret_properties import forms
from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.database_access import DatabaseAccess
from airflow_lake_provider.contracts.errors import UnsupportedError

EXAMPLE = (
    '{"conn_type": "postgres", "host": "db.example.com", "port": 5432, "schema": "shop", "login": "reader", '
    '"password": "<password>", "extra": {"sslmode": "require"}}'
)
_TYPES = ("postgres", "postgresql")
# Of other hooks, and without a meaning for a driver that reads.
_NOT_OURS = frozenset({"cursor", "enable_log_db_messages", "keepalives", "keepalives_idle", "keepalives_interval"})


def database_access(conn_id: str) -> DatabaseAccess:
    """Read a connection; its password is masked in Airflow's logs from here on.

    :raises InvalidConnectionError: it does not exist, is incomplete, or has an option that cannot be translated.
    :raises UnsupportedError: it is of a kind of database that is not read yet.
    """
    try:
        stored = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise refused(conn_id, f"it does not exist; create it, for example as {EXAMPLE}") from error
    for secret in forms(stored.password) if stored.password else ():
        mask_secret(secret)
    if stored.conn_type not in _TYPES:
        raise UnsupportedError(
            f"connection {conn_id!r}: its type is {stored.conn_type!r}, and databases of that type are not supported "
            f"yet; JdbcTable reads PostgreSQL, by a connection such as {EXAMPLE}"
        )
    if not stored.host or not stored.schema:
        raise refused(conn_id, f"it needs a host, and the name of the database in its schema, for example {EXAMPLE}")
    given = {name: value for name, value in read_extra(conn_id, stored.extra).items() if name not in _NOT_OURS}
    for name in sorted(given.keys() - POSTGRESQL_OPTIONS.keys()):
        raise refused(
            conn_id,
            f"extra {name!r} is not understood for reading by JDBC; known: {', '.join(sorted(POSTGRESQL_OPTIONS))}"
            f"{nearest(name, POSTGRESQL_OPTIONS)}",
        )
    host = f"[{stored.host}]" if ":" in stored.host else stored.host
    options = urlencode({POSTGRESQL_OPTIONS[name]: str(value) for name, value in given.items()})
    return DatabaseAccess(
        url=f"jdbc:postgresql://{host}:{stored.port or 5432}/{quote(stored.schema, safe='')}?{options}".rstrip("?"),
        user=stored.login or "",
        password=stored.password or "",
    )
