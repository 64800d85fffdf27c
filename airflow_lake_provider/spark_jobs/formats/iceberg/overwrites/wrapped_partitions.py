"""Partitions of truncated numbers that overflowed: ``truncate(10, -2147483648)`` is 2147483646 of an INT.

A predicate on the column is projected past such a partition, or to it by mistake. All others are told by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import column_ids
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava

_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
# A LONG may have been an INT when its partitions were written.
_BITS = {"int": (32,), "long": (32, 64)}


def refuse_wrapped_partitions(table: IcebergTable, base: str, expression: Any, where: str) -> None:
    """Refuse a predicate on a column of which a snapshot has such a partition, as far as its manifests tell.

    :param expression: ``org.apache.iceberg.expressions.Expression`` of the predicate.
    :raises InvalidSpecError: naming the partition.
    """
    expressions, package, java = table.iceberg.expressions, guava(table.spark), java_functions(table.spark)
    columns = column_ids(table, expression)
    for spec in JavaItems(table.spark, table.java.specs().values()):
        for place, value in _wrapped(table, spec, columns):
            name = str(spec.fields().get(place).name())
            holds = expressions.ManifestEvaluator.forPartitionFilter(
                expressions.Expressions.equal(name, value), spec, True
            )
            manifests = table.java.snapshot(int(base)).dataManifests(table.java.io())
            of_spec = package.collect.Iterables.filter(manifests, java.is_of_spec(int(spec.specId())))
            of_spec = package.collect.Lists.newArrayList(of_spec)
            if any(holds.eval(manifest) for manifest in JavaItems(table.spark, of_spec)):
                raise InvalidSpecError(
                    f"{table.name}: where={shown(where)} compares a column whose least numbers are in partition "
                    f"{name}={value}, out of order, and cannot be told of it. Let allow_rows=True delete single rows"
                )


def in_wrapped_partition(table: IcebergTable, files: Sequence[Any], expression: Any) -> list[Any]:
    """Return the new files that are in such a partition of a column that an expression compares.

    :param files: ``org.apache.iceberg.DataFile`` objects of the table's present spec.
    """
    spec = table.java.spec()
    wrapped, classes = list(_wrapped(table, spec, column_ids(table, expression))), spec.javaClasses()
    return [file for file in files if any(file.partition().get(at, classes[at]) == value for at, value in wrapped)]


def _wrapped(table: IcebergTable, spec: Any, columns: Any) -> Iterator[tuple[int, int]]:
    """Yield place and value of each field of a spec that truncates one of the columns, where it overflows."""
    for place, field in enumerate(JavaItems(table.spark, spec.fields())):
        width = _TRUNCATE.fullmatch(str(field.transform()))
        if width is None or not columns.contains(field.sourceId()):
            continue
        for bits in _BITS.get(str(table.java.schema().findType(field.sourceId())), ()):
            least = -(2 ** (bits - 1))
            if cut := least % int(width[1]):
                yield place, least - cut + 2**bits
