"""A catalog in a database whose statements end in time."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE, IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from sqlalchemy import Engine, event, null, or_, select

from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, seconds_left
from airflow_lake_provider.iceberg.metadata_facts import read_facts
from airflow_lake_provider.tables.base import ListedTable
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable, UnparsedIcebergTable

_ALARM = "lake_alarm"
_BUSY = "lake_busy_timeout"


class LakeSqlCatalog(TrustedTables, SqlCatalog):
    """PyIceberg's catalog, with limits for each of its calls.

    A database that has the connection and says nothing is waited for without end. Timeouts of statements are kept by
    the server, and those of TCP ask whether its machine lives. So the connection is cut at the deadline. One to SQLite
    waits for a lock until then, and no longer.
    """

    def _init_catalog(self) -> None:
        # Called between the making of the engine and its first use.
        _bound(self.engine)
        super()._init_catalog()

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        # PyIceberg reads the metadata file here with a FileIO that no method gives.
        location = str(orm_table.metadata_location or "")
        if not location:
            raise NoSuchTableError(f"{orm_table.table_name}: the catalog names no metadata file of it")
        metadata = FromInputFile.table_metadata(self._load_file_io(location=location).new_input(location))
        levels = (*self.identifier_to_tuple(str(orm_table.table_namespace)), str(orm_table.table_name))
        return self._table(levels, location, metadata)

    def _table(self, levels: tuple[str, ...], location: str, metadata: TableMetadata) -> Table:
        return Table(
            identifier=levels,
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def listed_tables(self, within: tuple[str, ...]) -> list[ListedTable]:
        """Return tables and views with the locations of their metadata, by one statement.

        :param within: namespace; empty for the whole catalog.
        """
        # A catalog of the first version of this schema has tables alone, and no column that says so.
        kind = IcebergTables.iceberg_type if self._iceberg_type_filter() is not None else null()
        columns = IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location
        asked = select(*columns, kind).where(IcebergTables.catalog_name == self.name)
        if within:
            namespace, name = IcebergTables.table_namespace, ".".join(within)
            asked = asked.where(or_(namespace == name, namespace.startswith(f"{name}.", autoescape=True)))
        with self.engine.connect() as connection:
            return [
                ListedTable((*self.identifier_to_tuple(namespace), name), location, _foreign(kind))
                for namespace, name, location, kind in connection.execute(asked)
            ]

    def load_for_facts(self, table: ListedTable) -> LoadedIcebergTable:
        """Read the metadata file that the list named, without PyIceberg's parsing of it."""
        location = table.metadata_location
        if not location:
            return super().load_for_facts(table)
        try:
            body = self._metadata_of(location)
        except FileNotFoundError:
            # A commit since the list was made may have removed it.
            return super().load_for_facts(table)
        return UnparsedIcebergTable(
            read_facts(str(table), body),
            len(body),
            lambda: self._table(table.levels, location, TableMetadataUtil.parse_raw(body.decode())),
        )

    def _metadata_of(self, location: str) -> bytes:
        # By what the connection says alone, so that one FileIO is good for all tables of a store.
        files: dict[str, FileIO] = self.__dict__.setdefault("_files_by_scheme", {})
        scheme = urlsplit(location).scheme
        if scheme not in files:
            files[scheme] = self._load_file_io(location=location)
        opened = files[scheme].new_input(location).open()
        with Compressor.get_compressor(location).stream_decompressor(opened) as stream:
            return stream.read()


def _foreign(kind: str | None) -> str | None:
    """Return what an entry is whose ``iceberg_type`` is not that of a table."""
    if kind in (None, ICEBERG_TABLE_TYPE):
        return None
    return "a view" if kind == "VIEW" else f"of type {kind!r} in the catalog"


class _Alarm:
    """Cut a connection at a deadline, unless it was given back before."""

    def __init__(self, cut: Callable[[], None], seconds: float) -> None:
        self._cut, self._is_over, self._deciding = cut, False, threading.Lock()
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        with self._deciding:
            self._is_over = True
        self._timer.cancel()

    def _ring(self) -> None:
        with self._deciding:
            if not self._is_over:
                self._cut()


def _bound(engine: Engine) -> None:
    def connect(dialect: Any, _record: Any, _args: Any, arguments: dict[str, Any]) -> None:
        if dialect.driver in ("psycopg2", "psycopg"):
            # libpq takes whole seconds, from 2 on.
            arguments.setdefault("connect_timeout", max(2, int(min(CONNECT_SECONDS, seconds_left()))))

    def lend(connection: Any, record: Any, _proxy: Any) -> None:
        left = seconds_left()
        if hasattr(connection, "interrupt"):  # SQLite, whose wait for a lock is not interrupted
            waits = record.info.setdefault(_BUSY, connection.execute("PRAGMA busy_timeout").fetchone()[0])
            connection.execute(f"PRAGMA busy_timeout = {min(waits, int(left * 1000))}")
        record.info[_ALARM] = _Alarm(lambda: _cut(connection), left)

    def take_back(_connection: Any, record: Any) -> None:
        alarm = record.info.pop(_ALARM, None)
        if alarm is not None:
            alarm.stop()

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", lend)
    event.listen(engine, "checkin", take_back)


def _cut(connection: Any) -> None:
    """End what a connection waits for, from another thread."""
    if hasattr(connection, "interrupt"):  # SQLite
        connection.interrupt()
        return
    # One that was closed meanwhile waits for nothing.
    with (
        suppress(Exception),
        socket.socket(fileno=os.dup(connection.fileno())) as s,
    ):
        s.shutdown(socket.SHUT_RDWR)
