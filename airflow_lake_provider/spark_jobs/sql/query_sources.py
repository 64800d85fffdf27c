"""Find the tables and files that a query reads, from its analysed plan; names in its text may be columns or aliases."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows
from airflow_lake_provider.spark_jobs.jvm.java_collections import items_of

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
