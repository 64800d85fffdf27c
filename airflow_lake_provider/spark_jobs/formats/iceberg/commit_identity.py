"""What makes a data commit ours: its summary, the properties that appear with it, and how a lost answer is settled."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable


def summary_of(commit: KeyedCommit) -> dict[str, str]:
    """Return what goes into the snapshot's summary."""
    return {
        ACTION: commit.action,
        RUN_KEY: commit.run_key,
        SOURCE_POSITION: commit.position.to_summary(commit.source_id),
    }


def properties_of(table: IcebergTable, commit: KeyedCommit, position: dict[str, str]) -> dict[str, str]:
    """Return the properties that appear with a commit to main; those of run keys continue what the table holds now."""
    recent = RecentRunKeys.read(table.properties()).add(commit.run_key, datetime.now(UTC))
    return {**commit.properties, **position, **recent.to_properties()}


def settle(table: IcebergTable, branch: str, staged: int | None, commit: KeyedCommit, error: Exception) -> None:
    """Return when a commit whose answer was lost has landed.

    :raises UnknownOutcomeError: it has not landed yet, or the catalog does not say; a retry is safe.
    """
    try:
        landed = any(snapshot.snapshot_id == str(staged) for snapshot in table.refresh().ancestors(branch))
        known = commit.run_key in RecentRunKeys.read(table.properties())
    except Exception as unanswered:
        raise UnknownOutcomeError(
            f"{table.name}: the catalog did not answer the commit of run key {commit.run_key} nor the question whether "
            "it landed. A retry is safe: it looks for the run key first."
        ) from unanswered
    if landed:
        return
    raise UnknownOutcomeError(
        f"{table.name}: the catalog's answer to the commit of run key {commit.run_key} was lost and it is not on the "
        f"table{', though another commit of this run is' if known else ' yet'}. A retry is safe: it looks for the run "
        "key first."
    ) from error
