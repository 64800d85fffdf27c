"""One catalog, described once by an Airflow connection and understood alike by PyIceberg and by Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.catalogs import database_uri, spark_catalog_properties
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.connection_fields import OWN_EXTRAS, Fields, read_fields
from airflow_lake_provider.catalogs.secret_properties import forms, secret_values
from airflow_lake_provider.catalogs.warehouse import normalised
from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.capabilities import FORMATS, ICEBERG

EXAMPLE = (
    '{"conn_type": "iceberg", "host": "https://catalog.example.com/api", "login": "<client id>", '
    '"password": "<client secret>", "extra": {"type": "rest", "warehouse": "lake", "s3.region": "eu-west-1", '
    '"oauth2-server-uri": "https://login.example.com/oauth2/token"}}'
)
_CATALOG_NAME = re.compile(r"[A-Za-z0-9_-]+")
_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class CatalogConnection:
    """A checked connection.

    :param conn_id: Airflow's connection id.
    :param catalog_name: the catalog's name on both sides; a SQL catalog keeps its tables under it.
    :param kind: ``rest``, ``sql``, ``hive`` or ``glue``.
    :param warehouse: where tables lie; None where the server or the metastore decides.
    :param asset_authority: authority of asset URIs; never a host.
    :param table_format: ``iceberg``.
    :param fields: what was read, secrets included.
    """

    conn_id: str
    catalog_name: str
    kind: str
    warehouse: str | None
    asset_authority: str
    table_format: str
    fields: Fields = field(repr=False, hash=False)

    @classmethod
    def from_fields(
        cls,
        *,
        conn_id: str,
        host: str | None = None,
        port: int | None = None,
        login: str | None = None,
        password: str | None = None,
        schema: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> CatalogConnection:
        """Read the fields of an ``iceberg`` connection.

        :param conn_id: the connection's id, and the catalog's name unless the extra ``catalog_name`` says otherwise.
        :param host: the catalog's URI.
        :param port: refused, the URI holds it.
        :param login: OAuth2 client id (REST) or database user (PostgreSQL).
        :param password: client secret or database password.
        :param schema: refused, the URI holds it.
        :param extra: PyIceberg properties, and ``catalog_name``, ``asset_authority``, ``table_format``, ``spark``,
            ``pyiceberg``.
        :raises InvalidConnectionError: for properties that are unknown, incomplete, contradictory or untranslatable.
        """
        extra = extra or {}
        if port or schema:
            raise refused(conn_id, "port and schema are not read; write them into the URI, in the host field")
        fields, warehouse = read_fields(conn_id, host, login, password, extra)
        own = {name: extra.get(name) for name in OWN_EXTRAS}
        connection = cls(
            conn_id=conn_id,
            catalog_name=_catalog_name(conn_id, own["catalog_name"]),
            kind=fields.kind,
            warehouse=normalised(conn_id, fields.kind, warehouse),
            asset_authority=_asset_authority(conn_id, own["asset_authority"]),
            table_format=_table_format(conn_id, own["table_format"]),
            fields=fields,
        )
        connection.spark_settings()  # a property that cannot be translated is refused here, not in a job's driver
        return connection

    @property
    def address(self) -> str:
        """Kind, URI and warehouse of the catalog, without a secret; two environments differ in it."""
        return " ".join((self.kind, self.fields.uri or "", self.warehouse or ""))

    def pyiceberg_properties(self) -> dict[str, Any]:
        """Return what ``load_catalog(catalog_name, **properties)`` takes.

        Values are texts, but for ``auth``, ``ssl`` and ``glue.max-retries`` of the extra ``pyiceberg``: PyIceberg wants
        objects and a number.
        A PostgreSQL URI holds user and password: keep it in memory.
        """
        return load_catalog_properties(self.fields, self.warehouse)

    def spark_settings(self) -> dict[str, str]:
        """Return every setting a Spark session needs for this catalog; hand them over in a file, they hold secrets."""
        return spark_catalog_properties.session_settings(self.catalog_name, self.java_properties())

    def spark_packages(self, runtime: str = spark_catalog_properties.SPARK_RUNTIME) -> tuple[str, ...]:
        """Return the Maven coordinates of the jars that those settings need.

        :param runtime: that of Iceberg's runtime for the Spark of the job.
        """
        return spark_catalog_properties.packages(self.java_properties(), runtime)

    def secrets(self) -> tuple[str, ...]:
        """Return every value that must not be seen, longest first so that masking leaves no tails."""
        secrets = {*secret_values(self.pyiceberg_properties()), *secret_values(self.java_properties())}
        if self.fields.password:
            # The composed URI holds the password percent-encoded, and SQLAlchemy's errors may show it.
            secrets |= set(forms(self.fields.password))
        return tuple(sorted(secrets, key=lambda secret: (-len(secret), secret)))

    def java_properties(self) -> dict[str, str]:
        """Return the catalog's properties as Iceberg-Java has them; they hold secrets."""
        return spark_catalog_properties.catalog_properties(self.fields, self.warehouse)


