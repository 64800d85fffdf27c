"""A predicate as Iceberg's expression, and reading by it that leaves no row out, whatever its files' statistics say.

Iceberg's readers skip files and parts of files by statistics. For some types they compare otherwise than Spark does, so
that a row that satisfies the predicate is never read; ``docs/decisions/0019`` has each case. Only what is compared
alike reaches the scan. The rest is asked of the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.iceberg.foreign_times import TIMES, times_are_sure
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable, unpruned
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import wrapped_columns
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows, java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.older_pyspark import column_of
from airflow_lake_provider.spark_jobs.sql.parsed_tree import has_subquery, kinds_in, silenced
from airflow_lake_provider.spark_jobs.sql.predicate import check_predicate

# Types that readers of every format compare as Spark does. Floating point is none: its bounds ignore NaN and know two
# zeros. A UUID is none: Iceberg compares its halves as signed numbers (apache/iceberg#14216).
_SURE = frozenset({"boolean", "int", "long", "binary", "decimal"})
_BEGINNINGS = frozenset({"Like", "StartsWith"})
# ORC compares texts by UTF-16 with bounds in UTF-8, and times by a calendar that is Julian before 1582.
_SURE_OUTSIDE_ORC = TIMES | {"string", "date"}


def rows_where(table: IcebergTable, rows: DataFrame, where: str, snapshot: int) -> DataFrame:
    """Return the rows that satisfy a predicate.

    :param rows: of the table, read from ``snapshot``.
    :param where: SQL over the columns of ``rows``.
    """
    filtered = rows.filter(sf.expr(where))
    conjuncts = list(_conjuncts(filtered))
    # A comparison with a number so low is projected to the wrong partitions, and so are the rows that have it.
    sure = _names_of(table, _SURE) - wrapped_columns(table).keys()
    if any(not _reads_only(table, part, sure) for part in conjuncts) and not _holds_orc(table, snapshot):
        sure |= _names_of(table, _sure_outside_orc(table))
    pushed = [part for part in conjuncts if _reads_only(table, part, sure) and not _may_fail(table, part)]
    if conjuncts and len(pushed) == len(conjuncts):
        return filtered
    for part in pushed:
        rows = rows.filter(column_of(part))
    return unpruned(rows).filter(where)


def rows_for_queries(table: IcebergTable, rows: DataFrame, snapshot: int) -> DataFrame:
    """Return rows of which a query of an author's finds what its predicates are true for.

    Nothing of a query is pushed into a scan of ORC files, nor of files whose times are not sure. Other scans stay as
    they are.

    :param rows: of the table, read from ``snapshot``.
    """
    is_sure = times_are_sure(table.properties()) or not _names_of(table, TIMES)
    return rows if is_sure and not _holds_orc(table, snapshot) else unpruned(rows)


def bounds_are_sure(table: IcebergTable, where: str, *, with_wrapped: bool = False) -> bool:
    """Tell whether the bounds in the manifests tell files without a row that satisfies a predicate, in every format.

    :param with_wrapped: take columns that a partition spec truncates, too, and beginnings of texts below OR; the caller
        looks for what overflowed, and for NULL.
    """
    conjuncts = list(_conjuncts(table.spark.table(table.sql_name).filter(sf.expr(where))))
    sure = _names_of(table, _SURE | _sure_outside_orc(table)) - (
        frozenset() if with_wrapped else wrapped_columns(table).keys()
    )
    return bool(conjuncts) and all(
        _reads_only(table, part, sure) and (with_wrapped or not _may_fail(table, part)) for part in conjuncts
    )


def _sure_outside_orc(table: IcebergTable) -> frozenset[str]:
    return _SURE_OUTSIDE_ORC if times_are_sure(table.properties()) else _SURE_OUTSIDE_ORC - TIMES


def _conjuncts(filtered: DataFrame) -> Iterator[Any]:
    """Yield the parts of the predicate that AND joins; none where Spark has planned more than a filter."""
    plan = java_rows(filtered).queryExecution().analyzed()
    waiting = [plan.condition()] if plan.nodeName() == "Filter" else []
    while waiting:
        part = waiting.pop()
        if part.nodeName() == "And":
            waiting += [part.left(), part.right()]
        else:
            yield part


def _reads_only(table: IcebergTable, part: Any, names: frozenset[str]) -> bool:
    # A subquery would run twice: in the scan's filter, and behind the barrier.
    if has_subquery(table.spark, part):
        return False
    references = part.references().iterator()
    while references.hasNext():
        if str(references.next().name()).lower() not in names:
            return False
    return bool(part.deterministic())


def _may_fail(table: IcebergTable, part: Any) -> bool:
    """Tell whether Iceberg may ask a partition that is NULL for the beginning of a text.

    ``ResidualEvaluator`` of 1.12 then ends with a NullPointerException. Alone, or behind NOT alone, the comparison is
    beside IS NOT NULL, so that such a partition is left out before.
    """
    alone = part.children().head() if part.nodeName() == "Not" else part
    if alone.nodeName() in _BEGINNINGS or _BEGINNINGS.isdisjoint(
        kind.rpartition(".")[2] for kind in kinds_in(table.spark, part)
    ):
        return False
    partitioning = {
        field.source.partition(".")[0].lower() for field in table.facts.shape.partition_fields(of_all_specs=True)
    }
    return not _reads_only(table, part, _names_of(table, _SURE | _SURE_OUTSIDE_ORC) - partitioning)


def _names_of(table: IcebergTable, types: frozenset[str]) -> frozenset[str]:
    """Return the columns of some types, in lower case; a nested field counts as the column that it is in."""
    columns = table.java.schema().columns()
    return frozenset(str(field.name()).lower() for field in columns if _type_name(field) in types)


def _type_name(field: Any) -> str:
    return str(field.type()).partition("(")[0]


def _holds_orc(table: IcebergTable, snapshot: int) -> bool:
    """Tell whether a data file of a snapshot is ORC; its manifests are read, in the JVM."""
    with closing(table.java.newScan().useSnapshot(snapshot).planFiles()) as tasks:
        return bool(guava(table.spark).collect.Iterables.any(tasks, java_functions(table.spark).is_task_of_orc))


def to_expression(table: IcebergTable, where: str | None, *, is_secret: bool = False, otherwise: str = "") -> Any:
    """Return an ``org.apache.iceberg.expressions.Expression`` of an author's ``where``; always true without one.

    :param is_secret: keep the text out of messages.
    :param otherwise: how to have it taken nevertheless; end of the message.
    :raises InvalidSpecError: it is more than comparisons of columns with constants, or no expression of Iceberg's; of
        the former nothing was analysed.
    """
    if where is None:
        return always_true(table)
    schema = table.spark.table(table.sql_name).schema
    check_predicate(table.spark, where, schema, str(table.name), is_secret=is_secret, otherwise=otherwise)
    try:
        with silenced():
            return converted(table, where)
    except SPARK_ERRORS as error:
        why = f", its text is withheld ({type(error).__name__})" if is_secret else f": {str(error).splitlines()[0]}"
        shown = "" if is_secret else f"={where!r}"
        raise InvalidSpecError(
            f"{table.name}: where{shown} does not convert to an Iceberg expression{why}. Compare columns with "
            f"constants by =, <, >, IN, IS NULL or LIKE 'x%', joined by AND, OR and NOT{otherwise}"
        ) from (None if is_secret else error)


def converted(table: IcebergTable, predicate: str) -> Any:
    """Return the expression of a predicate that this package made, or has checked.

    :raises JavaError: Iceberg has no expression for it.
    :raises PySparkException: Spark cannot analyse it.
    """
    converter = jvm_of(table.spark).org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = converter.collectResolvedSparkExpression(java_session(table.spark), table.sql_name, predicate)
    return converter.convertToIcebergExpression(resolved)


def column_ids(table: IcebergTable, expression: Any) -> Any:
    """Return the field ids of the columns of an expression, as a Java set."""
    listed = guava(table.spark).collect.Lists.newArrayList()
    listed.add(expression)
    return table.iceberg.expressions.Binder.boundReferences(table.java.schema().asStruct(), listed, False)


def always_true(table: IcebergTable) -> Any:
    """Return the expression that every row satisfies."""
    return table.iceberg.expressions.Expressions.alwaysTrue()
