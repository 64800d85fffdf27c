"""Read what changed in a lake table between two snapshots, from any PySpark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import InvalidSpecError, MissingTableError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import format_named
from airflow_lake_provider.spark_jobs.formats.commits import ChangeFilter

MODES = ("net", "upserts", "changelog")


def read_changes(
    spark: SparkSession,
    table: str,
    from_snapshot: str | None,
    to_snapshot: str | None,
    *,
    mode: str = "net",
    keys: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    allow_sql: bool = False,
    catalog: str | None = None,
    table_format: str = "iceberg",
) -> DataFrame:
    """Return the net changes of a table between two snapshots, merge-on-read commits included.

    A row of the table that is new or changed since ``from_snapshot`` is one row, with its values at ``to_snapshot``. A
    key that no row has any more is one row, with its values at ``from_snapshot``. Compaction changes nothing, and a row
    born and deleted between the two does not appear. An UPDATE that leaves the values as they were counts as a change.

    The DataFrame has the table's columns, or the chosen ones and the keys, and ``_change_type``, ``upsert`` or
    ``delete``. With deletes up to two Spark jobs run at once, over the files that lost rows, and the row ids of new
    files. The choice of files and the gone rows are kept for the DataFrame until the session ends.

    :param spark: session with the table's catalog.
    :param table: ``namespace.table``, Iceberg format version 3.
    :param from_snapshot: exclusive start, as text; None for everything live at ``to_snapshot``, as upserts.
    :param to_snapshot: inclusive end, as text; None for the head of main.
    :param mode: ``net`` for upserts and deletes, ``upserts`` to leave deletes out, ``changelog`` for every step, all
        columns, of a format that keeps one.
    :param keys: columns that identify a row to the reader; None for the table's identifier fields.
    :param columns: columns to return beside the keys; None for all.
    :param where: predicate over the table's columns and constants. The changes are then those of the rows that satisfy
        it, so a row that no longer does is a delete. It must give the same answer whenever it is asked (no ``now()``).
    :param allow_sql: take a ``where`` that is any SQL expression. It is code then: never interpolate user input.
    :param catalog: Spark catalog; None for the session's current one.
    :param table_format: of the table.
    :raises InvalidSpecError: malformed name, id or mode, unknown columns, deletes without keys.
    :raises UnsupportedError: format version 1 or 2, or mode ``changelog``, which Iceberg's tables lack here.
    :raises MissingTableError: no such table.
    :raises RangeUnavailableError: a snapshot was expired, or is older than the table's upgrade to version 3.
    """
    _refuse_arguments(table, table_format, mode, {"from_snapshot": from_snapshot, "to_snapshot": to_snapshot})
    if mode == "changelog":
        _refuse_choices(table, {"keys": keys, "columns": columns, "where": where})
        return _existing_table(spark, table, table_format, catalog).changelog(from_snapshot, to_snapshot)
    wanted = ChangeFilter(deletes=mode == "net", where=where, allow_sql=allow_sql, is_head=to_snapshot is None)
    wanted = replace(wanted, keys=tuple(keys or ()), columns=None if columns is None else tuple(columns))
    return _existing_table(spark, table, table_format, catalog).changes(from_snapshot, to_snapshot, wanted)


def _refuse_choices(table: str, choices: Mapping[str, object]) -> None:
    """Refuse what is chosen of steps, which are given whole."""
    if given := [name for name, value in choices.items() if value is not None]:
        raise InvalidSpecError(f"{table}: mode='changelog' gives whole steps and takes no {', '.join(given)}")


def _existing_table(spark: SparkSession, table: str, table_format: str, catalog: str | None) -> FormatTable:
    catalog = catalog or spark.catalog.currentCatalog()
    source = format_named(table_format).table(spark, catalog, TableName.parse(table), {})
    if not source.exists():
        raise MissingTableError(f"{table}: no such table in catalog {catalog}")
    return source


def _refuse_arguments(table: str, table_format: str, mode: str, snapshots: Mapping[str, object]) -> None:
    """Refuse a mode that there is not, or that the format lacks, and ids that no snapshot of the format has."""
    capabilities = declared_format(table_format)
    capabilities.refuse_lacking(table, ("read-changes", "changelog") if mode == "changelog" else ("read-changes",))
    if mode not in MODES:
        raise InvalidSpecError(f"{table}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    for role, given in snapshots.items():
        # An int would be one that lost digits on its way through JSON.
        if given is not None and (not capabilities.is_snapshot_id(str(given)) or isinstance(given, int)):
            raise InvalidSpecError(
                f"{role} must be a snapshot id as text, such as '3821550127947089009', got {given!r}"
            )
