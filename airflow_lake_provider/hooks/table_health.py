"""Health of the tables of a catalog, from their metadata alone: :func:`table_health`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.as_of import moment_in_utc
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.look_at_tables import look_at_tables
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.maintenance.health import TableHealth, broken_table, health_of
from airflow_lake_provider.maintenance.past_outcomes import with_past_runs
from airflow_lake_provider.maintenance.score import HealthLimits

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.table_policy import PolicyReader
    from airflow_lake_provider.tables.base import ListedTable, LoadedTable


def table_health(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    limits: HealthLimits | Callable[[str], HealthLimits | None] | None = None,
    policies: PolicyReader | None = None,
    fresh_within: timedelta | None = None,
    now: datetime | None = None,
) -> list[TableHealth]:
    """Return the health of tables, worst first, without Spark and without opening a data file.

    A table that cannot be read is an entry with its error, and the first of the list.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param limits: declared for all tables, or a function that returns those of a table by its name.
    :param policies: has the limits of each table that ``limits`` says nothing of; its catalog is the one that is read.
    :param fresh_within: for all tables, in place of that of ``limits`` and ``policies``.
    :param now: against which ages count, with a zone; the present moment by default.
    :raises InvalidSpecError: a pattern is none, ``now`` has no zone, or ``fresh_within`` is not above zero.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    moment = datetime.now(UTC) if now is None else moment_in_utc(now, "now")
    fresh = None if fresh_within is None else duration(fresh_within, "fresh_within")

    def judged(listed: ListedTable, loaded: LoadedTable) -> TableHealth:
        declared, policy_error = limits(str(listed)) if callable(limits) else limits, None
        if declared is None and policies is not None:
            policy = policies.policy_of(listed, loaded, moment)
            declared, policy_error = policy.limits, policy.error
        if fresh is not None:
            declared = replace(declared or HealthLimits(), fresh_within=fresh)
        health = health_of(loaded, moment, declared, remembered.orphans.get(str(listed)))
        health = replace(health, policy_error=policy_error)
        return with_past_runs(health, (remembered.outcomes or {}).get(str(listed), ()))

    def broken(name: str, error: str) -> TableHealth:
        return broken_table(name, moment, error)

    hook = LakeCatalogHook(lake_conn_id) if policies is None else policies.hook
    remembered = MaintenanceHistory(hook).remembered()
    forget = policies.forget_unanswered if policies else lambda: None
    looked = look_at_tables(tables, hook, judged, broken, lambda each: each.error or each.policy_error, forget=forget)
    return sorted(looked, key=lambda each: each.order)
