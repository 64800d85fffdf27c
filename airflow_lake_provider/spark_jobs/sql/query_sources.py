"""Find the tables and files that a query reads, from its analysed plan; names in its text may be columns or aliases."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

# Leaves that read nothing; a CTE's rows are among the plans that have it.
_CONSTANTS = frozenset({"OneRowRelation", "LocalRelation", "EmptyRelation", "Range", "CTERelationRef", "UnionLoopRef"})


def sources_of(rows: DataFrame) -> tuple[set[str], set[str]]:
    """Return the temporary views that a query reads, by name, and what else it reads; subqueries are part of it.

    What a view reads itself is not looked for.
    """
    views: set[str] = set()
    others: set[str] = set()
    plans = [rows._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        kind = plan.getClass().getSimpleName()
        if kind == "View" and plan.isTempView():
            views.add(str(plan.desc().identifier().unquotedString()))
            continue
        children = _items(plan.children())
        plans += [*children, *_items(plan.subqueries())]
        if not children and kind not in _CONSTANTS:
            # A relation's text ends with its name, after its columns.
            others.add(str(plan.simpleString(0)).rpartition("] ")[2])
    return views, others


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
