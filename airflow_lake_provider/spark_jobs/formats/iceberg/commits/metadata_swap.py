"""The one compare-and-swap that publishes a data commit on the head that it was made for, and what an answer means.

``Table.newTransaction().commitTransaction()`` does not serve. It would refresh and try again over whatever came in
between, a roll-back of main included. It would delete its manifests when a catalog reports as refused what was
committed. A REST catalog gets the same guard as a requirement on the branch's snapshot.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError, UnsupportedError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import conflict_message, is_refused, is_unsent
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable

# As Iceberg's ManifestFilterManager refuses an overwrite by a filter.
_PART_OF_A_FILE = "some, but not all, rows match filter"


def swap_metadata(table: IcebergTable, commit: DataCommit, staged: int, expected: Any, updated: Any) -> None:
    """Replace the metadata when it still is what was expected.

    :param staged: snapshot that the branch of ``commit`` is at in ``updated``.
    :param expected: ``org.apache.iceberg.TableMetadata`` that ``updated`` was built from.
    :raises CommitConflictError: refused, and the branch has not got the snapshot.
    :raises UnknownOutcomeError: the answer was lost and the branch has not got the snapshot yet. Any other error says
        that the commit was surely not made.
    """
    try:
        _send(table, expected, updated)
    except Exception as error:
        if is_unsent(error):
            raise
        conflict = conflict_error(table, commit, error)
        if conflict is error and not is_refused(error):
            _resolve_outcome(table, commit, staged, error)
            return
        # A driver of a database, or a proxy, may have sent it twice: the second is refused because the first went
        # through. Where that cannot be told, neither can this.
        if not _is_made(table, commit, staged):
            raise conflict from error
    # It was made. Who looks at the table next asks the catalog again, and says so where it does not answer.
    with suppress(Exception):
        table.refresh()


def _send(table: IcebergTable, expected: Any, updated: Any) -> None:
    table.java.operations().commit(expected, updated)


def _is_committed(table: IcebergTable, commit: DataCommit, staged: int) -> bool:
    ancestors = table.refresh().ancestors(commit.branch or MAIN)
    return any(snapshot.id == str(staged) for snapshot in ancestors)


def _is_made(table: IcebergTable, commit: DataCommit, staged: int) -> bool:
    """Tell whether a refused commit is on the branch all the same; UnknownOutcomeError where nobody answers."""
    try:
        return _is_committed(table, commit, staged)
    except Exception as unanswered:
        raise _unanswered(table, commit) from unanswered


def _unanswered(table: IcebergTable, commit: DataCommit) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{table.name}: the catalog did not answer the commit of run key {commit.run_key} nor the question whether "
        "it was made. A retry is safe: it looks for the run key first."
    )


def _resolve_outcome(table: IcebergTable, commit: DataCommit, staged: int, error: Exception) -> None:
    """Return when a commit whose answer was lost was made."""
    try:
        committed = _is_committed(table, commit, staged)
        is_applied = commit.run_key in table.history().run_keys(RecentRunKeys.read(table.properties()))
    except Exception as unanswered:
        raise _unanswered(table, commit) from unanswered
    if committed:
        return
    raise UnknownOutcomeError(
        f"{table.name}: the catalog's answer to the commit of run key {commit.run_key} was lost and it is not on the "
        f"table{', though another commit of this run is' if is_applied else ' yet'}. A retry is safe: it looks for the "
        "run key first."
    ) from error


def refuse_concurrent_commit(table: IcebergTable, commit: DataCommit) -> None:
    """Refuse a commit whose branch is no longer where it was decided on.

    :raises CommitConflictError: with both snapshots.
    """
    refuse_other_shape(table, commit)
    head = table.base_of(commit.branch)
    if head != commit.base:
        raise CommitConflictError(
            f"{table.name}: commit refused, {commit.branch or MAIN} was at snapshot {commit.base} and is at {head} "
            "now. No data changed."
        )


def refuse_other_shape(table: IcebergTable, commit: DataCommit) -> None:
    """Refuse a commit to a table without snapshots that was replaced since: its files have the fields of that before.

    Of a table with snapshots the head tells.

    :raises CommitConflictError: so that the batch is decided on again.
    """
    if commit.base is None and commit.made_for not in (None, table.shape_id):
        raise CommitConflictError(
            f"{table.name}: the empty table was replaced, or its schema has changed, since the batch was written. No "
            "data changed."
        )


def conflict_error(table: IcebergTable, commit: DataCommit, error: Exception) -> Exception:
    """Return the conflict that an error of Iceberg means, or the error itself when it means none."""
    message = conflict_message(error)
    if message is None:
        return error
    if _PART_OF_A_FILE in message:
        # Of the table as it is, whoever else commits: no retry would do better.
        return UnsupportedError(
            f"{table.name}: the overwrite would take single rows of a file: {message}. No data changed. Give a where "
            "that selects whole partitions, or allow_rows=True"
        )
    return CommitConflictError(f"{table.name}: commit on snapshot {commit.base} refused: {message}. No data changed.")
