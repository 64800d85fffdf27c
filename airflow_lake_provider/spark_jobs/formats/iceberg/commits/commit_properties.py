"""Properties of a data commit: its base, its summary, and the table properties that are set with it."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.source_position import summary_of as positions_in_summary
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def summary_of(commit: DataCommit) -> dict[str, str]:
    """Return what goes into the snapshot's summary."""
    identity = {ACTION: commit.action, RUN_KEY: commit.run_key}
    if commit.positions:
        identity[SOURCE_POSITION] = positions_in_summary(commit.positions)
    return {**commit.summary, **identity}


def properties_of(table: IcebergTable, commit: DataCommit, position: dict[str, str]) -> dict[str, str]:
    """Return the properties that appear with a commit; those of run keys continue what the table holds now.

    :param position: of ``position_properties``.
    :return: none for a branch other than main.
    """
    if commit.branch is not None:
        return {}
    recent = RecentRunKeys.read(table.properties()).add(commit.run_key, datetime.now(UTC))
    return {**commit.properties, **position, **recent.to_properties()}