def _catalog_name(conn_id: str, given: object) -> str:
    name = conn_id if given is None else given
    # Spark takes its session's own catalog in any case, and so no connection's.
    if not isinstance(name, str) or not _CATALOG_NAME.fullmatch(name) or name.lower() == "spark_catalog":
        raise refused(
            conn_id,
            f"catalog name {name!r} is not usable in Spark; set the extra 'catalog_name' to letters, digits, "
            "'_' and '-', other than spark_catalog",
        )
    return name


def _asset_authority(conn_id: str, given: object) -> str:
    authority = conn_id if given is None else given
    if not isinstance(authority, str) or not _AUTHORITY.fullmatch(authority):
        raise refused(
            conn_id,
            f"asset authority {authority!r} does not fit a URI; set the extra 'asset_authority' to letters, digits, "
            "'.', '_' and '-'",
        )
    return authority


def _table_format(conn_id: str, given: object) -> str:
    table_format = ICEBERG.name if given is None else given
    if table_format not in FORMATS:
        raise refused(
            conn_id,
            f"table_format {table_format!r} is not supported, expected {', '.join(FORMATS)}"
            f"{nearest(str(table_format), FORMATS)}",
        )
    return str(table_format)


def load_catalog_properties(fields: Fields, warehouse: str | None) -> dict[str, Any]:
    """Return the keyword arguments of ``pyiceberg.catalog.load_catalog``; they may hold a database password.

    :param fields: the connection's fields.
    :param warehouse: as returned by `warehouse.normalised`.
    """
    properties: dict[str, Any] = {"type": fields.kind, **fields.properties}
    if warehouse:
        properties["warehouse"] = warehouse
    if fields.uri and fields.kind == "sql":
        properties["uri"] = database_uri.sqlalchemy_uri(fields.uri, fields.login, fields.password)
    elif fields.uri:
        properties["uri"] = fields.uri
    return {**properties, **fields.pyiceberg_only}


def read_extra(conn_id: str, text: str | None) -> dict[str, Any]:
    """Return the extra of a connection.

    :raises InvalidConnectionError: it is no JSON object.
    """
    # Airflow's own `extra_dejson` turns broken JSON into an empty extra, which would name another catalog.
    try:
        extra = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise refused(conn_id, f"its extra is not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(extra, dict):
        raise refused(
            conn_id, f'its extra is a JSON {type(extra).__name__}, expected an object such as {{"name": "value"}}'
        )
    return extra


def read_options(
    conn_id: str, text: str | None, *, taken: Collection[str], unused: Collection[str], what: str
) -> dict[str, str]:
    """Return the options in the extra of a connection as texts; one that is null was not given.

    :param taken: names of options that are understood.
    :param unused: names of options for others.
    :param what: they are for, for messages.
    :raises InvalidConnectionError: it is no JSON object, or has an option that is not understood, or is no value.
    """
    extra = read_extra(conn_id, text)
    given = {name: value for name, value in extra.items() if name not in unused and value is not None}
    for name, value in sorted(given.items()):
        if name not in taken:
            raise refused(
                conn_id,
                f"extra {name!r} is not understood for {what}; known: {', '.join(sorted(taken))}{nearest(name, taken)}",
            )
        # Its value may be a secret.
        if not isinstance(value, (str, int, float)):
            raise refused(
                conn_id, f"extra {name!r} is a JSON {type(value).__name__}; give a text, a number or a boolean"
            )
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
