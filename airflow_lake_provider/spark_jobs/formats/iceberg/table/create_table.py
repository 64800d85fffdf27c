"""Create a merge-on-read table of format version 3, in one commit of the catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    InvalidSpecError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.table_facts import TableShape
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.failures import is_unreachable
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.strategy_requirements import lacking_internals, unfit_shape
from airflow_lake_provider.spark_jobs.formats.iceberg.table.table_definition import TableDefinition, define_table
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_names
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# What a creation in several commits once left on a table when its driver was killed between them.
_UNFINISHED = "lake.creation-unfinished"
_PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.delete.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.merge.isolation-level": "serializable",
}


def create_table(
    table: IcebergTable,
    columns: StructType,
    keys: tuple[str, ...],
    layout: TableLayout,
    strategy: UpsertStrategy,
) -> None:
    """Create the table and its namespace where they are missing.

    Key columns are required and become the identifier fields, so that readers of changes know them.

    :param strategy: asked for; the table has to be one that it can change.
    :raises BadInputError: a column has a type that Iceberg does not store, or not as an identifier.
    :raises InvalidSpecError: the layout does not fit the columns. As above, nothing was made then.
    :raises UnsupportedError: nor does it fit the strategy; nothing was made.
    :raises CommitConflictError: another job has created it meanwhile; the next try finds it.
    """
    _refuse_name_of_metadata(table)
    _refuse_unfit_keys(table, columns, keys)
    definition = define_table(table, columns, keys, layout)
    properties = {"owner": str(table.spark.sparkContext.sparkUser()), **_ours(table, layout), **_properties(layout)}
    given = {**_of_catalog(table, "table-default."), **properties, **_of_catalog(table, "table-override.")}
    _refuse_unfit_layout(table, definition, given, keys, strategy)
    _create_namespace(table)
    builder = _builder(table, definition, properties)
    with _conflicts(table):
        if table.exists():
            _finish(table, builder, definition)
        else:
            builder.create()
    table.refresh()


def _refuse_name_of_metadata(table: IcebergTable) -> None:
    if len(table.name.namespace) > 1 and table.java_catalog.tableExists(_identifier(table)) and not table.exists():
        raise UnsupportedError(
            f"{table.name}: the catalog takes this name for metadata of the table {'.'.join(table.name.namespace)}, so "
            "no table is made under it; give it another name"
        )


def _identifier(table: IcebergTable) -> Any:
    return table.iceberg.catalog.TableIdentifier.of(table.java_namespace, table.name.table)


def is_unfinished(table: IcebergTable) -> bool:
    """Tell whether the creation of an existing table was cut off."""
    return _UNFINISHED in table.refresh().properties()


def _finish(table: IcebergTable, builder: Any, definition: TableDefinition) -> None:
    """Make a table anew that nobody has written to; of one with rows set what its creation would have set.

    :raises CommitConflictError: it was not cut off: another job has created it meanwhile.
    """
    if not is_unfinished(table):
        raise CommitConflictError(f"{table.name}: another job has created the table meanwhile")
    if table.java.currentSnapshot() is None:
        change = builder.replaceTransaction()
    else:
        change = table.java.newTransaction()
        change.updateSchema().setIdentifierFields(definition.schema.identifierFieldNames()).commit()
    change.updateProperties().remove(_UNFINISHED).commit()
    change.commitTransaction()


def _builder(table: IcebergTable, definition: TableDefinition, properties: dict[str, str]) -> Any:
    builder = table.java_catalog.buildTable(_identifier(table), definition.schema).withPartitionSpec(definition.spec)
    return builder.withSortOrder(definition.sort_order).withProperties(properties)


def _create_namespace(table: IcebergTable) -> None:
    namespace = ".".join(map(quoted_name, (table.catalog, *table.name.namespace)))
    try:
        table.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    except SPARK_ERRORS:
        # Of two jobs that create it at once, some catalogs fail one with an error of their database.
        if not table.spark.catalog.databaseExists(namespace):
            raise


@contextmanager
def _conflicts(table: IcebergTable) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        names = set(java_names(error))
        if names & {"AlreadyExistsException", "CommitFailedException"}:
            raise CommitConflictError(
                f"{table.name}: another job has created the table meanwhile: {root_message(error)}"
            ) from error
        if names & {"IllegalArgumentException", "ValidationException"} and not is_unreachable(error):
            raise InvalidSpecError(f"{table.name}: the table cannot be created: {root_message(error)}") from error
        raise


def _refuse_unfit_keys(table: IcebergTable, columns: StructType, keys: tuple[str, ...]) -> None:
    # Iceberg spec, identifier fields: no float or double, no type that nests.
    named = {key.lower() for key in keys}
    unfit = {f.name: f.dataType.simpleString() for f in columns if f.name.lower() in named}
    unfit = {name: text for name, text in unfit.items() if text in ("float", "double") or "<" in text}
    if unfit:
        raise BadInputError(
            f"{table.name}: key columns {unfit} cannot identify a row; use whole numbers, text, times or decimals"
        )


def _refuse_unfit_layout(
    table: IcebergTable,
    definition: TableDefinition,
    properties: dict[str, str],
    keys: tuple[str, ...],
    strategy: UpsertStrategy,
) -> None:
    """Refuse what would be refused of the table once it is there, where a corrected layout no longer reaches it."""
    version = properties.get("format-version", "")
    shape = TableShape(
        # Iceberg refuses what is no number, when it makes the table.
        format_version=int(version) if version.isdecimal() else 3,
        properties=properties,
        schemas={0: json.loads(table.iceberg.SchemaParser.toJson(definition.schema))},
        schema_id=0,
        partition_specs={0: json.loads(table.iceberg.PartitionSpecParser.toJson(definition.spec))["fields"]},
        spec_id=0,
    )
    unfit = None
    if strategy is not UpsertStrategy.AUTO:
        unfit = lacking_internals(table.spark, strategy) or unfit_shape(shape, definition.spec, strategy, keys)
    if unfit:
        raise UnsupportedError(
            f"{table.name}: strategy={strategy.value!r} is not possible, {unfit}; use 'auto', or change the layout. "
            "No table was made"
        )


def _of_catalog(table: IcebergTable, prefix: str) -> dict[str, str]:
    """Return what the session's catalog gives each new table, as a default or in any case."""
    return {name.removeprefix(prefix): value for name, value in table.settings().items() if name.startswith(prefix)}


def _ours(table: IcebergTable, layout: TableLayout) -> dict[str, str]:
    """Return our properties of a new table, without those of which the catalog's owner has said otherwise."""
    defaults = _of_catalog(table, "table-default.")
    given = {**_PROPERTIES, **defaults, **layout.properties, **_of_catalog(table, "table-override.")}
    # Format version 1 has no deletes: Spark's MERGE would fail at writing some.
    unfit = "merge-on-read" if given["format-version"] == "1" else None
    return {name: value for name, value in _PROPERTIES.items() if name not in defaults and value != unfit}


def _properties(layout: TableLayout) -> dict[str, str]:
    properties = {} if layout.file_format is None else {"write.format.default": layout.file_format}
    if layout.sort_by:
        # As WRITE ORDERED BY sets it.
        properties["write.distribution-mode"] = "range"
    if layout.target_file_size is not None:
        properties["write.target-file-size-bytes"] = str(layout.target_file_size)
    if layout.partition_summary_limit is not None:
        properties["write.summary.partition-limit"] = str(layout.partition_summary_limit)
    for column in layout.bloom_filter_columns:
        properties[f"write.parquet.bloom-filter-enabled.column.{column}"] = "true"
    return {**properties, **layout.properties}
