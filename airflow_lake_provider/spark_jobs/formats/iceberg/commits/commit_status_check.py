"""Run Iceberg's own actions so that a commit that was refused is looked for in the catalog: it may have been made.

A connection that breaks loses the answer to a commit. Iceberg's pool of connections sends the commit again, as proxies
do; the second is refused because the first went through. Iceberg then tries a third time, finds that what it wants to
replace is gone, and deletes what it has written. That is the manifest list of the head, and the table cannot be read
any more.
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


def with_commit_status_check(table: IcebergTable, operations: Any = None) -> Any:
    """Return the table as an ``org.apache.iceberg.BaseTable``, for an action of Iceberg that commits to main.

    A refused commit whose snapshot the table has was made. Where the catalog does not say whether it has, the outcome
    is unknown, after which Iceberg deletes nothing. After any other refusal Iceberg tries again, as ever.

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
    given = (_OPERATIONS, _METADATA, _METADATA)
    made = make.dropping(make.nothing(), 0, _REFUSED, *given)
    refused = make.dropping(make.throwing(_REFUSED, "void"), 1, *given)
    is_made = make.dropping(make.dropping(_is_made(make), 1, _METADATA), 0, _REFUSED)
    return make.catching(commit, _REFUSED, make.where(is_made, made, refused))


def _is_made(make: MethodHandles) -> Any:
    """Return a test of operations and metadata: whether the table has its newest snapshot."""
    refresh = make.method(_OPERATIONS, "refresh", _METADATA)
    newest = make.then(
        make.method(_METADATA, "currentSnapshot", _SNAPSHOT), make.method(_SNAPSHOT, "snapshotId", "long")
    )
    snapshot = make.each_through(make.method(_METADATA, "snapshot", _SNAPSHOT, "long"), 0, refresh, newest)
    is_there = make.typed(
        make.static("java.util.Objects", "nonNull", "boolean", "java.lang.Object"), "boolean", _SNAPSHOT
    )
    unanswered = make.each_through(
        make.throwing(_UNKNOWN, "boolean"), 0, make.constructor(_UNKNOWN, "java.lang.Throwable")
    )
    return make.catching(make.then(snapshot, is_there), "java.lang.Throwable", unanswered)
