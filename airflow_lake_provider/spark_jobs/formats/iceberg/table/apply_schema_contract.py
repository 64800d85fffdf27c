"""Make a table's schema fit a batch: add columns, widen types, refuse the rest by name."""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.spark_jobs.formats.iceberg.table.alter_table import alter_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, type_text


def fit_schema(
    table: IcebergTable, columns: StructType, contract: SchemaContract, missing: MissingColumns
) -> tuple[str, ...]:
    """Add and widen columns so that a batch of ``columns`` fits.

    :return: sentences on what was changed; a schema change commits by itself and is found done by a retry.
    :raises BadInputError: a column does not fit, or the batch lacks one and ``missing`` does not say what it becomes.
    :raises CommitConflictError: another job altered the table meanwhile.
    """
    present = {field.name.lower(): field for field in table.schema()}
    _refuse_missing(table, columns, present, missing)
    added = [column for column in columns if column.name.lower() not in present]
    known = [column for column in columns if column.name.lower() in present]
    widened = [column for column in known if widens(present[column.name.lower()], column)]
    _refuse_unfit(table, known, present)
    _refuse_frozen(table, added, widened, contract)
    columns_text = ", ".join(f"{quoted_name(column.name)} {type_text(column.dataType)}" for column in added)
    alter_table(
        table,
        [
            *([f"ADD COLUMNS ({columns_text})"] if added else []),
            *(f"ALTER COLUMN {quoted_name(column.name)} TYPE {type_text(column.dataType)}" for column in widened),
        ],
    )
    return (
        *(f"added column {column.name} {column.dataType.simpleString()}" for column in added),
        *(f"widened column {column.name} to {column.dataType.simpleString()}" for column in widened),
    )


def _refuse_frozen(
    table: IcebergTable, added: list[StructField], widened: list[StructField], contract: SchemaContract
) -> None:
    found = {
        "new_columns": added if contract.new_columns is Evolution.FREEZE else [],
        "wider_types": widened if contract.wider_types is Evolution.FREEZE else [],
    }
    names = sorted(column.name for columns in found.values() for column in columns)
    if names:
        frozen = " and ".join(f"{field}='evolve'" for field, columns in found.items() if columns)
        raise BadInputError(
            f"{table.name}: the batch has new or wider columns {names}, and its schema_contract freezes them; allow "
            f"them with {frozen}, or leave them out with exclude_columns"
        )


def widens(present: StructField, wanted: StructField) -> bool:
    """Tell whether Iceberg may promote the present type to the wanted one (spec, schema evolution)."""
    return _promotes(present.dataType, wanted.dataType)


def _promotes(narrow: DataType, wide: DataType) -> bool:
    if isinstance(narrow, IntegerType) and isinstance(wide, LongType):
        return True
    if isinstance(narrow, FloatType) and isinstance(wide, DoubleType):
        return True
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return False


def fits(present: DataType, wanted: DataType) -> bool:
    """Tell whether values of ``wanted`` go into a column of ``present`` without loss."""
    names = {"byte": 1, "short": 2, "integer": 3, "long": 4}
    if present == wanted or _promotes(wanted, present) or wanted.typeName() == "void":
        return True
    sizes = (names.get(wanted.typeName()), names.get(present.typeName()))
    if None not in sizes:
        return bool(sizes[0] <= sizes[1])  # type: ignore[operator]  # both are numbers here
    # Nested types differ in nullability markers that Iceberg and the reader set differently.
    return present.simpleString() == wanted.simpleString()


def _refuse_unfit(table: IcebergTable, known: list[StructField], present: dict[str, StructField]) -> None:
    unfit = [
        f"{column.name} is {held.dataType.simpleString()} and got {column.dataType.simpleString()}"
        for column, held in ((column, present[column.name.lower()]) for column in known)
        if not fits(held.dataType, column.dataType) and not widens(held, column)
    ]
    if unfit:
        raise BadInputError(
            f"{table.name}: {'; '.join(unfit)}. Cast them in a Query, or declare the types with the source's schema"
        )


def _refuse_missing(
    table: IcebergTable, columns: StructType, present: dict[str, StructField], missing: MissingColumns
) -> None:
    given = {name.lower() for name in columns.names}
    lacking = sorted(field.name for name, field in present.items() if name not in given)
    if lacking and missing is MissingColumns.FAIL:
        raise BadInputError(
            f"{table.name}: the batch lacks the table's columns {lacking}; say what they become in its rows with "
            "missing_columns='null' or 'keep' (the old value)"
        )
