"""Plans of the maintenance of a catalog's tables, from their metadata alone: :func:`table_plans`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.look_at_tables import look_at_tables
from airflow_lake_provider.hooks.table_policy import PolicyReader
from airflow_lake_provider.maintenance.health import broken_table, health_of
from airflow_lake_provider.maintenance.packing import ranked
from airflow_lake_provider.maintenance.planner import plan_of

if TYPE_CHECKING:
    from airflow_lake_provider.maintenance.plan import TablePlan
    from airflow_lake_provider.tables.base import ListedTable, LoadedTable


def table_plans(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    policy_file: str | None = None,
    policy: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> list[TablePlan]:
    """Return what maintenance of tables would do, and why, the most urgent first, without Spark.

    A table that cannot be read, or whose policy cannot, has a plan with its error, and no action.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param policy_file: as of :func:`.table_policies`.
    :param policy: settings that the DAG names itself, as of :func:`.table_policies`.
    :param now: against which ages and hours count; the present moment by default.
    :raises InvalidSpecError: a pattern is none, or file or DAG has what no setting takes.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    moment, hook = now or datetime.now(UTC), LakeCatalogHook(lake_conn_id)
    reader = PolicyReader(hook, policy_file=policy_file, policy=policy)

    def planned(listed: ListedTable, table: LoadedTable) -> TablePlan:
        merged = reader.policy_of(listed, table)
        if merged.policy is None:
            return broken(str(listed), merged.error or "its policy cannot be read")
        return plan_of(health_of(table, moment, merged.limits), merged.policy, moment)

    def broken(name: str, error: str) -> TablePlan:
        return plan_of(broken_table(name, moment, error), MaintenancePolicy(), moment)

    return ranked(look_at_tables(tables, hook, planned, broken))
