"""Requirements of a strategy on a table, for one that exists and for one that is about to be created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_obstacles import foreign_partitions
from airflow_lake_provider.contracts.upsert_strategy import (
    UpsertStrategy,
    refuses_delete_files,
    unfit_as_equality_key,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import (
    COPY_ON_WRITE,
    EQUALITY,
    POSITIONS,
    missing_internals,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.partition_values import is_supported

_INTERNALS = {
    UpsertStrategy.POSITIONS: POSITIONS,
    UpsertStrategy.COPY_ON_WRITE: COPY_ON_WRITE,
    UpsertStrategy.EQUALITY: EQUALITY,
}


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """A table without its rows.

    :param schema: ``org.apache.iceberg.Schema``.
    :param spec: ``org.apache.iceberg.PartitionSpec``.
    """

    format_version: int
    properties: Mapping[str, str]
    schema: Any
    spec: Any

    @classmethod
    def of(cls, table: IcebergTable) -> TableShape:
        """Return that of an existing table."""
        return cls(
            format_version=table.format_version,
            properties=table.properties(),
            schema=table.java.schema(),
            spec=table.java.spec(),
        )

    def fields(self, columns: Sequence[str]) -> list[Any]:
        """Return the ``org.apache.iceberg.types.Types.NestedField`` of each column, however it is spelled."""
        return [self.schema.caseInsensitiveFindField(name) for name in columns]


def lacking_internals(spark: SparkSession, strategy: UpsertStrategy) -> str | None:
    """Return which classes of the runtime a strategy misses, as a clause."""
    missing = missing_internals(spark, _INTERNALS.get(strategy, ()))
    return f"this Iceberg runtime lacks {', '.join(missing)}" if missing else None


def unfit_for(shape: TableShape, strategy: UpsertStrategy, keys: Sequence[str]) -> str | None:
    """Return why a table of this shape is never changed by a strategy; None where it may be."""
    if strategy is UpsertStrategy.EQUALITY:
        return next(_unfit_for_equality(shape, keys), None)
    if strategy is UpsertStrategy.POSITIONS and (reason := without_delete_files(shape)):
        return reason
    if strategy is not UpsertStrategy.MERGE and "encryption.key-id" in shape.properties:
        return "an encrypted table's files cannot be read and written by file here"
    return None


def without_delete_files(shape: TableShape) -> str | None:
    """Return why the table takes, or wants, no delete files."""
    return refuses_delete_files(shape.format_version, shape.properties)


def _unfit_for_equality(shape: TableShape, keys: Sequence[str]) -> Iterator[str]:
    """Yield what is in the way; each test may lean on those before it."""
    reason = without_delete_files(shape)
    if reason:
        yield reason
    if "encryption.key-id" in shape.properties:
        yield "delete files of an encrypted table would be written in plain"
    fields = shape.fields(keys)
    for field in fields:
        reason = unfit_as_equality_key(str(field.name()), str(field.type()))
        if reason:
            yield reason
    partitions = _foreign_partitions(shape, fields)
    if partitions:
        yield partitions


def _foreign_partitions(shape: TableShape, keys: Sequence[Any]) -> str | None:
    """Tell partition fields that a key alone does not decide: the old row may be in any of their partitions."""
    names = [str(shape.schema.findColumnName(field.fieldId())) for field in keys]
    found = [field for field in shape.spec.fields() if not field.transform().isVoid()]
    partitions = [(str(field.name()), str(shape.schema.findColumnName(field.sourceId()))) for field in found]
    return foreign_partitions(partitions, names) or _unknown_transforms(shape.spec)


def _unknown_transforms(spec: Any) -> str | None:
    results = spec.partitionType()
    unknown = [f for f in spec.fields() if not is_supported(f, results.field(f.fieldId()).type())]
    return f"partition fields {', '.join(str(f) for f in unknown)} cannot be computed here" if unknown else None
