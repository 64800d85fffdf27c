"""Open a table's files by what the connection says, whatever the table's properties say."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Properties

from airflow_lake_provider.catalogs.foreign_properties import code_of_table, of_table_properties
from airflow_lake_provider.contracts.errors import UnsupportedError

log = logging.getLogger(__name__)
_OF_FILES = ("py-", "s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.", "DEFAULT_", "buffer-size")


class TrustedTables(Catalog):
    """Part of a catalog that lets a table choose neither code nor an endpoint."""

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return super()._load_file_io(self._of_table(properties), location)

    def _of_table(self, properties: Mapping[str, str]) -> dict[str, str]:
        accepted = of_table_properties(properties)
        told: set[str] = self.__dict__.setdefault("_told", set())
        new = {name for name in properties if name.startswith(_OF_FILES)} - accepted.keys() - told
        if new:
            told |= new
            log.warning(
                "catalog %s: a table has the properties %s, which are ignored: only the connection may say them",
                self.name,
                ", ".join(map(repr, sorted(new))),
            )
        return accepted

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, unless the table names a class of Python that PyIceberg would load for it.

        :raises UnsupportedError: it does; nothing was changed.
        """
        refuse_code(table, python=True)
        return super().commit_table(table, requirements, updates)  # type: ignore[safe-super]  # that of a catalog


def refuse_code(table: Table, *, python: bool) -> None:
    """Refuse a table whose properties choose a class for its writers.

    :param python: those of PyIceberg, else those of Iceberg-Java.
    :raises UnsupportedError: naming the properties.
    """
    if named := code_of_table(table.metadata.properties, python=python):
        raise UnsupportedError(
            f"{'.'.join(table.name())}: the table names code to load, in {', '.join(map(repr, named))}; remove it with "
            "ALTER TABLE ... UNSET TBLPROPERTIES"
        )
