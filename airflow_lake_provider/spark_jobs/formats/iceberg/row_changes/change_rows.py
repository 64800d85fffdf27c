"""Delete or update the rows that match, by position, in one commit on the snapshot that they were found in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    CommitConflictError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.held_settings import COPY_ON_WRITE, held_settings
from airflow_lake_provider.contracts.table_obstacles import without_row_changes
from airflow_lake_provider.contracts.table_properties import ROWS_MATCHED
from airflow_lake_provider.spark_jobs.failures.broken_tables import settings_at_fault
from airflow_lake_provider.spark_jobs.failures.root_cause import root_cause
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, MatchedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.file_overwrite import FileOverwrite, commit_overwrite
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.row_delta_commit import commit_row_delta
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import (
    POSITIONS,
    ROW_PROOF,
    missing_internals,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.copy_files import copied_files, is_copied, mode_of
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.find_rows import matched_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.stage_updates import stage_updates
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress


def refuse_unchangeable(table: IcebergTable) -> None:
    """Refuse a table whose rows cannot be changed by position.

    :raises UnsupportedError: saying why.
    """
    missing = missing_internals(table.spark, {*POSITIONS, *ROW_PROOF})
    lacking = f"this Iceberg runtime lacks {', '.join(missing)}" if missing else None
    why = lacking or without_row_changes(table.format_version, table.properties())
    if why is not None:
        raise UnsupportedError(f"{table.name}: rows cannot be changed by position: {why}")


def change_rows(table: IcebergTable, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
    """Commit once; None when no row matches.

    :raises CommitConflictError: main is no longer at ``commit.base``; nothing changed.
    :raises UnknownOutcomeError: the commit's answer was lost and the run key is not on the table.
    """
    with progress.phase("match") as facts:
        matched = matched_rows(table, commit)
        rows = matched.updated + matched.deleted
        facts.update(rows=rows, files=len(matched.positions))
    if rows == 0:
        return None
    by_copy = is_copied(table, commit)
    # Before the commit, as it may find a setting that is no number.
    held = held_settings(
        str(table.name),
        table.properties(),
        mode_of(commit),
        COPY_ON_WRITE if by_copy else "positions",
        asked=False,
        format_version=table.format_version,
    )
    staged: Sequence[Any] = []
    overwrite = None
    if by_copy:
        with progress.phase("stage") as facts:
            overwrite = copied_files(table, commit, matched)
            staged = overwrite.added
            facts.update(files=len(staged))
    elif commit.assignments is not None:
        with progress.phase("stage") as facts:
            staged = stage_updates(table, matched, commit.assignments)
            facts.update(files=len(staged))
    commit = replace(commit, summary={**commit.summary, ROWS_MATCHED: str(rows)})
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, staged):
            snapshot = _commit_or_withhold(table, commit, matched, overwrite or staged)
        facts["snapshot"] = str(snapshot)
    return AppliedCommit(
        snapshot=str(snapshot),
        strategy=COPY_ON_WRITE if by_copy else "positions",
        strategy_reason="rows are matched, then "
        + ("their files are written anew" if by_copy else "deleted by position"),
        rows_updated=matched.updated,
        rows_deleted=matched.deleted,
        held=held,
    )


def _commit_or_withhold(
    table: IcebergTable, commit: MatchedCommit, matched: ResolvedRows, staged: Sequence[Any] | FileOverwrite
) -> int:
    try:
        if isinstance(staged, FileOverwrite):
            return commit_overwrite(table, commit, staged, {})
        return _commit(table, commit, matched, staged)
    except Exception as error:
        if not commit.match.is_secret:
            raise
        # A message may have paths of files, and those the values of partitions.
        raise _withheld(table, commit, error) from None


def _withheld(table: IcebergTable, commit: MatchedCommit, error: Exception) -> LakeProviderError:
    tried = f"{table.name}: the commit on snapshot {commit.base}"
    if isinstance(error, CommitConflictError):
        return CommitConflictError(f"{tried} was refused, another one was made. No data changed; a retry is safe.")
    if isinstance(error, LakeProviderError):
        # Ours name no path; their cause may, and is left behind.
        return type(error)(str(error))
    if wrong := settings_at_fault(error, table.properties):
        return BrokenMetadataError(f"{table.name}: {'; '.join(wrong)}. No data changed")
    withheld = "the message is withheld, it may name what is erased"
    if (cause := root_cause(error)) is not None:
        return cause.kind.error(f"{table.name}: {cause.kind.name}. {cause.kind.remedy}; {withheld}. No data changed")
    return JobFailedError(f"{tried} failed with {type(error).__name__}; {withheld}. A retry is safe.")


def _commit(table: IcebergTable, commit: MatchedCommit, matched: ResolvedRows, staged: Sequence[Any]) -> int:
    delta = write_deletes(table.refresh(), commit.base, matched.positions, staged)
    with discarded_on_failure(table, delta.deletes):
        return commit_row_delta(table, commit, delta, {})
