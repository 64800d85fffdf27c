"""Open a table's files by what the connection says, whatever the table's properties say, and within a call's limits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ClassVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
)
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Properties

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.untrusted_properties import code_properties, is_read, of_table_properties
from airflow_lake_provider.hooks.bounded_catalogs.metadata_files import bound_files
from airflow_lake_provider.hooks.call_limits import deadline, seconds_left
from airflow_lake_provider.hooks.call_limits import within as call_within
from airflow_lake_provider.hooks.catalog_errors import is_forbidden
from airflow_lake_provider.tables.base import CatalogPolicy, ListedTable
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable, refuse_broken_metadata

log = logging.getLogger(__name__)
# A stranger may think of new ones at each look.
_MOST_TOLD = 50
_OF_FILES = ("py-", "s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.", "DEFAULT_", "buffer-size")


class TrustedTables(Catalog):
    """Part of a catalog that lets a table choose neither code nor an endpoint."""

    # Threads that may load tables at a time.
    most_readers: ClassVar[int] = 8

    def listed_tables(self, within: tuple[str, ...]) -> list[ListedTable]:
        """Return what a namespace and those below it list, several namespaces being asked at a time.

        One of these that may not be listed hides no other, and is said at WARNING.

        :param within: namespace; empty for the whole catalog.
        """
        asked: set[tuple[str, ...]] = set()
        left, tables = [within] if within else list(self.list_namespaces()), list[ListedTable]()
        until = deadline()

        def listed(namespace: tuple[str, ...]) -> tuple[list[ListedTable], list[tuple[str, ...]]]:
            # A thread of its own has a deadline of its own.
            with call_within(seconds_left(until)):
                return self._listed_below(namespace, may_be_hidden=namespace != within)

        with ThreadPoolExecutor(self.most_readers, "list-namespaces") as readers:
            # A server may list a namespace below itself.
            while new := [each for each in dict.fromkeys(left) if each not in asked]:
                asked.update(new)
                answers = list(readers.map(listed, new))
                tables += [table for of_one, _ in answers for table in of_one]
                left = [each for _, below in answers for each in below]
        return tables

    def _listed_below(
        self, namespace: tuple[str, ...], *, may_be_hidden: bool
    ) -> tuple[list[ListedTable], list[tuple[str, ...]]]:
        """Return the tables of a namespace, and the namespaces right below it."""
        tables, below = list[ListedTable](), list[tuple[str, ...]]()
        try:
            # One may be dropped meanwhile, and some servers know no namespace below another.
            with suppress(NoSuchNamespaceError):
                tables = self.listed_in(namespace)
            with suppress(NoSuchNamespaceError, BadRequestError, NotImplementedError):
                below = [tuple(each) for each in self.list_namespaces(namespace)]
        except Exception as error:
            if not may_be_hidden or not is_forbidden(error):
                raise
            log.warning(
                "catalog %s: namespace %s may not be listed, so that none of its tables is seen: %s",
                self.name,
                ".".join(namespace),
                type(error).__name__,
            )
        return tables, below

    def listed_in(self, namespace: tuple[str, ...]) -> list[ListedTable]:
        """Return the tables of a namespace, and beside them what is no table of Iceberg, such as a view."""
        return [ListedTable(tuple(levels)) for levels in self.list_tables(namespace)]

    def policies_for(self, table: ListedTable) -> list[CatalogPolicy]:  # noqa: ARG002  of catalogs that have some
        """Return the catalog's own policies for the maintenance of a table."""
        return []

    def load_for_facts(self, table: ListedTable) -> LoadedIcebergTable:
        """Load a table of which few will be asked more than its facts."""
        loaded = self.load_table(table.levels)
        refuse_broken_metadata(str(table), loaded.metadata)
        return LoadedIcebergTable(loaded)

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return bound_files(super()._load_file_io(self._of_table(properties), location))

    def _of_table(self, properties: Mapping[str, str]) -> dict[str, str]:
        accepted = of_table_properties(properties)
        files = {name for name in properties if name.startswith(_OF_FILES)}
        self._tell("a table has", files - accepted.keys())
        return accepted

    def _tell(self, what: str, ignored: Iterable[str]) -> None:
        """Say once that properties are ignored, and of what nobody reads nothing."""
        logged: set[str] = self.__dict__.setdefault("_logged", set())
        new = sorted({name for name in ignored if is_read(name)} - logged)[:_MOST_TOLD]
        if new and len(logged) < _MOST_TOLD:
            logged.update(new)
            log.warning(
                "catalog %s: %s %s, ignored since only the connection may say it; if it is right, write it into the "
                "connection's extra",
                self.name,
                what,
                ", ".join(repr(name[:100]) for name in new),
            )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, unless the table names a class of Python that PyIceberg would load for it.

        A client that sends a request twice, as that of Glue does, is refused for its own commit. PyIceberg would then
        delete the manifests of what is the table's head.

        :raises UnsupportedError: it does; nothing was changed.
        """
        properties = table.metadata.properties
        refuse_code(table, sorted(code_properties(properties, of_python=True).keys() - code_properties(properties)))
        try:
            return super().commit_table(table, requirements, updates)  # type: ignore[safe-super]  # that of a catalog
        except CommitFailedException as error:
            added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
            if not added:
                raise
            now = self._loaded_after(table, error)
            if not added <= {snapshot.snapshot_id for snapshot in now.metadata.snapshots}:
                raise
            return CommitTableResponse.model_validate(
                {"metadata": now.metadata, "metadata-location": now.metadata_location}
            )

    def _loaded_after(self, table: Table, refused: CommitFailedException) -> Table:
        try:
            return self.load_table(table.name())
        except Exception as error:  # noqa: BLE001  # whatever it is, the commit may be there
            raise CommitStateUnknownException(f"{refused}; whether it was made is not known: {error}") from refused


def refuse_code(table: Table, names: Iterable[str]) -> None:
    """Refuse a table whose properties choose a class for its writers.

    :param names: of those properties; nothing is refused without one.
    :raises UnsupportedError: naming the properties.
    """
    if named := ", ".join(map(repr, names)):
        raise UnsupportedError(
            f"{'.'.join(table.name())}: the table names code to load, in {named}; remove it with "
            "ALTER TABLE ... UNSET TBLPROPERTIES"
        )


def metastore_entry(
    levels: tuple[str, ...],
    kind: str | None,
    parameters: Mapping[str, str],
    location: str | None,
    of_serde: Mapping[str, str],
) -> ListedTable:
    """Return an entry of a Hive metastore or of Glue as a table, or as what it is instead.

    :param kind: its ``tableType``: ``EXTERNAL_TABLE``, ``VIRTUAL_VIEW``.
    :param parameters: of the entry.
    :param location: of its storage.
    :param of_serde: parameters of its serialisation. Spark keeps the folder of a table of its own sources there, and a
        placeholder as the location.
    """
    foreign = _foreign(kind, parameters)
    place = of_serde.get("path") or location
    return ListedTable(levels, parameters.get("metadata_location"), foreign, (place or None) if foreign else None)


def _foreign(kind: str | None, parameters: Mapping[str, str]) -> str | None:
    """Return what an entry is where it is no table of Iceberg, whose views have the type ``iceberg-view``."""
    format_ = parameters.get("table_type") or parameters.get("spark.sql.sources.provider") or "hive"
    if format_.lower() == "iceberg":
        return None
    is_view = (kind or "").upper().endswith("VIEW") or format_.lower() == "iceberg-view"
    return "a view" if is_view else f"a table of format {format_.lower()!r}"
