"""The connection as Spark reads it: ``spark.sql.catalog.<name>.*`` and what goes with it."""

from __future__ import annotations

from airflow_lake_provider.catalogs import database_uri
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.connection_fields import Fields
from airflow_lake_provider.catalogs.object_stores import store_settings
from airflow_lake_provider.catalogs.property_translation import TRANSLATED, truth
from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX
from airflow_lake_provider.catalogs.warehouse import FILE_IO, scheme_of

_TYPES = {"rest": "rest", "sql": "jdbc", "hive": "hive", "glue": "glue"}


def catalog_properties(fields: Fields, warehouse: str | None) -> dict[str, str]:
    """Return Iceberg-Java's catalog properties, the extra ``spark`` included.

    :param fields: the connection's fields.
    :param warehouse: as returned by `warehouse.normalised`.
    :raises InvalidConnectionError: when a value cannot be translated or two properties become one with two values.
    """
    properties = {"type": _TYPES[fields.kind]}
    if warehouse:
        properties["warehouse"] = warehouse
    if scheme := scheme_of(warehouse):
        properties["io-impl"] = FILE_IO[scheme]
    if fields.uri:
        properties["uri"] = database_uri.jdbc_uri(fields.uri) if fields.kind == "sql" else fields.uri
    properties |= _database_login(fields) if fields.kind == "sql" else {}
    properties |= _renamed(fields)
    properties |= store_settings(fields.conn_id, fields.kind, warehouse, fields.properties)
    properties |= _rest_authentication(fields) if fields.kind == "rest" else {}
    return properties | fields.spark_only


def session_settings(catalog_name: str, properties: dict[str, str]) -> dict[str, str]:
    """Return the settings of a Spark session whose default catalog this is.

    :param catalog_name: name of the catalog in Spark.
    :param properties: as returned by `catalog_properties`.
    """
    prefix = f"spark.sql.catalog.{catalog_name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        # A cached table would hide other writers' commits for half a minute from a job that decides by them.
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{name}": value for name, value in properties.items()},
        "spark.sql.defaultCatalog": catalog_name,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.redaction.regex": REDACTION_REGEX,
    }


def _renamed(fields: Fields) -> dict[str, str]:
    settings: dict[str, str] = {}
    origin: dict[str, str] = {}
    for name, value in fields.properties.items():
        known = TRANSLATED.get(name)
        java = known.java if known else name
        converted = _converted(fields.conn_id, name, value)
        if not java:
            continue
        if settings.setdefault(java, converted) != converted:
            raise refused(
                fields.conn_id,
                f"{origin[java]!r} and {name!r} differ, and Iceberg-Java has {java} for both; give one value",
            )
        origin.setdefault(java, name)
    return settings


def _converted(conn_id: str, name: str, value: str) -> str:
    known = TRANSLATED.get(name)
    if not known:
        return value
    try:
        return known.convert(value)
    except ValueError as error:
        raise refused(conn_id, f"property {name!r} is not understood: {error}") from error


def _database_login(fields: Fields) -> dict[str, str]:
    login = {"jdbc.user": fields.login, "jdbc.password": fields.password}
    # V1 is what PyIceberg creates; V0 would hide views and make Iceberg-Java warn at each start.
    return {"jdbc.schema-version": "V1", **{name: value for name, value in login.items() if value}}


def _rest_authentication(fields: Fields) -> dict[str, str]:
    by_token = "token" in fields.properties or "credential" in fields.properties
    if not truth(fields.properties.get("rest.sigv4-enabled", "false")):
        return {"rest.auth.type": "oauth2"} if by_token else {}
    settings = {"rest.auth.type": "sigv4", "rest.auth.sigv4.delegate-auth-type": "oauth2" if by_token else "none"}
    region = fields.properties.get("client.region")
    if region and "rest.signing-region" not in fields.properties:
        # PyIceberg signs for client.region then; Iceberg-Java would ask its environment.
        settings["rest.signing-region"] = region
    return settings
