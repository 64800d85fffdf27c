"""An Iceberg catalog of a connection on a worker, opened by PyIceberg with limits for each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.untrusted_properties import untrusted_code
from airflow_lake_provider.hooks.lock_free_cached_property import lock_free_cached_property
from airflow_lake_provider.tables.base import ListedTable
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable, refuse_broken_metadata

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
    from airflow_lake_provider.contracts.table_name import TableName
    from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables
    from airflow_lake_provider.tables.base import CatalogPolicy, MetadataVersion


class IcebergCatalog:
    """Implements ``tables.base.WorkerCatalog``.

    :raises UnsupportedError: a package of the catalog's kind is missing.
    """

    def __init__(self, connection: CatalogConnection) -> None:
        self._connection = connection
        self._opener = catalog_opener(connection.kind, connection.conn_id)

    @lock_free_cached_property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog."""
        return self._opener(self._connection.catalog_name, self._connection.pyiceberg_properties())

    def open(self) -> None:
        """Connect to the catalog."""
        _ = self.catalog

    def close(self) -> None:
        """End its connections, where it keeps any."""
        if hasattr(self.catalog, "close"):
            self.catalog.close()

    def count_namespaces(self) -> int:
        """Return how many namespaces it has."""
        return len(self.catalog.list_namespaces())

    def tables_in(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the whole names of a namespace's tables."""
        return [str(ListedTable(tuple(identifier))) for identifier in self.catalog.list_tables(namespace)]

    def list_tables(self, within: tuple[str, ...]) -> list[ListedTable]:
        """Return the tables of a namespace, and of those below it."""
        return self._trusted.listed_tables(within)

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of a namespace."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            properties = self.catalog.load_namespace_properties(namespace)
        except (NoSuchNamespaceError, NotImplementedError):
            # Dropped meanwhile, or the parent of one in a catalog that knows only whole names.
            return {}
        return {str(name): str(value) for name, value in properties.items()}

    def maintenance_policies(self, table: ListedTable) -> list[CatalogPolicy]:
        """Return the catalog's own policies for the maintenance of a table."""
        return self._trusted.policies_for(table)

    def load_listed(self, table: ListedTable) -> LoadedIcebergTable:
        """Load a table for its facts."""
        return self._trusted.load_for_facts(table)

    def most_readers(self) -> int:
        """Return how many threads may load tables at a time."""
        return self._trusted.most_readers

    @property
    def _trusted(self) -> TrustedTables:
        from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables

        assert isinstance(self.catalog, TrustedTables)  # each kind's
        return self.catalog

    def load_table(self, name: TableName) -> Table:
        """Load a table as PyIceberg has it."""
        loaded = self.catalog.load_table(name.levels)
        refuse_broken_metadata(str(name), loaded.metadata)
        return loaded

    def load(self, name: TableName) -> LoadedIcebergTable:
        """Load a table's current metadata."""
        return LoadedIcebergTable(self.load_table(name))

    def load_if_changed(
        self, name: TableName, seen: MetadataVersion | None
    ) -> tuple[LoadedIcebergTable, MetadataVersion] | None:
        """Load a table and the version of its metadata, or return None where the version is still ``seen``."""
        from airflow_lake_provider.hooks.conditional_load import load_if_changed

        loaded = load_if_changed(self.catalog, name.levels, seen)
        if loaded is None:
            return None
        refuse_broken_metadata(str(name), loaded[0].metadata)
        return LoadedIcebergTable(loaded[0]), loaded[1]

    def refuse_for_spark(self, name: TableName | None) -> None:
        """Refuse what Spark would follow though only the connection may say it."""
        from airflow_lake_provider.hooks.bounded_catalogs.trusted_answers import TrustedAnswers
        from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import refuse_code

        rest = self.catalog if isinstance(self.catalog, TrustedAnswers) else None
        own = self._connection.java_properties()
        if name is None:
            if rest is not None:
                rest.refuse_for_spark(own)
            return
        table = self.load_table(name)
        refuse_code(table, untrusted_code(table.metadata.properties, own))
        if rest is not None:
            rest.refuse_for_spark(own, table.name())


def catalog_opener(kind: str, conn_id: str = "lake_default") -> Callable[[str, Mapping[str, Any]], Catalog]:
    """Return what opens a catalog, given its name and PyIceberg's properties of it.

    All that has to be imported for it is imported by now: that takes a second or two, which no limit counts.

    :param kind: ``rest``, ``sql``, ``hive`` or ``glue``.
    :param conn_id: named in errors.
    :raises UnsupportedError: a package of that kind is missing.
    """
    try:
        open_one = _opener(kind)
    except ImportError as error:
        raise _not_installed(kind, conn_id, error) from error

    def opened(name: str, properties: Mapping[str, Any]) -> Catalog:
        # PyIceberg's own configuration of a catalog of that name counts beside the connection, as in load_catalog.
        from pyiceberg.utils.config import Config, merge_config

        given: dict[str, Any] = dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))
        try:
            return open_one(name, **given)
        except ImportError as error:
            raise _not_installed(kind, conn_id, error) from error

    return opened


# By the kind of catalog and the package that could not be imported. PyIceberg names the others itself.
_EXTRAS = {
    ("sql", "psycopg2"): "postgres",
    ("hive", "thrift"): "hive",
    ("glue", "boto3"): "glue",
    ("rest", "boto3"): "rest-sigv4",
}


def _not_installed(kind: str, conn_id: str, error: ImportError) -> UnsupportedError:
    extra = _EXTRAS.get((kind, (error.name or "").partition(".")[0]))
    return UnsupportedError(
        f"connection {conn_id!r}: a package of {kind} catalogs is not installed: {str(error).rstrip('.')}. Install "
        f"{f'the extra {extra!r} of airflow-lake-provider' if extra else 'it'} where tasks and the triggerer run"
    )


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
