"""Tables of this package's own in a catalog: named by a setting, asked in a bounded time, and never in the way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

log = logging.getLogger(__name__)
T = TypeVar("T")

OFF = "off"


class OwnTable:
    """A table of this package's own, which may be switched off.

    :param hook: of the catalog.
    :param setting: of the section ``[lake]`` that names the table.
    :param default: its name where the setting is missing.
    :param name: in place of the setting; ``off``, or empty, switches the table off.
    :param columns: further arguments of :class:`.OpsTable`.
    :raises InvalidSpecError: the name is none.
    """

    def __init__(self, hook: LakeCatalogHook, setting: str, default: str, name: str | None, **columns: Any) -> None:
        given = conf.get("lake", setting, fallback=default) if name is None else name
        self.name = name_of_own_table(given)
        self._hook, self._columns = hook, columns

    def ask(self, call: Callable[[OpsTable], T]) -> T:
        """Return what a call makes of the table, within the limits of a catalog's call.

        :raises LakeProviderError: the catalog or the table cannot be used.
        """
        from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

        name = self.name
        if name is None:
            raise AssertionError("a table that is switched off is asked nothing")

        def asked(catalog: Catalog) -> T:
            return call(OpsTable(catalog=catalog, name=name, **self._columns))

        return self._hook.ask(f"table {name}", asked)

    def tried(self, what: str, call: Callable[[OpsTable], T], default: T) -> T:
        """Return what :meth:`ask` returns; after any error a default, and a warning with the cause.

        :param what: was not done, for the warning: ``not written``.
        """
        if self.name is None:
            return default
        try:
            return self.ask(call)
        except LakeProviderError as error:
            log.warning("Table %s was %s: %s: %s", self.name, what, type(error).__name__, error)
        # Whatever a library raises, maintenance goes on.
        except Exception:
            log.warning("Table %s was %s", self.name, what, exc_info=True)
        return default


def name_of_own_table(given: object) -> TableName | None:
    """Return the name that an author or a setting gives; None where it switches the table off.

    :raises InvalidSpecError: it is no name.
    """
    return None if given in ("", OFF) else TableName.parse(given)


def with_own_tables(patterns: TablePatterns, hook: LakeCatalogHook, own: Iterable[TableName | None]) -> TablePatterns:
    """Return patterns that mean this package's own tables, too: whoever fills them maintains them.

    What an author leaves out by ``!`` or does not allow stays left out.

    :param own: names; None of a table that is switched off.
    """
    named = [name for name in own if name is not None and not patterns.matches(str(name))]
    existing = {str(table) for within in {name.namespace for name in named} for table in hook.list_tables(within)}
    return replace(patterns, included=(*patterns.included, *(str(name) for name in named if str(name) in existing)))
