"""A catalog in AWS Glue whose calls end in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError

from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables, metastore_entry
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, seconds_left
from airflow_lake_provider.tables.base import ListedTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# Between two bytes; Glue answers a table within one.
_READ_SECONDS = 30.0


def glue_catalog() -> type[Catalog]:
    """Return PyIceberg's catalog, with limits for each of its calls.

    :raises ImportError: the extra ``glue`` is not installed.
    """
    from pyiceberg.catalog.glue import GlueCatalog

    class LakeGlueCatalog(TrustedTables, GlueCatalog):
        def __init__(self, name: str, **properties: Any) -> None:
            super().__init__(name, **{"botocore_session": _session(), **properties})

        def listed_in(self, namespace: tuple[str, ...]) -> list[ListedTable]:
            database = self.identifier_to_database(namespace, NoSuchNamespaceError)
            try:
                pages = list(self.glue.get_paginator("get_tables").paginate(DatabaseName=database))
            except self.glue.exceptions.EntityNotFoundException as error:
                raise NoSuchNamespaceError(f"Database does not exist: {database}") from error
            return [_listed(database, table) for page in pages for table in page["TableList"]]

    return LakeGlueCatalog


def _listed(database: str, table: Mapping[str, Any]) -> ListedTable:
    storage, levels = table.get("StorageDescriptor", {}), (database, table["Name"])
    of_serde = storage.get("SerdeInfo", {}).get("Parameters", {})
    return metastore_entry(
        levels, table.get("TableType"), table.get("Parameters", {}), storage.get("Location"), of_serde
    )


def _session() -> Any:
    """Return a session of botocore with timeouts; no attempt begins after the deadline of the call."""
    from botocore.config import Config
    from botocore.session import Session

    def refuse_late(**_: Any) -> None:
        seconds_left()

    session = Session()
    session.set_default_client_config(Config(connect_timeout=CONNECT_SECONDS, read_timeout=_READ_SECONDS))
    session.register("before-send.glue", refuse_late)
    return session
