"""Create a merge-on-read table of format version 3."""

from __future__ import annotations

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.table_alteration import alter_table
from airflow_lake_provider.spark_jobs.formats.iceberg.sql_text import quoted_name, text_literal
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

# Keys and sort order are commits of their own: a driver killed between them leaves this, and the next one goes on.
_UNFINISHED = "lake.creation-unfinished"
_PROPERTIES = {
    _UNFINISHED: "true",
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.delete.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.merge.isolation-level": "serializable",
}


def create_table(table: IcebergTable, columns: StructType, keys: tuple[str, ...], layout: TableLayout) -> None:
    """Create the table and its namespace where they are missing.

    Key columns are required and become the identifier fields, so that readers of changes know them.

    :raises BadInputError: a key has a type that Iceberg does not take as an identifier.
    :raises CommitConflictError: another job creates it, too, or alters it; the next try finds what is left to do.
    """
    spark = table.spark
    _refuse_unfit_keys(table, columns, keys)
    namespace = ".".join(f"`{level}`" for level in (table.catalog, *table.name.namespace))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    partitioned = f"PARTITIONED BY ({', '.join(layout.partition_by)})" if layout.partition_by else ""
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table.sql_name} ({_column_list(columns, keys)}) USING iceberg {partitioned} "
        f"TBLPROPERTIES ({_property_list(layout)})"
    )
    quoted_keys = ", ".join(quoted_name(name) for name in columns.names if name.lower() in _lower(keys))
    ordered = [f"WRITE ORDERED BY {', '.join(layout.sort_by)}"] if layout.sort_by else []
    finished = f"UNSET TBLPROPERTIES IF EXISTS ({text_literal(_UNFINISHED)})"
    alter_table(table, [f"SET IDENTIFIER FIELDS {quoted_keys}", *ordered, finished])


def is_unfinished(table: IcebergTable) -> bool:
    """Whether the creation of an existing table was cut off."""
    return _UNFINISHED in table.refresh().properties()


def _refuse_unfit_keys(table: IcebergTable, columns: StructType, keys: tuple[str, ...]) -> None:
    # Iceberg spec, identifier fields: no float or double, no type that nests.
    unfit = {f.name: f.dataType.simpleString() for f in columns if f.name.lower() in _lower(keys)}
    unfit = {name: text for name, text in unfit.items() if text in ("float", "double") or "<" in text}
    if unfit:
        raise BadInputError(
            f"{table.name}: key columns {unfit} cannot identify a row; use whole numbers, text, times or decimals"
        )


def _column_list(columns: StructType, keys: tuple[str, ...]) -> str:
    return ", ".join(
        f"{quoted_name(column.name)} {column.dataType.simpleString()}"
        + (" NOT NULL" if column.name.lower() in _lower(keys) else "")
        for column in columns
    )


def _property_list(layout: TableLayout) -> str:
    properties = {**_PROPERTIES, "write.format.default": layout.file_format}
    if layout.target_file_bytes is not None:
        properties["write.target-file-size-bytes"] = str(layout.target_file_bytes)
    for column in layout.bloom_filter_columns:
        properties[f"write.parquet.bloom-filter-enabled.column.{column}"] = "true"
    properties.update(layout.properties)
    return ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())


def _lower(keys: tuple[str, ...]) -> set[str]:
    """Return the keys as Spark compares names."""
    return {key.lower() for key in keys}
