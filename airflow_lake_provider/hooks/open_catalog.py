"""Open the catalog of a connection, with limits for each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def catalog_opener(kind: str) -> Callable[[str, Mapping[str, Any]], Catalog]:
    """Return what opens a catalog, given its name and PyIceberg's properties of it.

    All that has to be imported for it is imported by now: that takes a second or two, which no limit counts.

    :param kind: ``rest``, ``sql``, ``hive`` or ``glue``.
    :raises NotInstalledError: a package of that kind is missing.
    """
    from pyiceberg.exceptions import NotInstalledError

    try:
        open_one = _opener(kind)
    except ImportError as error:
        raise NotInstalledError(f"a package of {kind} catalogs is not installed: {error}") from error

    def opened(name: str, properties: Mapping[str, Any]) -> Catalog:
        # PyIceberg's own configuration of a catalog of that name counts beside the connection, as in load_catalog.
        from pyiceberg.utils.config import Config, merge_config

        given: dict[str, Any] = dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))
        try:
            return open_one(name, **given)
        except ImportError as error:
            raise NotInstalledError(f"a package of {kind} catalogs is not installed: {error}") from error

    return opened


def _opener(kind: str) -> Callable[..., Catalog]:
    if kind == "rest":
        from airflow_lake_provider.hooks.bounded_catalogs.rest_catalog import LakeRestCatalog

        return LakeRestCatalog
    if kind == "sql":
        from airflow_lake_provider.hooks.bounded_catalogs.sql_catalog import LakeSqlCatalog

        return LakeSqlCatalog
    if kind == "hive":
        from airflow_lake_provider.hooks.bounded_catalogs.hive_catalog import hive_catalog

        return hive_catalog()
    from airflow_lake_provider.hooks.bounded_catalogs.glue_catalog import glue_catalog

    return glue_catalog()
