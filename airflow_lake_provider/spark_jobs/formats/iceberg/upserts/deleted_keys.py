"""The side table of a table's deleted keys: how far each had come when it was deleted, and where its row went on.

Rows are only added, and removed by whole days once they are older than asked. A delete that is written twice, or whose
rows were not committed after all, says what the source did and harms nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.row_position import DELETED_KEYS_SUFFIX
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

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
    """
    now = datetime.now(UTC)
    kept = rows.withColumn("_deleted_at", sf.lit(int(now.timestamp())).cast("timestamp")).localCheckpoint()
    if kept.isEmpty():
        return
    side = deleted_keys_table(table)
    columns = ", ".join(f"{quoted_name(field.name)} {field.dataType.simpleString()}" for field in kept.schema)
    side.spark.sql(
        f"CREATE TABLE IF NOT EXISTS {side.sql_name} ({columns}) USING iceberg PARTITIONED BY (days(_deleted_at)) "
        f"TBLPROPERTIES ({_PROPERTIES})"
    )
    if not _of_table(table, side):
        side.spark.sql(f"DELETE FROM {side.sql_name}")
        side.spark.sql(f"ALTER TABLE {side.sql_name} SET TBLPROPERTIES ('{_TABLE}' = '{table.refresh().uuid}')")
    kept.coalesce(1).writeTo(side.sql_name).append()
    _remove_old(side, now - retention)


def _of_table(table: IcebergTable, side: IcebergTable) -> bool:
    return table.exists() and side.refresh().properties().get(_TABLE) == table.refresh().uuid


def _remove_old(side: IcebergTable, before: datetime) -> None:
    # Whole partitions: nothing is read, and nothing is written but metadata.
    day = f"TIMESTAMP '{before:%Y-%m-%d} 00:00:00 UTC'"
    if side.spark.table(side.sql_name).filter(f"_deleted_at < {day}").limit(1).count():
        side.spark.sql(f"DELETE FROM {side.sql_name} WHERE _deleted_at < {day}")
