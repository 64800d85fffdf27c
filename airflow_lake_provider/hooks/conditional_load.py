"""Load a table's metadata only if the catalog says that it changed.

Each commit to an Iceberg table writes a new metadata file, so an equal location means equal metadata. A REST catalog
may name none, and no location says nothing. It is asked with the ETag of its last answer, and one that knows it answers
304 without a body.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.tables.base import MetadataVersion

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_NOT_MODIFIED = 304


def load_if_changed(
    catalog: Catalog, levels: tuple[str, ...], seen: MetadataVersion | None
) -> tuple[Table, MetadataVersion] | None:
    """Return a table and the version of its metadata, or None where the version is still ``seen``.

    A catalog in a database answers with one row. Hive and Glue have no cheaper answer than the whole table.

    :param levels: namespace and table.
    :param seen: version that the caller has; None loads the table in any case.
    :raises NoSuchTableError: it does not exist.
    """
    if seen is not None and _is_current(catalog, levels, seen):
        return None
    adapter = conditional_reads(catalog)
    if adapter is None:
        table, etag = catalog.load_table(levels), None
    else:
        with adapter.compare_with(seen) as reading:
            try:
                table = catalog.load_table(levels)
            except NotModified:
                return None
        etag = reading.etag
    if _is_seen(seen, table.metadata_location):
        return None
    return table, MetadataVersion(table.metadata_location or "", etag)


def _is_seen(seen: MetadataVersion | None, location: object) -> bool:
    return seen is not None and bool(location) and location == seen.location


def _is_current(catalog: Catalog, levels: tuple[str, ...], seen: MetadataVersion) -> bool:
    """Tell whether a catalog in a database still names the metadata file; others are not asked here."""
    sql = sys.modules.get("pyiceberg.catalog.sql")
    if sql is None or not isinstance(catalog, sql.SqlCatalog):
        return False
    asked = {"catalog": catalog.name, "namespace": ".".join(levels[:-1]), "table": levels[-1]}
    with catalog.engine.connect() as connection:
        location = connection.scalar(_location_query(), asked)
    return _is_seen(seen, location)


@cache
def _location_query() -> Any:
    """Return the statement; to build it for each look took four fifths of the CPU time of asking."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import bindparam, select

    return select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == bindparam("catalog"),
        IcebergTables.table_namespace == bindparam("namespace"),
        IcebergTables.table_name == bindparam("table"),
    )


def conditional_reads(catalog: Catalog) -> ConditionalReads | None:
    """Return the adapter of a REST catalog's session, put in on the first call; None for other catalogs."""
    rest = sys.modules.get("pyiceberg.catalog.rest")
    if rest is None or not isinstance(catalog, rest.RestCatalog):
        return None
    session = catalog._session
    mounted = session.get_adapter(catalog.uri)
    if isinstance(mounted, ConditionalReads):
        return mounted
    adapter = ConditionalReads(mounted)
    session.mount(catalog.uri, adapter)
    return adapter


class NotModified(Exception):  # noqa: N818  an answer of HTTP, not an error
    """The table is as the caller has seen it."""


@dataclass
class _Reading:
    seen: MetadataVersion | None
    etag: str | None = None

    @property
    def seen_etag(self) -> str | None:
        return None if self.seen is None else self.seen.etag


class ConditionalReads:
    """Ask a REST catalog for a table only if it changed, and never wait for an answer without end.

    It has the methods of an adapter of requests. Requests outside of :meth:`compare_with`, and other requests than
    those of tables, pass through.

    :param inner: adapter that sends requests, such as one that signs them.
    :param timeout: seconds to connect, and between two bytes of an answer.
    """

    def __init__(self, inner: Any, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._inner = inner
        self._of_thread = threading.local()

    @contextmanager
    def compare_with(self, seen: MetadataVersion | None) -> Iterator[_Reading]:
        """Compare the answer of the table that this thread reads with a version.

        :return: has the ETag of a new answer afterwards.
        """
        self._of_thread.reading = reading = _Reading(seen)
        try:
            yield reading
        finally:
            self._of_thread.reading = None

    def send(
        self,
        request: Any,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request.

        :raises NotModified: the answer is that of the version to compare with.
        """
        reading = self._reading(request)
        if reading is not None and reading.seen_etag is not None:
            request.headers["If-None-Match"] = reading.seen_etag
        response = self._inner.send(request, stream, timeout or self.timeout, verify, cert, proxies)
        if reading is not None:
            _compare(reading, response)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()

    def _reading(self, request: Any) -> _Reading | None:
        reading: _Reading | None = getattr(self._of_thread, "reading", None)
        is_table = request.method == "GET" and "/tables/" in (request.url or "").partition("?")[0]
        return reading if is_table else None


def _compare(reading: _Reading, response: Any) -> None:
    if response.status_code == _NOT_MODIFIED and reading.seen_etag is not None:
        raise NotModified
    if not response.ok:
        return
    reading.etag = response.headers.get("ETag")
    # The location is compared before PyIceberg checks all of the metadata, which takes most of the time.
    if _is_seen(reading.seen, _location(response)):
        raise NotModified


def _location(response: Any) -> Any:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer.get("metadata-location") if isinstance(answer, dict) else None
