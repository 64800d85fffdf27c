"""The connection as PyIceberg reads it."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.catalogs import database_uri
from airflow_lake_provider.catalogs.connection_fields import Fields


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
