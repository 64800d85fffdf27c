"""The catalog of an ``iceberg`` connection, opened from a worker without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidConnectionError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.hooks.aws_errors import is_refusal, is_unanswered

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_lake_provider.contracts.metadata_change import MetadataChange
    from airflow_lake_provider.hooks.conditional_load import MetadataVersion

EXAMPLE = (
    '{"conn_type": "iceberg", "host": "https://catalog.example.com/api", "login": "<client id>", '
    '"password": "<client secret>", "extra": {"type": "rest", "warehouse": "lake", "s3.region": "eu-west-1"}}'
)


class LakeCatalogHook(BaseHook):
    """Open the catalog that a connection of the official type ``iceberg`` describes.

    The official ``IcebergHook`` keeps the connection type; this one adds what it lacks: database passwords, the
    Spark side, the package's own errors.

    :param lake_conn_id: id of the connection.
    :raises InvalidConnectionError: it is missing, of another type, or cannot describe a catalog; raised on first use.
    :raises CatalogUnavailableError: the catalog does not answer; raised on first use.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = "lake_default"

    def __init__(self, lake_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.lake_conn_id = lake_conn_id

    @cached_property
    def connection(self) -> CatalogConnection:
        """The checked connection; its secrets are masked in Airflow's logs from here on.

        :raises InvalidConnectionError: when it is missing, of another type, or cannot describe a catalog.
        """
        conn_id = self.lake_conn_id
        try:
            found = self.get_connection(conn_id)
        except AirflowNotFoundException as error:
            raise refused(conn_id, f"it does not exist; create it, for example as {EXAMPLE}") from error
        if found.conn_type != "iceberg":
            raise refused(conn_id, f"its type is {found.conn_type!r}, expected 'iceberg', for example {EXAMPLE}")
        if found.password:
            mask_secret(found.password)
        connection = CatalogConnection.from_fields(
            conn_id=conn_id,
            host=found.host,
            port=found.port,
            login=found.login,
            password=found.password,
            schema=found.schema,
            extra=_extra(conn_id, found.extra),
        )
        for secret in connection.secrets():
            mask_secret(secret)
        return connection

    @cached_property
    def catalog(self) -> Catalog:
        """The opened catalog, kept for the life of the hook.

        :raises CatalogUnavailableError: when it does not answer.
        :raises InvalidConnectionError: when it refuses the credentials.
        """
        from pyiceberg.catalog import load_catalog

        connection = self.connection
        with self._translated_errors("the catalog"):
            return load_catalog(connection.catalog_name, **connection.pyiceberg_properties())

    def get_conn(self) -> Catalog:
        """Return the opened catalog."""
        return self.catalog

    def load_table(self, table: TableName | str) -> Table:
        """Load a table's current metadata.

        :param table: ``namespace.table``.
        :raises MissingTableError: when the table or its namespace does not exist.
        :raises UnsupportedError: when it is a table of another format.
        :raises BrokenMetadataError: when its metadata cannot be what a writer made.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        from airflow_lake_provider.snapshots.broken_metadata import refuse_broken_metadata

        with self._reading(table) as (catalog, levels):
            found = catalog.load_table(levels)
        refuse_broken_metadata(str(table), found.metadata)
        return found

    def load_table_if_changed(
        self, table: TableName | str, seen: MetadataVersion | None
    ) -> tuple[Table, MetadataVersion] | None:
        """Load a table's current metadata and its version, or return None where the version is still ``seen``.

        :param table: ``namespace.table``.
        :param seen: version of an earlier call; None loads the table in any case.
        :raises MissingTableError: when the table or its namespace does not exist.
        :raises UnsupportedError: when it is a table of another format.
        :raises BrokenMetadataError: when its metadata cannot be what a writer made.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        from airflow_lake_provider.hooks.conditional_load import load_if_changed
        from airflow_lake_provider.snapshots.broken_metadata import refuse_broken_metadata

        with self._reading(table) as (catalog, levels):
            found = load_if_changed(catalog, levels, seen)
        if found is not None:
            refuse_broken_metadata(str(table), found[0].metadata)
        return found

    def commit_metadata(self, table: Table, change: MetadataChange) -> bool:
        """Make a change of a table's metadata, where PyIceberg can.

        :param table: loaded now.
        :return: False where only Spark can; nothing was sent then.
        :raises CommitConflictError: another commit came in between; nothing changed.
        :raises UnknownOutcomeError: the answer was lost.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        from airflow_lake_provider.hooks.metadata_commit import commit_metadata, is_committed_without_spark

        if not is_committed_without_spark(self.catalog, table, change):
            return False
        with self._translated_errors(f"table {'.'.join(table.name())}"):
            commit_metadata(self.catalog, table, change)
        return True

    def test_connection(self) -> tuple[bool, str]:
        """Open the catalog as jobs do, and count its namespaces; whatever goes wrong is an answer.

        The button in Airflow's form does not call this: the connection type ``iceberg`` belongs to the official hook.
        """
        try:
            catalog = self.catalog
            with self._translated_errors("the catalog"):
                found = len(catalog.list_namespaces())
        except LakeProviderError as error:
            return False, str(error)
        # A missing package or folder, a name that PyIceberg refuses: each library has errors of its own.
        except Exception as error:  # noqa: BLE001
            return False, f"connection {self.lake_conn_id!r}: {self._without_secrets(error)}"
        return (
            True,
            f"The {self.connection.kind} catalog {self.connection.catalog_name!r} answered: {found} namespaces.",
        )

    @contextmanager
    def _reading(self, table: TableName | str) -> Iterator[tuple[Catalog, tuple[str, ...]]]:
        """Give the catalog and the levels of a table's name, and translate the errors of reading it."""
        name = table if isinstance(table, TableName) else TableName.parse(table)
        catalog = self.catalog
        with self._translated_errors(f"table {name}"):
            yield catalog, name.levels

    @contextmanager
    def _translated_errors(self, what: str) -> Iterator[None]:
        from pyiceberg.exceptions import (
            NoSuchIcebergTableError,
            NoSuchNamespaceError,
            NoSuchTableError,
            OAuthError,
            UnauthorizedError,
        )

        said = f"connection {self.lake_conn_id!r}, {what}"
        try:
            yield
        except NoSuchIcebergTableError as error:
            raise UnsupportedError(f"{said} is not an Iceberg table: {self._without_secrets(error)}") from None
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise MissingTableError(f"{said} does not exist: {self._without_secrets(error)}") from None
        except (OAuthError, UnauthorizedError) as error:
            raise InvalidConnectionError(f"{said} refused the credentials: {self._without_secrets(error)}") from None
        except Exception as error:
            if is_refusal(error):
                raise InvalidConnectionError(
                    f"{said} refused the credentials: {self._without_secrets(error)}"
                ) from None
            if not _is_unanswered(error):
                raise
            raise CatalogUnavailableError(f"{said} did not answer: {self._without_secrets(error)}") from None

    def _without_secrets(self, error: BaseException) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self.connection.secrets():
            text = text.replace(secret, "***")
        return text


def _extra(conn_id: str, text: str | None) -> dict[str, Any]:
    # Airflow's own `extra_dejson` turns broken JSON into an empty extra, which would name another catalog.
    try:
        extra = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise refused(conn_id, f"its extra is not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(extra, dict):
        raise refused(conn_id, f"its extra is a JSON {type(extra).__name__}, expected an object, for example {EXAMPLE}")
    return extra


def _is_unanswered(error: Exception) -> bool:
    from pyiceberg.exceptions import (
        AuthorizationExpiredError,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
    )
    from sqlalchemy.exc import InterfaceError, OperationalError

    answers = (AuthorizationExpiredError, ServerError, ServiceUnavailableError, TooManyRequestsError)
    # Hive's client is optional; one that was never imported raised nothing.
    thrift = sys.modules.get("thrift.transport.TTransport")
    hive = (thrift.TTransportException,) if thrift is not None else ()
    # requests' errors are OSErrors and so are those of sockets and of PyArrow's object stores.
    transport = (*answers, OperationalError, InterfaceError, OSError, *hive)
    is_of_transport = isinstance(error, transport) and not isinstance(error, (FileNotFoundError, PermissionError))
    return is_of_transport or is_unanswered(error)
