"""Run Iceberg's own actions so that a commit that failed is looked for in the catalog: it may have been made.

A connection that breaks loses the answer to a commit. Iceberg's pool of connections sends the commit again, as proxies
do; the second is refused because the first went through. Iceberg then tries a third time, finds that what it wants to
replace is gone, and deletes what it has written. That is the manifest list of the head, and the table cannot be read
any more. Where nothing is sent again, Iceberg only knows that the commit failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.jvm.method_handles import MethodHandles, method_handles

_OPERATIONS, _METADATA, _SNAPSHOT = (
    f"org.apache.iceberg.{name}" for name in ("TableOperations", "TableMetadata", "Snapshot")
)
# Of what a commit is whose answer was lost, and what may have become of it.
METADATA = "metadata, so it may have been made; no file was removed"
_REFUSED, _UNKNOWN = (
    f"org.apache.iceberg.exceptions.{name}" for name in ("CommitFailedException", "CommitStateUnknownException")
)
# What a commit fails with whose answer was lost. The first is of a REST catalog whose connection broke.
_UNANSWERED = ("org.apache.iceberg.exceptions.RESTException", _UNKNOWN)


def with_commit_status_check(table: IcebergTable, operations: Any = None) -> Any:
    """Return the table as an ``org.apache.iceberg.BaseTable``, for an action of Iceberg that commits to main.

    A failed commit whose snapshot the table has was made. Where one was refused and the catalog does not say whether
    the table has its snapshot, the outcome is unknown, after which Iceberg deletes nothing. Any other failure is
    Iceberg's, as ever: it tries again after a refusal.

    :param operations: an ``org.apache.iceberg.TableOperations`` in place of the table's own.
    """
    java = table.java
    own = java.operations() if operations is None else operations
    return table.iceberg.BaseTable(_checked_operations(table.spark)(own), java.name(), java.reporter())


@once_a_driver
def _checked_operations(spark: SparkSession) -> Callable[[Any], Any]:
    make = method_handles(spark)
    return make.proxies(_OPERATIONS, commit=_commit(make))


def run_action(table: IcebergTable, action: Any, summary: dict[str, str]) -> str | None:
    """Run an action of Iceberg on such a table, and read the table again.

    :param summary: of the snapshot that it commits.
    :return: what another commit refused; None when it worked.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    for name, value in summary.items():
        action = action.snapshotProperty(name, value)
    return execute(table, action.execute, METADATA)


def execute(table: IcebergTable, run: Callable[[], Any], unanswered: str) -> str | None:
    """Run what commits no rows, and read the table again.

    :param run: an action of Iceberg.
    :param unanswered: of what a commit is, and what may have become of it, for the error.
    :return: what another commit refused; None when it worked.
    :raises UnknownOutcomeError: the answer to the commit was lost.
    """
    try:
        run()
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


def _commit(make: MethodHandles) -> Any:
    """Return ``TableOperations.commit``, from the metadata that is expected and the new one, which asks."""
    commit = make.method(_OPERATIONS, "commit", "void", _METADATA, _METADATA)
    unknown = make.each_through(
        make.throwing(_UNKNOWN, "boolean"), 0, make.constructor(_UNKNOWN, "java.lang.Throwable")
    )
    commit = _asking(make, commit, _REFUSED, unanswered=unknown)
    for error in _UNANSWERED:
        commit = _asking(make, commit, error, unanswered=make.dropping(make.never(), 0, "java.lang.Throwable"))
    return commit


def _asking(make: MethodHandles, commit: Any, error: str, *, unanswered: Any) -> Any:
    """Return a commit that throws an error only where the table has not its snapshot.

    :param unanswered: from the error of the question to whether it has.
    """
    given = (_OPERATIONS, _METADATA, _METADATA)
    made = make.dropping(make.nothing(), 0, error, *given)
    failed = make.dropping(make.throwing(error, "void"), 1, *given)
    is_made = make.catching(_is_there(make), "java.lang.Throwable", unanswered)
    is_made = make.dropping(make.dropping(is_made, 1, _METADATA), 0, error)
    return make.catching(commit, error, make.where(is_made, made, failed))


def _is_there(make: MethodHandles) -> Any:
    """Return a test of operations and metadata: whether the table has its newest snapshot."""
    refresh = make.method(_OPERATIONS, "refresh", _METADATA)
    newest = make.then(
        make.method(_METADATA, "currentSnapshot", _SNAPSHOT), make.method(_SNAPSHOT, "snapshotId", "long")
    )
    snapshot = make.each_through(make.method(_METADATA, "snapshot", _SNAPSHOT, "long"), 0, refresh, newest)
    is_there = make.static("java.util.Objects", "nonNull", "boolean", "java.lang.Object")
    return make.then(snapshot, make.typed(is_there, "boolean", _SNAPSHOT))
