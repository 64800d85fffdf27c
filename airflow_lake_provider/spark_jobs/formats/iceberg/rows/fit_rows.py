"""Make the rows of a batch fit a table: nested columns in the types of the table's, and write defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.spark_jobs.formats.commits import LoadCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import fitted_value, is_nested, is_same, lacks_no_field

# Metadata of a column of Spark's: SQL of Iceberg's ``write-default``.
_WRITE_DEFAULT = "CURRENT_DEFAULT"


@dataclass(frozen=True, kw_only=True)
class FittedRows:
    """Rows whose nested columns have the types of the table's.

    :param partial_structs: type of each struct that lacks fields of the table's, as the batch has it, by its column in
        lower case.
    """

    rows: DataFrame
    partial_structs: Mapping[str, StructType] = field(default_factory=dict)


def fit_rows(table: IcebergTable, commit: LoadCommit) -> FittedRows:
    """Return the rows of a commit as they fit the table; no job is run."""
    keeps = commit.missing_columns is MissingColumns.KEEP
    wanted = {field.name.lower(): field.dataType for field in table.schema()}
    unlike = [
        field
        for field in commit.rows.schema
        if is_nested(kind := wanted.get(field.name.lower(), field.dataType)) and not is_same(field.dataType, kind)
    ]
    if not unlike:
        return FittedRows(rows=commit.rows)

    def absent(field: StructField) -> str:
        default = write_defaults(StructType([field])).get(field.name.lower(), "NULL") if keeps else "NULL"
        return f"CAST({default} AS {type_text(field.dataType)})"

    fitted = {
        field.name: fitted_value(quoted_name(field.name), field.dataType, wanted[field.name.lower()], absent)
        for field in unlike
    }
    columns = [sf.expr(fitted[n]).alias(n) if n in fitted else quoted(n) for n in commit.rows.columns]
    partial = {
        field.name.lower(): field.dataType
        for field in unlike
        if keeps
        and isinstance(field.dataType, StructType)
        and not lacks_no_field(field.dataType, wanted[field.name.lower()])
    }
    return FittedRows(rows=commit.rows.select(*columns), partial_structs=partial)


def write_defaults(columns: StructType) -> dict[str, str]:
    """Return SQL of the write default of each column that has one, by its name in lower case."""
    return {
        field.name.lower(): str(field.metadata[_WRITE_DEFAULT]) for field in columns if _WRITE_DEFAULT in field.metadata
    }
