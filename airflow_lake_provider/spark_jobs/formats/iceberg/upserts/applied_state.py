"""Applied state of an Iceberg table, and its memory of keys: rows of its snapshots, and keys that were deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.applied_history import AppliedOfSource
from airflow_lake_provider.contracts.applied.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.applied.position_column import DELETED_KEYS_SUFFIX
from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX, RUN_KEY
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, KeyHistory
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.publish_stage_branch import (
    drop_branch,
    stage_branch_name,
    stage_branches,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import read_position
from airflow_lake_provider.spark_jobs.formats.iceberg.table.apply_schema_contract import alter_table, widens
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.apply_upsert import apply_upsert
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, type_text


@dataclass(frozen=True, kw_only=True)
class IcebergKeyHistory(KeyHistory):
    """Implements ``formats.base.KeyHistory``."""

    table: IcebergTable

    def rows_then(self, snapshot: str) -> DataFrame | None:
        """Live rows at a snapshot of any age; None where it has expired."""
        return self.table.refresh().rows_then(int(snapshot)) if self.table.exists() else None

    def deleted_keys(self) -> DataFrame | None:
        """Keys that were deleted, from the side table; None without one."""
        return read_deleted_keys(self.table)

    def keep_deleted_keys(self, rows: DataFrame, retention: timedelta) -> None:
        """Add deleted keys to the side table, which is made where it is missing, and remove those that are older."""
        if self.table.exists():
            keep_deleted_keys(self.table, rows, retention)

    def keep_rows(self, commit: KeyedCommit, progress: Progress) -> str:
        """Apply a commit to a snapshot that no branch leads to."""
        branch = stage_branch_name(commit.run_key)
        kept = apply_upsert(self.table, replace(commit, branch=branch), progress).snapshot
        for name in {branch, *stage_branches(self.table.refresh(), commit.run_key)}:
            drop_branch(self.table, name)
        return kept


def applied_state(table: IcebergTable, source_name: str, branch: str | None) -> AppliedState:
    """Read the newest metadata and what it remembers of a source; see ``formats.base.FormatTable``."""
    if not table.exists():
        return AppliedState(keys=IcebergKeyHistory(table=table))
    table.refresh_readable()
    if branch is not None:
        # The count goes on from main's, so that main does not look rolled back once the branch is published.
        of_main = SourcePosition.read(table.properties(), source_name, str(table.name))
        history, head = table.history(table.origin_of(branch)), table.base_of(None)
        # Another branch may have been made before main's newest batch.
        has_main = any(snapshot.id == head for snapshot in history.ancestors)
        return AppliedState(
            base=table.base_of(branch),
            run_keys=_run_keys_in_summaries(table, branch),
            position=SourcePosition(generation=of_main.generation),
            keys=IcebergKeyHistory(table=table),
            commits=history.ancestors,
            newest_time=history.newest_time(table.properties() if has_main else {}),
        )
    applied, history = _applied(table, source_name), table.history()
    open_changes = OpenKeyChanges.read(table.properties(), source_name, str(table.name))
    return AppliedState(
        base=table.base_of(None),
        run_keys=history.run_keys(RecentRunKeys.read(table.properties())),
        position=applied.position,
        newest=applied.newest,
        keys=IcebergKeyHistory(
            table=table,
            open_changes=OpenKeyChanges() if applied.is_replaced else open_changes,
            epoch=applied.epoch,
        ),
        is_replaced=applied.is_replaced,
        commits=history.ancestors,
        newest_time=history.newest_time(table.properties()),
    )


def changeable_state(table: IcebergTable) -> AppliedState:
    """Return head and run keys of main, as they were read last."""
    recent, history = RecentRunKeys.read(table.properties()), table.history()
    return AppliedState(base=table.base_of(None), run_keys=history.run_keys(recent), commits=history.ancestors)


def other_positions(table: IcebergTable, source_name: str) -> Mapping[str, SourcePosition]:
    """Return the positions of all sources but one, by their names."""
    names = [name.removeprefix(POSITION_PREFIX) for name in table.properties() if name.startswith(POSITION_PREFIX)]
    return {name: _applied(table, name).position for name in names if name != source_name}


def _applied(table: IcebergTable, source_name: str) -> AppliedOfSource:
    position = read_position(table, source_name)
    return AppliedOfSource.of(position, table.properties(), table.history(), source_name, str(table.name))


def _run_keys_in_summaries(table: IcebergTable, branch: str) -> RecentRunKeys:
    """Return the run keys of a branch; one that is not there yet starts from main, and what was applied there."""
    origin = table.origin_of(branch)
    keys = [key for summary in table.summaries(origin) if (key := summary.get(RUN_KEY))]
    recent = RecentRunKeys.read(table.properties())
    published = table.history().run_keys(recent).entries if origin == MAIN else ()
    return RecentRunKeys((*((key, 0) for key in keys), *published))


# Rows of the side table are only added, and removed by whole days once they are older than asked. A delete that is
# written twice, or whose rows were not committed after all, says what the source did and harms nothing.
_TABLE = "lake.deleted-keys-of"
_PROPERTIES = (
    "'format-version' = '3', 'write.metadata.delete-after-commit.enabled' = 'true', "
    "'write.metadata.previous-versions-max' = '20'"
)


def deleted_keys_table(table: IcebergTable) -> IcebergTable:
    """Return the side table of a table, whether it exists or not."""
    name = TableName((*table.name.namespace, table.name.table + DELETED_KEYS_SUFFIX))
    return IcebergTable(table.spark, table.catalog, name)


def read_deleted_keys(table: IcebergTable) -> DataFrame | None:
    """Return the newest rows of the side table; None without one."""
    side = deleted_keys_table(table)
    if not side.exists():
        return None
    side.refresh()
    # A table that was dropped and made again has nothing to do with the keys of before.
    return side.spark.table(side.sql_name) if _of_table(table, side) else None


def keep_deleted_keys(table: IcebergTable, rows: DataFrame, retention: timedelta) -> None:
    """Add rows, and remove those that are older.

    :param rows: key columns, ``_deleted_position``, ``_moved_to``, ``_values_position``.
    :raises InvalidSpecError: a table of that name has rows and is not a side table.
    """
    now = datetime.now(UTC)
    kept = rows.withColumn("_deleted_at", sf.lit(int(now.timestamp())).cast("timestamp")).localCheckpoint()
    if kept.isEmpty():
        return
    side = deleted_keys_table(table)
    columns = ", ".join(f"{quoted_name(field.name)} {type_text(field.dataType)}" for field in kept.schema)
    side.spark.sql(
        f"CREATE TABLE IF NOT EXISTS {side.sql_name} ({columns}) USING iceberg PARTITIONED BY (days(_deleted_at)) "
        f"TBLPROPERTIES ({_PROPERTIES}, '{_TABLE}' = '{table.refresh().uuid}')"
    )
    _take_over(table, side)
    alter_table(side, _widenings(side.spark.table(side.sql_name).schema, kept.schema))
    kept.coalesce(1).writeTo(side.sql_name).append()
    _remove_old(side, now - retention)


def _of_table(table: IcebergTable, side: IcebergTable) -> bool:
    return table.exists() and side.refresh().properties().get(_TABLE) == table.refresh().uuid


def _take_over(table: IcebergTable, side: IcebergTable) -> None:
    if _of_table(table, side):
        return
    if _TABLE in side.properties():
        # Of a table that was dropped and made again.
        side.spark.sql(f"DELETE FROM {side.sql_name}")
    elif not side.spark.table(side.sql_name).isEmpty():
        raise InvalidSpecError(
            f"{side.name} has rows and is not the table of deleted keys that ordering='key' keeps under this name for "
            f"{table.name}; rename one of the two tables. Nothing was applied"
        )
    side.spark.sql(f"ALTER TABLE {side.sql_name} SET TBLPROPERTIES ('{_TABLE}' = '{table.refresh().uuid}')")


def _widenings(current: StructType, wanted: StructType, within: str = "") -> list[str]:
    """Return what makes key columns as wide as the table's have become, the new key's included."""
    present = {field.name.lower(): field for field in current}
    changes = []
    for field in wanted:
        mine, name = present.get(field.name.lower()), within + quoted_name(field.name)
        if mine is None:
            continue
        if isinstance(mine.dataType, StructType) and isinstance(field.dataType, StructType):
            changes += _widenings(mine.dataType, field.dataType, f"{name}.")
        elif widens(mine, field):
            changes.append(f"ALTER COLUMN {name} TYPE {type_text(field.dataType)}")
    return changes


def _remove_old(side: IcebergTable, before: datetime) -> None:
    # Whole partitions: nothing is read, and nothing is written but metadata.
    day = f"TIMESTAMP '{before:%Y-%m-%d} 00:00:00 UTC'"
    if side.spark.table(side.sql_name).filter(f"_deleted_at < {day}").limit(1).count():
        side.spark.sql(f"DELETE FROM {side.sql_name} WHERE _deleted_at < {day}")
