"""Refuse to replace partitions of the present spec while files of an earlier one may have rows of them.

Iceberg replaces the files of one spec. Rows of the same day in files by month would stay, and be there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.types import TimestampNTZType

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.partition_ranges import range_of
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_by_newest_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import (
    always_true,
    bounds_are_sure,
    converted,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    least_literal,
    literal_without_zone,
)
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, as_number_list, guava
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name


def refuse_older_specs(table: IcebergTable, base: str | None, files: Sequence[Any]) -> None:
    """Refuse it; most tables have files of one spec, which their manifests tell.

    :param files: ``org.apache.iceberg.DataFile`` objects that come in place of their partitions.
    :raises UnsupportedError: naming the first of such files' partitions, and what to do.
    """
    if base is None or not files:
        return
    spec, java = table.java.spec(), java_functions(table.spark)
    manifests = table.java.snapshot(int(base)).dataManifests(table.java.io())
    if set(as_number_list(table.spark, manifests, java.spec_id_of_manifest)) <= {int(spec.specId())}:
        return
    package = guava(table.spark)
    of_present = java.is_task_of_spec(int(spec.specId()))
    scan = scan_by_newest_schema(table, int(base)).filter(_around(table, files))
    with closing(scan.planFiles()) as planned:
        older = package.collect.Lists.newArrayList(
            package.collect.Iterables.filter(planned, getattr(package.base.Predicates, "not")(of_present))
        )
    if older.isEmpty():
        return
    task = older.get(0)
    partition = str(task.spec().partitionToPath(task.file().partition())) or "none"
    raise UnsupportedError(
        f"{table.name}: {older.size()} data files are partitioned by an earlier spec and may have rows of the "
        f"partitions that are replaced, the first is in partition {partition}. Rewrite them by LakeCompactionOperator "
        "with level='full', or say by where which rows are replaced"
    )


def _around(table: IcebergTable, files: Sequence[Any]) -> Any:
    """Return an expression that is true for all rows of the files' partitions, and maybe for others."""
    predicate = " AND ".join(_ranges(table, files))
    if not predicate or not bounds_are_sure(table, predicate):
        return always_true(table)
    try:
        return converted(table, predicate)
    except SPARK_ERRORS:
        return always_true(table)


def _ranges(table: IcebergTable, files: Sequence[Any]) -> Iterator[str]:
    """Yield a predicate for each partition field whose values tell a range of its column."""
    spec = table.java.spec()
    classes = spec.javaClasses()
    columns = {field.name: field.dataType for field in table.schema()}
    for place, field in enumerate(JavaItems(table.spark, spec.fields())):
        name = str(table.java.schema().findColumnName(field.sourceId()))
        values = [file.partition().get(place, classes[place]) for file in files]
        kind = columns.get(name)
        # Of other types, such as bytes, Python has no order.
        if kind is None or not all(isinstance(value, int | str) for value in values):
            continue
        low = range_of(str(field.transform()), kind, min(values))
        high = range_of(str(field.transform()), kind, max(values))
        if low is None or high is None:
            continue
        if isinstance(kind, TimestampNTZType):
            least, greatest = literal_without_zone(int(low[0])), literal_without_zone(int(high[1]))
        else:
            least, greatest = least_literal(low[0], kind), greatest_literal(high[1], kind)
        if least is not None and greatest is not None:
            yield f"{quoted_name(name)} >= {least} AND {quoted_name(name)} <= {greatest}"
