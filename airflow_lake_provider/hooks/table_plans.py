"""Plans of the maintenance of a catalog's tables, from their metadata alone: :func:`table_plans`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import look_at_tables
from airflow_lake_provider.maintenance.health import broken_table, health_of
from airflow_lake_provider.maintenance.packing import ranked
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import limits_of, plan_of
from airflow_lake_provider.tables.base import LoadedTable

# Name of a table and its properties to its policy. Those of a table that cannot be read are empty.
PolicyOf = Callable[[str, Mapping[str, str]], MaintenancePolicy]


def table_plans(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    policy: MaintenancePolicy | PolicyOf | None = None,
    now: datetime | None = None,
) -> list[TablePlan]:
    """Return what maintenance of tables would do, and why, the most urgent first, without Spark.

    A table that cannot be read has a plan with its error, and no action.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param policy: of all tables, or a function that returns that of a table by its name and properties.
    :param now: against which ages and hours count; the present moment by default.
    :raises InvalidSpecError: a pattern is none.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    moment = now or datetime.now(UTC)

    def policy_of(name: str, properties: Mapping[str, str]) -> MaintenancePolicy:
        if callable(policy):
            return policy(name, properties)
        return policy or MaintenancePolicy()

    def planned(table: LoadedTable) -> TablePlan:
        own = policy_of(table.facts.name, table.facts.properties)
        return plan_of(health_of(table, moment, limits_of(own)), own, moment)

    def broken(name: str, error: str) -> TablePlan:
        try:
            own = policy_of(name, {})
        except LakeProviderError:
            # The policy may be what is broken.
            own = MaintenancePolicy()
        return plan_of(broken_table(name, moment, error), own, moment)

    return ranked(look_at_tables(tables, lake_conn_id, planned, broken))
