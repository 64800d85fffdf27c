"""Check queries and expressions of an author, which are code; name views for them, and tell what a query reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import forbidden_in, shown
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import items_of
from airflow_lake_provider.spark_jobs.sql.parsed_tree import UnparsedError, parse_expression, parse_statement

_SHELL = (
    "MAP, REDUCE or TRANSFORM ... USING runs a shell command; set allow_sql=True if that is meant, and never "
    "interpolate user input"
)


def check_query(spark: SparkSession, query: str, what: str, *, allow_sql: bool = False) -> None:
    """Refuse a text that is more or less than one query; nothing of it is analysed or run.

    :param allow_sql: take queries that run shell commands.
    :raises InvalidSpecError: it is a statement that does something, several, none, or runs a shell command.
    """
    _refuse_forbidden(query, what, allow_sql=allow_sql)
    try:
        parse_statement(spark, query)
        # Only a query stands in parentheses; a text that closes them itself does not stand alone.
        parse_statement(spark, f"(\n{query.strip().rstrip(';')}\n)")
    except UnparsedError as error:
        raise InvalidSpecError(f"{what} is no query that can be run: {error}; got {shown(query)}") from None
    _refuse_shell(spark, query, what, allow_sql=allow_sql)


def check_expression_text(spark: SparkSession, text: str, what: str, *, allow_sql: bool = False) -> None:
    """Refuse a text that is more or less than one expression; nothing of it is analysed or run.

    :param allow_sql: take expressions that run shell commands.
    :raises InvalidSpecError: it does not parse, or runs a shell command.
    """
    _refuse_forbidden(text, what, allow_sql=allow_sql)
    try:
        parse_expression(spark, text)
    except UnparsedError as error:
        raise InvalidSpecError(f"{what} is not one SQL expression: {error}; got {shown(text)}") from None
    _refuse_shell(spark, text, what, allow_sql=allow_sql)


def _refuse_forbidden(text: str, what: str, *, allow_sql: bool) -> None:
    forbidden = None if allow_sql else forbidden_in(text)
    if forbidden is not None:
        raise InvalidSpecError(f"{what} may not have {forbidden}, or set allow_sql=True; got {shown(text)}")


def _refuse_shell(spark: SparkSession, text: str, what: str, *, allow_sql: bool) -> None:
    if not allow_sql and _runs_shell(spark, text):
        raise InvalidSpecError(f"{what} was refused: {_SHELL}; got {shown(text)}")


def _runs_shell(spark: SparkSession, text: str) -> bool:
    """Tell whether a text that parses has a script transform: the only USING that a constant follows."""
    jvm = jvm_of(spark)
    parser = jvm.org.apache.spark.sql.catalyst.parser
    characters = parser.UpperCaseCharStream(jvm.org.antlr.v4.runtime.CharStreams.fromString(text))
    tokens = jvm.org.antlr.v4.runtime.CommonTokenStream(parser.SqlBaseLexer(characters))
    tokens.fill()
    kinds = parser.SqlBaseLexer
    constants = {kinds.STRING_LITERAL, kinds.DOUBLEQUOTED_STRING}
    for using in tokens.getTokens(0, tokens.size() - 1, kinds.USING) or ():
        tokens.seek(using.getTokenIndex() + 1)
        if tokens.LA(1) in constants:
            return True
    return False


@contextmanager
def named_views(spark: SparkSession, views: Mapping[str, DataFrame]) -> Iterator[None]:
    """Name DataFrames for queries; a query's plan keeps them when the names are gone."""
    for name, rows in views.items():
        rows.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in views:
            spark.catalog.dropTempView(name)


# Leaves that read nothing; a CTE's rows are among the plans that have it.
_CONSTANTS = frozenset({"OneRowRelation", "LocalRelation", "EmptyRelation", "Range", "CTERelationRef", "UnionLoopRef"})


def sources_of(rows: DataFrame) -> tuple[set[str], set[str]]:
    """Return the temporary views that a query reads, by name, and what else it reads; subqueries are part of it.

    What a view reads itself is not looked for.
    """
    views: set[str] = set()
    others: set[str] = set()
    plans = [java_rows(rows).queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        kind = plan.getClass().getSimpleName()
        if kind == "View" and plan.isTempView():
            views.add(str(plan.desc().identifier().unquotedString()))
            continue
        children = items_of(plan.children())
        plans += [*children, *items_of(plan.subqueries())]
        if not children and kind not in _CONSTANTS:
            # A relation's text ends with its name, after its columns.
            others.add(str(plan.simpleString(0)).rpartition("] ")[2])
    return views, others
