"""Make a target ready for the columns of a batch: create it where it is missing, else let its schema fit."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.capabilities import declared_format
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.reserved_columns import refuse_reserved_columns
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.progress import say
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_fields


def fit_target(
    spec: UpsertSpec | IncrementalSpec, target: FormatTable, rows: DataFrame, missing: MissingColumns
) -> tuple[str, ...]:
    """Create the target, or add and widen its columns.

    :param rows: of a commit, with its markers.
    :param missing: what happens to columns of the target that ``rows`` lacks.
    :return: sentences on what was changed.
    :raises MissingTableError: it does not exist and ``create`` is None.
    :raises UnsupportedError: the strategy of the spec cannot change a table with the layout of the spec.
    :raises BadInputError: a column does not fit, or has a name that its format reserves, or that no table can have.
    """
    columns = StructType([StructField(f.name, f.dataType, True) for f in rows.schema if f.name not in MARKERS])
    refuse_reserved_columns(spec.table, columns.names, declared_format(spec.table_format))
    refuse_unfit_fields(spec.table, columns)
    if target.is_created():
        return target.fit_schema(columns, spec.schema_contract, missing)
    if spec.create is None:
        raise MissingTableError(f"{spec.table}: the table does not exist and create=False was asked for")
    strategy = spec.strategy.value if isinstance(spec, UpsertSpec) else "auto"
    say(f"creating {spec.table} ...")
    target.create(columns, spec.keys, spec.create, strategy)
    return ("created the table",)
