"""The way of a commit to its branch: at once. ``audit_before_publish.py`` has the other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import RowDelta, commit_row_delta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discard_files
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable


class CommitRoute:
    """By one commit on the branch itself."""

    @property
    def tries(self) -> int:
        """Number of tries; each costs about as much as what the other commit added."""
        return 20

    def commit_delta(self, table: IcebergTable, commit: LoadCommit, delta: RowDelta, position: dict[str, str]) -> int:
        """Commit and return the snapshot's id.

        :param position: of ``position_properties``.
        :raises CommitConflictError: the branch is no longer at the base; nothing of this is part of it.
        :raises UnknownOutcomeError: the answer was lost and the snapshot is not on the branch.
        """
        return commit_row_delta(table, commit, delta, position)

    def may_go_on(self) -> bool:
        """Tell whether files of a commit that was refused may be committed again."""
        return True

    def discard(self, table: IcebergTable, files: Collection[Any]) -> None:
        """Delete files of a commit that was surely refused."""
        discard_files(table, files)
