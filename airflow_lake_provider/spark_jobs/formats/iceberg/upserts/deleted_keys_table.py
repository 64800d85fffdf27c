"""Keep deleted keys in a side table, with how far each had come and where its row went.

Rows are only added, and removed by whole days once they are older than asked. A delete that is written twice, or whose
rows were not committed after all, says what the source did and harms nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.position_column import DELETED_KEYS_SUFFIX
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.apply_schema_contract import alter_table, widens
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, type_text

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
