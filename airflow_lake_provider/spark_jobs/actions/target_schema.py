"""Make a target ready for the columns of a batch: create it where it is missing, else let its schema fit."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.capabilities import FormatCapabilities, declared_format
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.contracts.reserved_columns import refuse_reserved_columns
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import remedy_for_headers
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.progress import say
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_fields, refuse_untyped_columns


def fit_target(
    spec: LoadSpec | IncrementalSpec,
    target: FormatTable,
    rows: DataFrame,
    missing: MissingColumns,
    keys: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Create the target, or add and widen its columns.

    :param rows: of a commit, with its markers.
    :param missing: what happens to columns of the target that ``rows`` lacks.
    :param keys: columns that identify a row of a table that is created; none without any.
    :return: sentences on what was changed.
    :raises MissingTableError: it does not exist and ``create`` is None.
    :raises UnsupportedError: a table with the layout of the spec could not be written as asked, or the format adds no
        columns to a table.
    :raises BadInputError: a column does not fit, or has a name that its format reserves, or that no table can have.
    """
    columns = StructType([StructField(f.name, f.dataType, True) for f in rows.schema if f.name not in MARKERS])
    refuse_unfit_batch(spec, target, columns)
    if target.is_created():
        _refuse_new_columns(spec.table, target, columns, declared_format(spec.table_format))
        return target.fit_schema(columns, spec.schema_contract, missing)
    if spec.create is None:
        raise MissingTableError(f"{spec.table}: the table does not exist and create=False was asked for")
    say(f"creating {spec.table} ...")
    target.create(columns, keys, spec.create)
    return ("created the table",)


def refuse_unfit_batch(spec: LoadSpec | IncrementalSpec, target: FormatTable, columns: StructType) -> None:
    """Refuse columns that the target cannot have, whatever its contract says.

    :raises BadInputError: naming them.
    """
    refuse_reserved_columns(spec.table, columns.names, declared_format(spec.table_format))
    refuse_unfit_fields(spec.table, columns)
    table_schema = target.schema()
    refuse_untyped_columns(spec.table, columns, table_schema)
    if table_schema is not None:
        _refuse_without_header(spec.table, columns.names, table_schema.names)


def _refuse_without_header(table: str, columns: list[str], table_columns: list[str]) -> None:
    """Refuse CSV that was read without its header: the table would get new columns, and NULL in its own."""
    names, of_table = {name.lower() for name in columns}, {name.lower() for name in table_columns}
    absent = [name for name in table_columns if name.lower() not in names]
    added = [name for name in columns if name.lower() not in of_table]
    if absent and "_c0" in added and (remedy := remedy_for_headers(added)):
        raise BadInputError(f"{table}: the batch has the columns {columns} and lacks {absent}{remedy}")


def _refuse_new_columns(table: str, target: FormatTable, columns: StructType, table_format: FormatCapabilities) -> None:
    """Refuse columns that a table lacks and never gets; a format that evolves schemas decides by the contract."""
    if table_format.gap("schema-evolution") is None:
        return
    table_columns = {name.lower() for name in (target.schema() or StructType()).names}
    if new := sorted(name for name in columns.names if name.lower() not in table_columns):
        table_format.refuse_lacking(f"{table}: the batch has new columns {new}", ("schema-evolution",))
