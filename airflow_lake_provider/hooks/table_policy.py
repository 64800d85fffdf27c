"""Maintenance policies of the tables of a catalog, with the origin of each value: :func:`table_policies`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.as_of import moment_in_utc
from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    CatalogUnavailableError,
    InvalidSpecError,
    LakeProviderError,
)
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.look_at_tables import look_at_tables
from airflow_lake_provider.hooks.policy_file import PolicyFile, read_policy_file
from airflow_lake_provider.maintenance.policy import (
    Layer,
    LayerValues,
    TablePolicy,
    catalog_layer,
    dag_layer,
    merge,
    property_layer,
)
from airflow_lake_provider.maintenance.tuning import tuned_policy

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_lake_provider.tables.base import ListedTable, LoadedTable


class PolicyReader:
    """Reads and merges the layers of tables of one catalog; threads may share it.

    File and DAG are read when it is made, so that what is wrong with them is said before anything runs.

    :param hook: of the catalog.
    :param policy_file: as of :func:`table_policies`.
    :param policy: as of :func:`table_policies`.
    :param bundle: folder of the bundle of the DAG that asks.
    :raises InvalidSpecError: file or DAG has what no setting takes.
    """

    def __init__(
        self,
        hook: LakeCatalogHook,
        *,
        policy_file: str | None = None,
        policy: Mapping[str, Any] | None = None,
        bundle: Path | None = None,
    ) -> None:
        self.hook = hook
        self._file = read_policy_file(policy_file, bundle) or PolicyFile("")
        self._dag = dag_layer(policy)
        self._namespaces: dict[tuple[str, ...], dict[str, str] | LakeProviderError] = {}
        self._one_reader: dict[tuple[str, ...], Lock] = {}

    def policy_of(self, listed: ListedTable, table: LoadedTable, now: datetime | None = None) -> TablePolicy:
        """Return the policy of a table; one that cannot be read is an entry with its error, and stops no other.

        :param listed: as the catalog lists it.
        :param table: loaded now.
        :param now: up to which writes are measured, where defaults are tuned, with a zone; the present moment by
            default.
        :raises InvalidSpecError: ``now`` has no zone.
        """
        name = str(listed)
        moment = datetime.now(UTC) if now is None else moment_in_utc(now, "now")
        try:
            layers = self._layers(listed, table)
            return tuned_policy(merge(name, layers), layers, table, moment)
        except LakeProviderError as error:
            return TablePolicy(table=name, error=f"{type(error).__name__}: {error}")

    def policy_of_unread(self, name: str) -> MaintenancePolicy:
        """Return the policy of a table that cannot be read, by file and DAG alone: who owns it, and how urgent it is.

        :param name: whole name.
        """
        try:
            return merge(name, [self._file.layer(name), self._dag]).policy or MaintenancePolicy()
        except InvalidSpecError:
            # Those two do not go together without what the table says.
            return MaintenancePolicy()

    def forget_unanswered(self) -> None:
        """Ask anew for the properties of namespaces for which the catalog did not answer."""
        for namespace, properties in list(self._namespaces.items()):
            if isinstance(properties, CatalogUnavailableError):
                del self._namespaces[namespace]

    def _layers(self, listed: ListedTable, table: LoadedTable) -> list[LayerValues]:
        name = str(listed)
        try:
            bound = [
                catalog_layer(self.hook.maintenance_policies(listed)),
                self._namespace_layer(listed.levels[:-1]),
                property_layer(Layer.TABLE, table.facts.properties, f"table {name}", table.owner_policy()),
            ]
        except InvalidSpecError as error:
            # Nobody's argument is at fault.
            raise BrokenMetadataError(str(error)) from None
        return [self._file.layer(name), *bound, self._dag]

    def _namespace_layer(self, levels: tuple[str, ...]) -> LayerValues:
        """Return what a namespace and those around it name, the outermost first."""
        layers = [
            property_layer(Layer.NAMESPACE, self._properties(levels[:depth]), f"namespace {'.'.join(levels[:depth])}")
            for depth in range(1, len(levels) + 1)
        ]
        return LayerValues(Layer.NAMESPACE, [each for layer in layers for each in layer.named])

    def _properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        # Tables of a namespace wait for the first of them, and it is asked once.
        with self._one_reader.setdefault(namespace, Lock()):
            if namespace not in self._namespaces:
                try:
                    self._namespaces[namespace] = self.hook.namespace_properties(namespace)
                except LakeProviderError as error:
                    # Each further table would wait as long.
                    self._namespaces[namespace] = error
            properties = self._namespaces[namespace]
        if isinstance(properties, LakeProviderError):
            raise properties
        return properties


def table_policies(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    policy_file: str | None = None,
    policy: Mapping[str, Any] | None = None,
) -> list[TablePolicy]:
    """Return the policies of tables by their names, each value with its origin, without Spark.

    A table whose policy cannot be read is an entry with its error.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param policy_file: YAML file, relative to the folder of DAGs; of one in a DAG bundle, the absolute path. None takes
        ``[lake] policy_file``, or else ``lake_policy.yaml`` where it exists.
    :param policy: settings that the DAG names itself, as the file has them: ``{"orphans": {"mode": "off"}}``.
    :raises InvalidSpecError: a pattern is none, or file or DAG has what no setting takes.
    :raises UnsupportedError: tables of the connection's format cannot be listed without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    hook = LakeCatalogHook(lake_conn_id)
    reader = PolicyReader(hook, policy_file=policy_file, policy=policy)

    def broken(name: str, error: str) -> TablePolicy:
        return TablePolicy(table=name, error=error)

    looked = look_at_tables(
        tables, hook, reader.policy_of, broken, lambda each: each.error, forget=reader.forget_unanswered
    )
    return sorted(looked, key=lambda each: each.table)
