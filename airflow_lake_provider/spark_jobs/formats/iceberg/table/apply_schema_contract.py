"""Make a table's schema fit a batch: add columns and fields inside them, widen types, refuse the rest by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.spark_jobs.formats.iceberg.table.alter_table import alter_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.schema_differences import (
    DifferenceKind,
    SchemaDifference,
    promotes,
    schema_differences,
)
from airflow_lake_provider.spark_jobs.sql.identifiers import type_text


def fit_schema(
    table: IcebergTable, columns: StructType, contract: SchemaContract, missing: MissingColumns
) -> tuple[str, ...]:
    """Add and widen columns, and fields inside them, so that a batch of ``columns`` fits.

    :return: sentences on what was changed; a schema change commits by itself and is found done by a retry.
    :raises BadInputError: a column does not fit, or the batch lacks one and ``missing`` does not say what it becomes.
    :raises CommitConflictError: another job altered the table meanwhile.
    """
    by_kind: dict[DifferenceKind, list[SchemaDifference]] = {kind: [] for kind in DifferenceKind}
    for difference in schema_differences(table.schema(), columns):
        by_kind[difference.kind].append(difference)
    added, widened = by_kind[DifferenceKind.ADDED], by_kind[DifferenceKind.WIDENED]
    _refuse_missing(table, by_kind[DifferenceKind.MISSING], missing)
    _refuse_unfit(table, by_kind[DifferenceKind.UNFIT])
    _refuse_frozen(table, added, widened, contract)
    columns_text = ", ".join(f"{found.sql_name} {_type_text(found)}" for found in added)
    alter_table(
        table,
        [
            *([f"ADD COLUMNS ({columns_text})"] if added else []),
            *(f"ALTER COLUMN {found.sql_name} TYPE {_type_text(found)}" for found in widened),
        ],
    )
    return (
        *(f"added column {found.name} {_told(found.wanted)}" for found in added),
        *(f"widened column {found.name} to {_told(found.wanted)}" for found in widened),
    )


def widens(present: StructField, wanted: StructField) -> bool:
    """Tell whether Iceberg may promote the present type to the wanted one (spec, schema evolution)."""
    return promotes(present.dataType, wanted.dataType)


def _type_text(found: SchemaDifference) -> str:
    return type_text(found.wanted.dataType) if found.wanted else ""


def _told(field: StructField | None) -> str:
    return "nothing" if field is None else field.dataType.simpleString()


def _refuse_frozen(
    table: IcebergTable,
    added: Sequence[SchemaDifference],
    widened: Sequence[SchemaDifference],
    contract: SchemaContract,
) -> None:
    found = {
        "new_columns": added if contract.new_columns is Evolution.FREEZE else (),
        "wider_types": widened if contract.wider_types is Evolution.FREEZE else (),
    }
    names = sorted(each.name for differences in found.values() for each in differences)
    if names:
        frozen = " and ".join(f"{field}='evolve'" for field, differences in found.items() if differences)
        raise BadInputError(
            f"{table.name}: the batch has new or wider columns {names}, and its schema_contract freezes them; allow "
            f"them with {frozen}, or leave them out with exclude_columns"
        )


def _refuse_unfit(table: IcebergTable, unfit: Iterable[SchemaDifference]) -> None:
    told = [f"{found.name} is {_told(found.present)} and got {_told(found.wanted)}" for found in unfit]
    if told:
        raise BadInputError(
            f"{table.name}: {'; '.join(told)}. Cast them in a Query, or declare the types with the source's schema"
        )


def _refuse_missing(table: IcebergTable, lacking: Sequence[SchemaDifference], missing: MissingColumns) -> None:
    if lacking and missing is MissingColumns.FAIL:
        raise BadInputError(
            f"{table.name}: the batch lacks the table's columns {[found.name for found in lacking]}; say what they "
            "become in its rows with missing_columns='null' or 'keep' (the old value)"
        )
    required = [found.name for found in lacking if found.present is not None and not found.present.nullable]
    if required and missing is MissingColumns.NULL:
        raise BadInputError(
            f"{table.name}: the batch lacks the columns {required}, which the table requires, so they cannot become "
            "NULL; give the batch these columns, or say missing_columns='keep' (the old value, the column's write "
            "default in a new row)"
        )
