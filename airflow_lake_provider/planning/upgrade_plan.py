"""Plan the upgrade of a table's format version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, TableUpgradeSpec
from airflow_lake_provider.contracts.specs.snapshot_expiry import FLINK_JOB_AGE
from airflow_lake_provider.iceberg.flink_jobs import recent, without_upgrade_to_version_3
from airflow_lake_provider.planning.planned_change import PlannedChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_lake_provider.contracts.table_facts import TableFacts
    from airflow_lake_provider.tables.base import LoadedTable


def plan_upgrade(table: LoadedTable, spec: TableUpgradeSpec) -> PlannedChange:
    """Decide whether a table has to be upgraded, and warn of what changes for its readers and writers.

    :param table: loaded now.
    :raises UnsupportedError: a Flink job writes to the table, which may fail after an upgrade to version 3.
    """
    facts, version = table.facts, table.facts.format_version
    if version >= spec.format_version:
        return PlannedChange.nothing(table, spec, f"the table has format version {version} already")
    strands = (
        without_upgrade_to_version_3(facts.branch_histories(), recent(FLINK_JOB_AGE))
        if spec.format_version == 3
        else None
    )
    if strands is not None and not spec.allow_other_writers:
        raise UnsupportedError(f"{spec.table}: {strands}")
    change = MetadataChange(table_uuid=facts.uuid, format_version=spec.format_version)
    return PlannedChange.of(
        table,
        spec,
        f"the table went from format version {version} to {spec.format_version}; there is no way back",
        change,
        format_version=spec.format_version,
        warnings=(*_warnings(facts, spec), *filter(None, [strands])) if spec.format_version == 3 else (),
    )


def _warnings(facts: TableFacts, spec: TableUpgradeSpec) -> Iterator[str]:
    if facts.newest() is None:
        return
    yield (
        "rows get row ids with the next commit; an incremental run that starts at a snapshot from before it has to "
        "read everything once (on_gap='full')"
    )
    if facts.total("total-position-deletes"):
        yield (
            f"{spec.table} has position delete files of version 2; they stay valid, and are replaced by deletion "
            "vectors when their data files are changed or compacted"
        )
