"""Schema, partition spec and sort order of a table that is not there yet, as Iceberg's own objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.table_layout import LayoutTerm, TableLayout, partition_terms, sort_terms
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable

# Names of Spark SQL for methods of Iceberg's builder; the others have one name.
_BUILDER_METHODS = {
    "years": "year",
    "months": "month",
    "days": "day",
    "date": "day",
    "hours": "hour",
    "date_hour": "hour",
}
# Types that a transform takes, by Iceberg's names of them (table spec, "Partition Transforms").
_TIMES = "a DATE or a TIMESTAMP"
_TAKES = {
    **dict.fromkeys(("year", "month", "day"), _TIMES),
    "hour": "a TIMESTAMP",
    "bucket": "INT, BIGINT, DECIMAL, DATE, TIMESTAMP, STRING or BINARY",
    "truncate": "INT, BIGINT, DECIMAL, STRING or BINARY",
}


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """Definition of a table, which one commit of the catalog makes.

    :param schema: ``org.apache.iceberg.Schema`` with its identifier fields.
    :param spec: ``org.apache.iceberg.PartitionSpec``.
    :param sort_order: ``org.apache.iceberg.SortOrder``.
    """

    schema: Any
    spec: Any
    sort_order: Any


def define_table(
    table: IcebergTable, columns: StructType, keys: tuple[str, ...], layout: TableLayout
) -> TableDefinition:
    """Check a layout against the columns; nothing is made.

    :raises BadInputError: a column has a type that Iceberg does not store, or not as an identifier.
    :raises InvalidSpecError: a term of the layout names an unknown column or a transform that its type refuses.
    """
    schema = _schema(table, columns, keys)
    _refuse_unknown(table, schema, layout.bloom_filter_columns)
    _refuse_unfit_transforms(table, schema, "partition_by", partition_terms(layout.partition_by))
    _refuse_unfit_transforms(table, schema, "sort_by", sort_terms(layout.sort_by))
    with _refused(table, f"partition_by={list(layout.partition_by)} is no partitioning of its columns"):
        spec = _partition_spec(table, schema, layout.partition_by)
    with _refused(table, f"sort_by={list(layout.sort_by)} is no sort order of its columns"):
        order = build_sort_order(table.spark, schema, layout.sort_by)
    return TableDefinition(schema=schema, spec=spec, sort_order=order)


def _schema(table: IcebergTable, columns: StructType, keys: tuple[str, ...]) -> Any:
    named = {key.lower() for key in keys}
    # Nested fields differ in nullability by reader; the next batch may leave out what this one has.
    fields = [StructField(f.name, nullable(f.dataType), f.name.lower() not in named) for f in columns]
    try:
        described = jvm_of(table.spark).org.apache.spark.sql.types.DataType.fromJson(StructType(fields).json())
        converted = table.iceberg.spark.SparkSchemaUtil.convert(described)
        # Ids from 1 on, as the catalog assigns them. Nessie does so without the ids of identifier fields.
        schema = table.iceberg.types.TypeUtil.assignIncreasingFreshIds(converted)
        ids = {field.fieldId() for field in schema.columns() if str(field.name()).lower() in named}
        return table.iceberg.Schema(schema.columns(), ids)
    except SPARK_ERRORS as error:
        types = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in columns)
        raise BadInputError(
            f"{table.name}: the columns {types} cannot be stored, {root_message(error)}. Cast or drop them in "
            "a Query, or leave them out with exclude_columns"
        ) from error


def _refuse_unfit_transforms(table: IcebergTable, schema: Any, role: str, terms: Sequence[LayoutTerm]) -> None:
    """Refuse a transform of a column whose type it does not take, with what makes the column fit."""
    for term in terms:
        field = schema.caseInsensitiveFindField(".".join(term.column))
        name = _BUILDER_METHODS.get(term.transform, term.transform)
        if field is None or term.transform == "identity":
            continue
        transform = table.iceberg.transforms.Transforms.fromString(
            name if term.number is None else f"{name}[{term.number}]"
        )
        if not transform.canTransform(field.type()):
            raise InvalidSpecError(
                f"{table.name}: {role} has {term.transform} of column {'.'.join(term.column)}, which is of type "
                f"{field.type()}; it takes {_TAKES[name]}. Declare the type in the source's schema, cast the column in "
                "a Query, or name another one"
            )


def _refuse_unknown(table: IcebergTable, schema: Any, bloom_filter_columns: Sequence[str]) -> None:
    unknown = [name for name in bloom_filter_columns if schema.caseInsensitiveFindField(name) is None]
    if unknown:
        names = [str(field.name()) for field in schema.columns()]
        raise InvalidSpecError(f"{table.name}: bloom_filter_columns names {unknown}; the table will have {names}")


def _partition_spec(table: IcebergTable, schema: Any, terms: Sequence[str]) -> Any:
    builder = table.iceberg.PartitionSpec.builderFor(schema)
    for term in partition_terms(terms):
        column = ".".join(term.column)
        field = schema.caseInsensitiveFindField(column)
        # As the table spells it, so that the partition field is named after it.
        name = column if field is None else schema.findColumnName(field.fieldId())
        add = getattr(builder, _BUILDER_METHODS.get(term.transform, term.transform))
        builder = add(name) if term.number is None else add(name, term.number)
    return builder.build()


@contextmanager
def _refused(table: IcebergTable, what: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise InvalidSpecError(f"{table.name}: {what}: {root_message(error)}") from error


_SESSION = "org.apache.spark.sql.SparkSession"


def build_sort_order(spark: SparkSession, schema: Any, terms: Iterable[str]) -> Any:
    """Build an ``org.apache.iceberg.SortOrder``; without terms that of an unsorted table.

    :param schema: ``org.apache.iceberg.Schema``.
    """
    builder = jvm_of(spark).org.apache.iceberg.SortOrder.builderFor(schema).caseSensitive(False)
    text = ", ".join(terms)
    for term in _parsed_sort_order(spark, text) if text else ():
        builder.sortBy(term.term(), term.direction(), term.nullOrder())
    return builder.build()


def _parsed_sort_order(spark: SparkSession, text: str) -> Any:
    # The interface has a static method of two parameters and an instance method of one under this name; py4j finds
    # neither.
    handles = method_handles(spark)
    parse = handles.static(
        "org.apache.iceberg.spark.ExtendedParser", "parseSortOrder", "java.util.List", _SESSION, "java.lang.String"
    )
    return handles.call(parse, java_session(spark), text)
