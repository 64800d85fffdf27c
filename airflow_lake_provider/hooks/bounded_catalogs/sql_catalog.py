"""A catalog in a database whose statements end in time."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from sqlalchemy import Engine, event

from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, seconds_left

_ALARM = "lake_alarm"


class LakeSqlCatalog(TrustedTables, SqlCatalog):
    """PyIceberg's catalog, with limits for each of its calls.

    A database that has the connection and says nothing is waited for without end. Timeouts of statements are kept by
    the server, and those of TCP ask whether its machine lives. So the connection is cut at the deadline.
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
        return Table(
            identifier=(*self.identifier_to_tuple(str(orm_table.table_namespace)), str(orm_table.table_name)),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )


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
        record.info[_ALARM] = _Alarm(lambda: _cut(connection), seconds_left())

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
