"""Open the catalog of a connection, with limits for each of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def open_catalog(name: str, properties: Mapping[str, Any]) -> Catalog:
    """Open a catalog.

    PyIceberg's own configuration of a catalog of that name counts beside the connection, as in ``load_catalog``.

    :param name: of the catalog.
    :param properties: with ``type``: ``rest``, ``sql``, ``hive`` or ``glue``.
    :raises NotInstalledError: a package of that kind is missing.
    """
    from pyiceberg.exceptions import NotInstalledError
    from pyiceberg.utils.config import Config, merge_config

    given: dict[str, Any] = dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))
    try:
        return _open(str(given["type"]), name, given)
    except ImportError as error:
        raise NotInstalledError(f"a package of {given['type']} catalogs is not installed: {error}") from error


def _open(kind: str, name: str, properties: Mapping[str, Any]) -> Catalog:
    if kind == "rest":
        from airflow_lake_provider.hooks.bounded_catalogs.rest_catalog import LakeRestCatalog

        return LakeRestCatalog(name, **properties)
    if kind == "sql":
        from airflow_lake_provider.hooks.bounded_catalogs.sql_catalog import LakeSqlCatalog

        return LakeSqlCatalog(name, **properties)
    if kind == "hive":
        from airflow_lake_provider.hooks.bounded_catalogs.hive_catalog import open_hive

        return open_hive(name, properties)
    from airflow_lake_provider.hooks.bounded_catalogs.glue_catalog import open_glue

    return open_glue(name, properties)
