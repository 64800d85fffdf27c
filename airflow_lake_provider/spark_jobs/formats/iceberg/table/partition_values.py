"""The keys of a batch by the partition that a row of them is in, by the table's own partition functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow

_LABEL, _VALUES = "_lake_label", "_lake_values"
# Iceberg's names of transforms to those of its functions in Spark.
_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")


def keys_by_partition(table: IcebergTable, keys: DataFrame) -> Iterator[tuple[Any, pa.Table]]:
    """Yield each partition with its keys, collected.

    :param keys: the key columns; every partition field is a function of one of them.
    :return: ``org.apache.iceberg.StructLike``, None for a table without partitions.
    """
    spec = table.java.spec()
    if not spec.isPartitioned():
        yield None, to_arrow(keys)
        return
    values = sf.struct(*(_value(table, field).alias(f"v{place}") for place, field in enumerate(spec.fields())))
    labelled = keys.withColumn(_VALUES, values).withColumn(_LABEL, sf.to_json(_VALUES))
    partitions = _partitions(table, labelled)
    collected = to_arrow(labelled.drop(_VALUES))
    numbers = pc.index_in(collected.column(_LABEL), value_set=pa.array(list(partitions), pa.string()))
    collected = collected.drop_columns([_LABEL])
    for number, partition in enumerate(partitions.values()):
        yield partition, collected.filter(pc.equal(numbers, number))


def is_supported(field: Any, result: Any) -> bool:
    """Tell whether the values of a partition field can be computed here.

    :param field: ``org.apache.iceberg.PartitionField``; ``result``: the type of its values.
    """
    name = str(field.transform())
    is_known = name in ("identity", "void") or name in _FUNCTIONS or _WITH_WIDTH.fullmatch(name) is not None
    return is_known and not str(result).startswith("timestamp")


def _value(table: IcebergTable, field: Any) -> Column:
    transform = str(field.transform())
    if transform == "void":
        return sf.lit(None).cast("int")
    column = quoted_name(str(table.java.schema().findColumnName(field.sourceId())))
    if transform == "identity":
        value = sf.expr(column)
    else:
        width = _WITH_WIDTH.fullmatch(transform)
        function, arguments = width.groups() if width else (_FUNCTIONS[transform], None)
        listed = f"{arguments}, {column}" if arguments else column
        value = sf.expr(f"{quoted_name(table.catalog)}.system.{function}({listed})")
    # Spark's Java dates have no days of October 1582.
    return sf.unix_date(value) if _result(table, field) == "date" else value


def _result(table: IcebergTable, field: Any) -> str:
    return str(table.java.spec().partitionType().field(field.fieldId()).type())


def _partitions(table: IcebergTable, labelled: DataFrame) -> dict[str, Any]:
    """Return the partitions by label; their values never leave the JVM, where Python would lose their Java types."""
    types = table.iceberg.types.Types
    fields = [
        types.NestedField.optional(field.fieldId(), field.name(), types.IntegerType.get())
        if str(field.type()) == "date"
        else field
        for field in table.java.spec().partitionType().fields()
    ]
    kind = types.StructType.of(fields)
    rows = java_rows(labelled.dropDuplicates([_LABEL]).select(_LABEL, _VALUES)).collectAsList()
    convert = internal(table.spark, Internal.VALUE_CONVERTER).convert
    return {str(row.getString(0)): convert(kind, row.getStruct(1)) for row in rows}
