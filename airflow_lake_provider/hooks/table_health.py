"""Health of the tables of a catalog, from their metadata alone: :func:`table_health`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.maintenance.health import TableHealth, broken_table, health_of

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.table_policy import PolicyReader
    from airflow_lake_provider.maintenance.score import HealthLimits
    from airflow_lake_provider.tables.base import ListedTable, LoadedTable

Looked = TypeVar("Looked")


def table_health(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    limits: HealthLimits | Callable[[str], HealthLimits | None] | None = None,
    policies: PolicyReader | None = None,
    now: datetime | None = None,
) -> list[TableHealth]:
    """Return the health of tables, worst first, without Spark and without opening a data file.

    A table that cannot be read is an entry with its error, and the first of the list.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param limits: declared for all tables, or a function that returns those of a table by its name.
    :param policies: has the limits of each table that ``limits`` says nothing of.
    :param now: against which ages count; the present moment by default.
    :raises InvalidSpecError: a pattern is none.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    moment = now or datetime.now(UTC)

    def judged(listed: ListedTable, loaded: LoadedTable) -> TableHealth:
        declared = limits(str(listed)) if callable(limits) else limits
        if declared is None and policies is not None:
            declared = policies.policy_of(listed, loaded).limits
        return health_of(loaded, moment, declared)

    judged_tables = look_at_tables(tables, lake_conn_id, judged, lambda name, error: broken_table(name, moment, error))
    return sorted(judged_tables, key=lambda each: each.order)


def look_at_tables(
    tables: str | Sequence[str],
    lake_conn_id: str,
    look: Callable[[ListedTable, LoadedTable], Looked],
    broken: Callable[[str, str], Looked],
) -> list[Looked]:
    """Return what is made of each table that patterns mean, several being read at a time.

    :param look: makes it of a table, as the catalog lists it and as it was loaded.
    :param broken: makes it of the name of a table that cannot be read, and of the error.
    :raises LakeProviderError: as :func:`table_health`.
    """
    patterns = TablePatterns.parse(tables)
    hook = LakeCatalogHook(lake_conn_id)
    hook.table_format.refuse_lacking(f"connection {lake_conn_id!r}", ["health"])
    listed = hook.tables_matching(patterns)

    def at(table: ListedTable) -> Looked:
        name = str(table)
        try:
            return hook.look_at(table, lambda loaded: look(table, loaded))
        except LakeProviderError as error:
            return broken(name, f"{type(error).__name__}: {error}")
        # Nothing that a stranger's table does may stop the look at the others.
        except Exception as error:
            log.exception("table %s cannot be judged", name)
            return broken(name, f"table {name} cannot be judged: {type(error).__name__}: {error}")

    with ThreadPoolExecutor(hook.opened.most_readers(), "table-health") as readers:
        return list(readers.map(at, listed))
