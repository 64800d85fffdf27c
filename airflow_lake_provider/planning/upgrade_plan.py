"""Plan the upgrade of a table's format version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, TableUpgradeSpec
from airflow_lake_provider.planning.planned_change import PlannedChange

if TYPE_CHECKING:
    from airflow_lake_provider.tables.base import LoadedTable


def plan_upgrade(table: LoadedTable, spec: TableUpgradeSpec) -> PlannedChange:
    """Decide whether a table has to be upgraded, and warn of what changes for its readers and writers.

    :param table: loaded now.
    :raises UnsupportedError: another writer may fail after the upgrade.
    """
    facts, version = table.facts, table.facts.format_version
    if version >= spec.format_version:
        return PlannedChange.nothing(table, spec, f"the table has format version {version} already")
    harm = table.harmed_by_upgrade(spec.format_version)
    if harm is not None and not spec.allow_other_writers:
        raise UnsupportedError(f"{spec.table}: {harm}")
    change = MetadataChange(table_uuid=facts.uuid, format_version=spec.format_version)
    return PlannedChange.of(
        table,
        spec,
        f"the table went from format version {version} to {spec.format_version}; there is no way back",
        change,
        format_version=spec.format_version,
        warnings=(*table.changed_by_upgrade(spec.format_version), *filter(None, [harm])),
    )
