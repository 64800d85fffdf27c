"""Commits that a run has made since a snapshot, and those of other writers in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


def commits_since(
    table: IcebergTable, before: str | None, run_key: str
) -> tuple[list[tuple[str, Mapping[str, str]]], list[str]]:
    """Return the run's snapshots of main since one, oldest first, and the ids of other writers' ones.

    :param before: snapshot that main was at.
    :return: of the run's, id and summary.
    """
    ours, foreign = [], []
    for snapshot in table.ancestors():
        if snapshot.id == before:
            break
        if snapshot.summary.get(RUN_KEY) == run_key:
            ours.append((snapshot.id, snapshot.summary))
        else:
            foreign.append(snapshot.id)
    return ours[::-1], foreign[::-1]


def sum_of(commits: Sequence[tuple[str, Mapping[str, str]]], name: str) -> int:
    """Return the sum of a count in the summaries of :func:`commits_since`."""
    return sum(count_of(summary, name) for _, summary in commits)
