"""Run Iceberg's own actions so that a commit that was refused is looked for in the catalog: it may have been made.

A connection that breaks loses the answer to a commit. Iceberg's pool of connections sends the commit again, as proxies
do; the second is refused because the first went through. Iceberg then tries a third time, finds that what it wants to
replace is gone, and deletes what it has written. That is the manifest list of the head, and the table cannot be read
any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.jvm.method_handles import MethodHandles, method_handles

_OPERATIONS, _METADATA, _SNAPSHOT = (
    f"org.apache.iceberg.{name}" for name in ("TableOperations", "TableMetadata", "Snapshot")
)
_REFUSED, _UNKNOWN = (
    f"org.apache.iceberg.exceptions.{name}" for name in ("CommitFailedException", "CommitStateUnknownException")
)


def with_commit_status_check(table: IcebergTable, operations: Any = None) -> Any:
    """Return the table as an ``org.apache.iceberg.BaseTable``, for an action of Iceberg that commits to main.

    A refused commit whose snapshot the table has was made. Where the catalog does not say whether it has, the outcome
    is unknown, after which Iceberg deletes nothing. After any other refusal Iceberg tries again, as ever.

    :param operations: an ``org.apache.iceberg.TableOperations`` in place of the table's own.
    """
    make, java = method_handles(table.spark), table.java
    own = java.operations() if operations is None else operations
    return table.iceberg.BaseTable(
        make.proxy(_OPERATIONS, own, commit=_commit(make, own)), java.name(), java.reporter()
    )


def run_action(table: IcebergTable, action: Any, summary: dict[str, str]) -> str | None:
    """Run an action of Iceberg on such a table, and read the table again.

    :param summary: of the snapshot that it commits.
    :return: what another commit refused; None when it worked.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    for name, value in summary.items():
        action = action.snapshotProperty(name, value)
    return execute(table, lambda: action, "metadata, so it may have been made; no file was removed")


def execute(table: IcebergTable, action: Callable[[], Any], unanswered: str) -> str | None:
    """Run an action of Iceberg that commits no rows, and read the table again.

    :param action: makes it.
    :param unanswered: of what a commit is, and what may have become of it, for the error.
    :return: what another commit refused; None when it worked.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    try:
        action().execute()
    except JavaError as error:
        if is_unknown(error):
            raise UnknownOutcomeError(
                f"{table.name}: the catalog did not answer a commit of {unanswered}. Rows are the same either way; run "
                f"it again. {root_message(error)}"
            ) from error
        refusal = conflict_message(error)
        if refusal is None:
            raise
        return refusal
    finally:
        table.refresh()
    return None


def _commit(make: MethodHandles, operations: Any) -> Any:
    """Return ``TableOperations.commit``, from the metadata that is expected and the new one, which asks."""
    commit = make.method(_OPERATIONS, "commit", "void", _METADATA, _METADATA).bindTo(operations)
    made = make.dropping(make.nothing(), 0, _REFUSED, _METADATA, _METADATA)
    refused = make.dropping(make.throwing(_REFUSED, "void"), 1, _METADATA, _METADATA)
    is_made = make.dropping(_is_made(make, operations), 0, _REFUSED, _METADATA)
    return make.catching(commit, _REFUSED, make.where(is_made, made, refused))


def _is_made(make: MethodHandles, operations: Any) -> Any:
    """Return a test of metadata: whether the table has its newest snapshot."""
    refresh = make.method(_OPERATIONS, "refresh", _METADATA).bindTo(operations)
    snapshot = make.after(make.method(_METADATA, "snapshot", _SNAPSHOT, "long"), refresh)
    newest = make.then(
        make.method(_METADATA, "currentSnapshot", _SNAPSHOT), make.method(_SNAPSHOT, "snapshotId", "long")
    )
    is_there = make.typed(
        make.static("java.util.Objects", "nonNull", "boolean", "java.lang.Object"), "boolean", _SNAPSHOT
    )
    asked = make.then(make.each_through(snapshot, 0, newest), is_there)
    unanswered = make.each_through(
        make.throwing(_UNKNOWN, "boolean"), 0, make.constructor(_UNKNOWN, "java.lang.Throwable")
    )
    return make.catching(asked, "java.lang.Throwable", unanswered)
