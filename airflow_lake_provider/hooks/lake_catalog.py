"""The catalog of an ``iceberg`` connection, opened from a worker without Spark."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_lake_provider.catalogs.catalog_connection import EXAMPLE, CatalogConnection, read_extra
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.secret_properties import hide_secrets
from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BrokenMetadataError,
    CatalogUnavailableError,
    InvalidConnectionError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.failure_causes import ACCESS_DENIED, TLS
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns
from airflow_lake_provider.hooks.call_limits import answer_in_time, call_seconds, within
from airflow_lake_provider.hooks.catalog_errors import (
    is_access_denied,
    is_forbidden,
    is_no_catalog,
    is_nonsense,
    is_refused,
    is_refused_by_aws,
    is_unanswered,
    is_unreadable,
    is_untrusted,
    text_of,
    unreadable,
)
from airflow_lake_provider.hooks.lock_free_cached_property import lock_free_cached_property
from airflow_lake_provider.hooks.stored_connection import stored_connection

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_lake_provider.contracts.capabilities import FormatCapabilities
    from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
    from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import IcebergCatalog
    from airflow_lake_provider.tables.base import (
        CatalogPolicy,
        ListedTable,
        LoadedTable,
        MetadataVersion,
        WorkerCatalog,
    )

T = TypeVar("T")
_CATALOG = "the catalog"
# Whoever serves a catalog chooses the text of its errors.
_LONGEST_SHOWN = 1000


class LakeCatalogHook(BaseHook):
    """Open the catalog that a connection of the official type ``iceberg`` describes.

    The official ``IcebergHook`` keeps the connection type; this one adds what it lacks: database passwords, the
    Spark side, the package's own errors.

    :param lake_conn_id: id of the connection.
    :param timeout: seconds in which the catalog is opened, and in which a table is loaded; None means
        ``[lake] catalog_timeout``.
    :raises InvalidConnectionError: it is missing, of another type, or cannot describe a catalog; raised on first use.
    :raises CatalogUnavailableError: the catalog does not answer; raised on first use.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = "lake_default"

    def __init__(self, lake_conn_id: str = default_conn_name, *, timeout: float | None = None) -> None:
        super().__init__()
        self.lake_conn_id = lake_conn_id
        self.timeout = timeout

    @lock_free_cached_property
    def connection(self) -> CatalogConnection:
        """The checked connection; its secrets are masked in Airflow's logs from here on.

        :raises InvalidConnectionError: when it is missing, of another type, or cannot describe a catalog.
        """
        conn_id = self.lake_conn_id
        stored = stored_connection(conn_id, EXAMPLE)
        if stored.conn_type != "iceberg":
            raise refused(conn_id, f"its type is {stored.conn_type!r}, expected 'iceberg', for example {EXAMPLE}")
        if stored.password:
            mask_secret(stored.password)
        connection = CatalogConnection.from_fields(
            conn_id=conn_id,
            host=stored.host,
            port=stored.port,
            login=stored.login,
            password=stored.password,
            schema=stored.schema,
            extra=read_extra(conn_id, stored.extra),
        )
        for secret in connection.secrets():
            mask_secret(secret)
        return connection

    @property
    def table_format(self) -> FormatCapabilities:
        """The format of the catalog's tables, as it is declared."""
        return declared_format(self.connection.table_format)

    @lock_free_cached_property
    def opened(self) -> WorkerCatalog:
        """The opened catalog as the table format of the connection reads it, kept for the life of the hook.

        :raises UnsupportedError: the format has no part for workers.
        :raises CatalogUnavailableError: when it does not answer.
        :raises InvalidConnectionError: when it refuses the credentials.
        """
        self.table_format.refuse_without_worker(f"connection {self.lake_conn_id!r}")
        catalog: WorkerCatalog = resolve_name(self.table_format.worker)(self.connection)
        with self._translated_errors(_CATALOG):
            catalog.open()
        return catalog

    @property
    def catalog(self) -> Catalog:
        """The opened catalog as PyIceberg has it.

        :raises UnsupportedError: the connection is to tables of another format.
        :raises LakeProviderError: as :attr:`opened`.
        """
        return self._iceberg.catalog

    def get_conn(self) -> Catalog:
        """Return the opened catalog as PyIceberg has it."""
        return self.catalog

    @property
    def _iceberg(self) -> IcebergCatalog:
        from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import IcebergCatalog

        if not isinstance(self.opened, IcebergCatalog):
            raise UnsupportedError(
                f"connection {self.lake_conn_id!r}: its tables have format {self.table_format.name!r}, which PyIceberg "
                "does not read; use loaded()"
            )
        return self.opened

    def load_table(self, table: TableName | str) -> Table:
        """Load a table's current metadata as PyIceberg has it.

        :param table: ``namespace.table``.
        :raises MissingTableError: when the table or its namespace does not exist.
        :raises UnsupportedError: when it is a table of another format.
        :raises BrokenMetadataError: when its metadata cannot be what a writer made.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        iceberg = self._iceberg
        with self._reading(table) as (_, name):
            return iceberg.load_table(name)

    def loaded(self, table: TableName | str) -> LoadedTable:
        """Load a table's current metadata as this package's operators ask it, whatever its format.

        :param table: ``namespace.table``.
        :raises LakeProviderError: as :meth:`load_table`.
        """
        with self._reading(table) as (opened, name):
            return opened.load(name)

    def list_tables(self, within: tuple[str, ...] = ()) -> list[ListedTable]:
        """Return the tables of a namespace and of those below it; none where it does not exist.

        :param within: namespace; empty for the whole catalog.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        opened = self.opened
        try:
            with self._translated_errors(f"namespace {'.'.join(within)}" if within else _CATALOG):
                return opened.list_tables(within)
        except MissingTableError:
            return []

    def tables_matching(self, patterns: TablePatterns) -> list[ListedTable]:
        """Return the tables that patterns mean.

        :raises MissingTableError: one that is named without ``*`` and ``?`` does not exist.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        listed, missing = self.tables_and_missing(patterns)
        if missing:
            name, why = next(iter(missing.items()))
            raise MissingTableError(f"connection {self.lake_conn_id!r}: table {name} {why}")
        return listed

    def tables_and_missing(self, patterns: TablePatterns) -> tuple[list[ListedTable], dict[str, str]]:
        """Return the tables that patterns mean, and, of those that are named and do not exist, what to say of each."""
        listed = {str(table): table for within in sorted(patterns.namespaces()) for table in self.list_tables(within)}
        missing = {name: f"does not exist{nearest(name, listed)}" for name in patterns.missing(listed)}
        return [table for name, table in listed.items() if patterns.matches(name)], missing

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of a namespace; none where it does not exist.

        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        opened = self.opened
        with self._translated_errors(f"namespace {'.'.join(namespace)}"):
            return opened.namespace_properties(namespace)

    def maintenance_policies(self, table: ListedTable) -> list[CatalogPolicy]:
        """Return the catalog's own policies for the maintenance of a table; none where it keeps none.

        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        opened = self.opened
        with self._translated_errors(f"policies of table {table}"):
            return opened.maintenance_policies(table)

    def look_at(self, table: ListedTable, look: Callable[[LoadedTable], T]) -> T:
        """Load a listed table for its facts, look at it, and end both within the limits of one call.

        :raises LakeProviderError: as :meth:`load_table`.
        """
        opened = self.opened
        with self._translated_errors(f"table {table}"):
            return look(opened.load_listed(table))

    def loaded_if_changed(
        self, table: TableName | str, seen: MetadataVersion | None
    ) -> tuple[LoadedTable, MetadataVersion] | None:
        """Load a table's current metadata and its version, or return None where the version is still ``seen``.

        :param table: ``namespace.table``.
        :param seen: version of an earlier call; None loads the table in any case.
        :raises LakeProviderError: as :meth:`load_table`.
        """
        with self._reading(table) as (opened, name):
            return opened.load_if_changed(name, seen)

    def ask(self, what: str, call: Callable[[Catalog], T]) -> T:
        """Return the answer of a call of PyIceberg's catalog, which ends within the limits of one.

        :param what: it is about, for errors: ``table shop.orders``.
        :raises LakeProviderError: as :meth:`load_table`.
        """
        catalog = self.catalog
        with self._translated_errors(what):
            return answer_in_time(lambda: call(catalog))

    def tables_named_like(self, table: TableName | str) -> list[str]:
        """Return up to three tables of a namespace whose names are like one that it lacks; none where nobody can tell.

        :param table: ``namespace.table``.
        """
        try:
            with self._reading(table) as (opened, name):
                names = opened.tables_in(name.levels[:-1])
        except LakeProviderError:
            return []
        return difflib.get_close_matches(str(table), names, n=3)

    def commit_metadata(self, table: LoadedTable | Table, change: MetadataChange) -> bool:
        """Make a change of a table's metadata, where that needs no Spark.

        :param table: loaded now, by :meth:`loaded` or by :meth:`load_table`.
        :return: False where only Spark can; nothing was sent then.
        :raises CommitConflictError: one of the refs moved, or other commits came first each time; nothing changed.
        :raises UnknownOutcomeError: the answer was lost.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        from pyiceberg.table import Table as PyIcebergTable

        from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

        loaded = LoadedIcebergTable(table) if isinstance(table, PyIcebergTable) else table
        with self._translated_errors(f"table {loaded.facts.name}"):
            return loaded.commit(change)

    def refuse_for_spark(self, tables: Iterable[str]) -> None:
        """Refuse what Spark would follow though only the connection may say it: a class, a server that gets secrets.

        :param tables: that a job names; those that do not exist yet are left out.
        :raises UnsupportedError: naming the properties.
        :raises CatalogUnavailableError: when the catalog does not answer.
        """
        self.opened.refuse_for_spark(None)
        for table in tables:
            with suppress(MissingTableError), self._reading(table) as (opened, name):
                opened.refuse_for_spark(name)

    def test_connection(self) -> tuple[bool, str]:
        """Open the catalog as jobs do, and count its namespaces; whatever goes wrong is an answer.

        The button in Airflow's form does not call this: the connection type ``iceberg`` belongs to the official hook.
        """
        try:
            opened = self.opened
            with self._translated_errors(_CATALOG):
                count = opened.count_namespaces()
        except LakeProviderError as error:
            return False, str(error)
        # A missing package or folder, a name that PyIceberg refuses: each library has errors of its own.
        except Exception as error:  # noqa: BLE001
            return False, f"connection {self.lake_conn_id!r}: {self._without_secrets(error)}"
        return (
            True,
            f"The {self.connection.kind} catalog {self.connection.catalog_name!r} answered: {count} namespaces.",
        )

    @contextmanager
    def _reading(self, table: TableName | str) -> Iterator[tuple[WorkerCatalog, TableName]]:
        """Give the catalog and a table's name, and translate the errors of reading it."""
        name = table if isinstance(table, TableName) else TableName.parse(table)
        opened = self.opened
        with self._translated_errors(f"table {name}"):
            yield opened, name

    @contextmanager
    def _translated_errors(self, what: str) -> Iterator[None]:
        """Let a call end in time, and turn what it raises into errors of this package."""
        try:
            with within(call_seconds() if self.timeout is None else self.timeout):
                yield
        except BrokenMetadataError as error:
            why = str(error).removeprefix(f"{what.removeprefix('table ')}: ")
            raise BrokenMetadataError(f"connection {self.lake_conn_id!r}, {what}: {why}") from None
        except LakeProviderError:
            raise
        except Exception as error:
            translated = self._translated(what, error)
            # Python keeps it as the context of the new one.
            hide_secrets(error, self._hidden)
            if translated is None:
                raise
            raise translated from None

    def _translated(self, what: str, error: Exception) -> LakeProviderError | None:
        """Return an error as one of this package; None for one that is no matter of a catalog."""
        from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError

        name, why = f"connection {self.lake_conn_id!r}, {what}", self._without_secrets(error)
        if isinstance(error, NoSuchIcebergTableError):
            return UnsupportedError(f"{name} is not an Iceberg table: {why}")
        if isinstance(error, (NoSuchTableError, NoSuchNamespaceError)) and not is_nonsense(error):
            return MissingTableError(f"{name} does not exist: {why}")
        # Of one table or namespace, it says nothing of the connection.
        is_denied = what != _CATALOG and is_forbidden(error)
        if not is_denied and (is_refused(error) or is_refused_by_aws(error)):
            return InvalidConnectionError(f"{name} refused the credentials or the call: {why}")
        if is_denied or is_access_denied(error):
            return AccessDeniedError(f"{name}: access was denied: {why}. {ACCESS_DENIED.remedy}")
        if (unfit := _unfit(error, why)) is not None:
            return InvalidConnectionError(f"{name}: {unfit}")
        if is_unanswered(error):
            return CatalogUnavailableError(f"{name} did not answer: {why}")
        if isinstance(error, NotImplementedError):
            return UnsupportedError(f"{name}: the catalog does not have this call: {why}")
        if is_nonsense(error):
            return CatalogUnavailableError(
                f"{name} gave an answer that is none of an Iceberg catalog; look at the address of the connection, and "
                f"at what serves it: {why}"
            )
        if what != _CATALOG and is_unreadable(error):
            return unreadable(f"{what} in {self.lake_conn_id}", error, why)
        return None

    def _without_secrets(self, error: BaseException) -> str:
        text = text_of(error).encode(errors="backslashreplace").decode()
        text = self._hidden(text)
        return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} ..."

    def _hidden(self, text: str) -> str:
        for secret in self.connection.secrets():
            text = text.replace(secret, "***")
        return text


def _unfit(error: Exception, why: str) -> str | None:
    """Return what of a connection does not fit what it leads to; None for other errors."""
    if is_no_catalog(error):
        return (
            "the database answered, and has no catalog of Iceberg, or one of another version; look at the address of "
            f"the connection: {why}"
        )
    return f"{TLS.name}: {why.strip()}. {TLS.remedy}" if is_untrusted(error) else None
