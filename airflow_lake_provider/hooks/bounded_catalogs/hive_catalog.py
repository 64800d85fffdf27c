"""A catalog in a Hive metastore whose calls end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyiceberg.exceptions import NoSuchNamespaceError

from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables, metastore_entry
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, deadline, most_bytes, refuse_size, seconds_left
from airflow_lake_provider.tables.base import ListedTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def hive_catalog() -> type[Catalog]:
    """Return PyIceberg's catalog, with limits for each of its calls.

    :raises ImportError: the extra ``hive`` is not installed.
    """
    from pyiceberg.catalog.hive import HiveCatalog, _HiveClient

    class _Client(_HiveClient):
        def _init_thrift_transport(self) -> Any:
            return _transport(self._uri, bool(self._kerberos_auth), self._kerberos_service_name)

    class LakeHiveCatalog(TrustedTables, HiveCatalog):
        # A client of Thrift is one connection, on which answers follow their questions.
        most_readers = 1

        @staticmethod
        def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
            plain = HiveCatalog._create_hive_client(properties)
            return _Client(plain._uri, properties.get("ugi"), plain._kerberos_auth, plain._kerberos_service_name)

        def listed_in(self, namespace: tuple[str, ...]) -> list[ListedTable]:
            database = self.identifier_to_database(namespace, NoSuchNamespaceError)
            with self._client as client:
                names = client.get_all_tables(db_name=database)
                return [_listed(each) for each in client.get_table_objects_by_name(dbname=database, tbl_names=names)]

    return LakeHiveCatalog


def _listed(table: Any) -> ListedTable:
    storage = table.sd
    of_serde = storage.serdeInfo.parameters if storage and storage.serdeInfo else None
    location = storage.location if storage else None
    levels = table.dbName, table.tableName
    return metastore_entry(levels, table.tableType, table.parameters or {}, location, of_serde or {})


def _transport(uri: str, has_kerberos: bool, service: str | None) -> Any:
    from thrift.transport.TTransport import TBufferedTransport, TSaslClientTransport  # type: ignore[import-untyped]

    address = urlsplit(uri)
    connected = _bounded_socket(address.hostname, address.port)
    if has_kerberos:
        return TSaslClientTransport(connected, host=address.hostname, service=service)
    return TBufferedTransport(connected)


def _bounded_socket(host: str | None, port: int | None) -> Any:
    """Return a socket of Thrift that is read until the deadline of the call in which it is opened."""
    from thrift.transport.TSocket import TSocket  # type: ignore[import-untyped]
    from thrift.transport.TTransport import TTransportException

    class _Socket(TSocket):  # type: ignore[misc]  # Thrift has no annotations
        def open(self) -> None:
            self._until, self._most, self._read = deadline(), most_bytes(), 0
            super().open()

        def _resolveAddr(self) -> Any:  # noqa: N802  as Thrift names it
            addresses = super()._resolveAddr()
            self._addresses = len(addresses)
            return addresses

        def _do_open(self, *args: Any) -> Any:
            # Thrift gives each address of a host the whole of the timeout.
            self.setTimeout(1000 * min(CONNECT_SECONDS, self._left() / max(1, self._addresses)))
            self._addresses -= 1
            return super()._do_open(*args)

        def read(self, sz: int) -> bytes:
            self.setTimeout(1000 * self._left())
            data: bytes = super().read(sz)
            self._read += len(data)
            refuse_size(self._read, self._most, "the answer")
            return data

        def _left(self) -> float:
            try:
                return seconds_left(self._until)
            except TimeoutError as error:
                raise TTransportException(TTransportException.TIMED_OUT, str(error)) from error

    return _Socket(host, port)
