"""Names of tables and files as OpenLineage's naming specification gives them.

A table is named by its location, and again by its catalog. OpenLineage's own Spark integration does the same, so both
sides of a lineage graph meet: https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.table_name import TableName

_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs", "oss")
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class DatasetName:
    """One dataset.

    :param namespace: of the data source, ``s3://bucket``.
    :param name: within it.
    """

    namespace: str
    name: str


def name_of_location(location: str) -> DatasetName | None:
    """Return the name of a folder or file; None for what is no absolute path and no URL.

    :param location: ``s3://bucket/warehouse/shop/orders``, ``file:///mnt/in``, ``/mnt/in``; a user in it is left out.
    """
    parts = urlsplit(location)
    scheme, path = _SAME_SCHEME.get(parts.scheme, parts.scheme), parts.path.rstrip("/")
    if scheme in ("", "file"):
        return DatasetName("file", path or "/") if location.startswith(("/", "file:/")) else None
    if not parts.netloc:
        return None
    # The container of Azure stands where other stores have a user.
    host = parts.netloc if scheme in ("abfss", "wasbs") else parts.netloc.rpartition("@")[2]
    return DatasetName(f"{scheme}://{host}", (path.lstrip("/") if scheme in _OBJECT_STORES else path) or "/")


def name_of_files(path: str) -> DatasetName | None:
    """Return the name of input files: of a pattern, the folder before its first wildcard."""
    plain = _WILDCARD.split(path, maxsplit=1)[0]
    return name_of_location(path if plain == path else f"{plain.rpartition('/')[0]}/")


def name_in_catalog(connection: CatalogConnection, table: TableName) -> DatasetName | None:
    """Return the name of a table in its catalog; None where nothing names the catalog.

    Nothing of it is a secret: the URI of a connection holds none.
    """
    fields = connection.fields
    if connection.kind == "rest":
        return DatasetName(str(fields.uri), str(table))
    if connection.kind == "hive":
        address = str(fields.uri).partition(",")[0]
        return DatasetName(f"hive://{urlsplit(address).netloc}", str(table))
    if connection.kind == "glue":
        region = next((fields.properties[n] for n in ("glue.region", "client.region") if n in fields.properties), None)
        account = fields.properties.get("glue.id")
        known = region is not None and account is not None
        return DatasetName(f"arn:aws:glue:{region}:{account}", f"table/{'/'.join(table.levels)}") if known else None
    return name_of_location(f"{connection.warehouse}/{table}")


def default_location(connection: CatalogConnection, table: TableName) -> str | None:
    """Return where a catalog puts a table unless it is told otherwise; None where the server decides."""
    warehouse = connection.warehouse or ""
    is_place = "://" in warehouse or warehouse.startswith(("/", "file:/"))
    return f"{warehouse.rstrip('/')}/{'/'.join(table.levels)}" if is_place else None
