"""Classes that an expression is made of, told by one walk inside of the JVM.

Asked node by node through the gateway, a list of a thousand values takes seconds. Spark's own JSON of a tree is asked
for once its classes are known: it takes twice the space for each CASE that is inside of another.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles

# A function with FILTER, whose JSON has the filter twice; no kind of Spark's has this name.
FILTERED = "a function with FILTER"
_FUNCTION = "org.apache.spark.sql.catalyst.analysis.UnresolvedFunction"
_OBJECT, _SCALA_FUNCTION = "java.lang.Object", "scala.Function1"


def kinds_in(spark: SparkSession, java: Any) -> list[str]:
    """Return the names of the classes of an expression and all that is below it, each once, and :data:`FILTERED`.

    :param java: ``org.apache.spark.sql.catalyst.expressions.Expression``.
    """
    names = jvm_of(spark).java.util.HashSet()
    walk = _walk(spark)
    java.foreach(walk.adding_names_to(names))
    filtered = java.exists(walk.has_filter)
    return [*map(str, names), *([FILTERED] if filtered else [])]


class _TreeWalk:
    """Functions of Scala, made of methods of Java, for the walks that trees of Spark have themselves."""

    def __init__(self, spark: SparkSession) -> None:
        self._make = method_handles(spark)

    def adding_names_to(self, names: Any) -> Any:
        """Add the name of a node's class to a ``java.util.Set``."""
        add = self._make.method("java.util.HashSet", "add", "boolean", _OBJECT)
        return self._make.instance(_SCALA_FUNCTION, self._make.then(self._class_name, add.bindTo(names)))

    @cached_property
    def has_filter(self) -> Any:
        """Tell whether a node is a function with FILTER."""
        of_function = self._make.then(
            self._make.method(_FUNCTION, "filter", "scala.Option"),
            self._make.method("scala.Option", "isDefined", "boolean"),
        )
        test = self._make.where_instance(_FUNCTION, self._make.typed(of_function, "boolean", _OBJECT))
        return self._make.instance(_SCALA_FUNCTION, test)

    @cached_property
    def _class_name(self) -> Any:
        name = self._make.then(
            self._make.method(_OBJECT, "getClass", "java.lang.Class"),
            self._make.method("java.lang.Class", "getName", "java.lang.String"),
        )
        return self._make.typed(name, _OBJECT, _OBJECT)


@once_a_driver
def _walk(spark: SparkSession) -> _TreeWalk:
    return _TreeWalk(spark)
