"""Classes that an expression is made of, told by one walk inside of the JVM.

Asked node by node through the gateway, a list of a thousand values takes seconds. Spark's own JSON of a tree is asked
for once its classes are known: it takes twice the space for each CASE that is inside of another.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import SparkSession

# A function with FILTER, whose JSON has the filter twice; no kind of Spark's has this name.
FILTERED = "a function with FILTER"
_FUNCTION = "org.apache.spark.sql.catalyst.analysis.UnresolvedFunction"


def kinds_in(spark: SparkSession, java: Any) -> list[str]:
    """Return the names of the classes of an expression and all that is below it, each once, and :data:`FILTERED`.

    :param java: ``org.apache.spark.sql.catalyst.expressions.Expression``.
    """
    names = spark._jvm.java.util.HashSet()  # type: ignore[union-attr]  # set by then
    walk = _walk(spark)
    java.foreach(walk.adding_names_to(names))
    filtered = java.exists(walk.has_filter)
    return [*map(str, names), *([FILTERED] if filtered else [])]


class _TreeWalk:
    """Functions of Scala, made of methods of Java, for the walks that trees of Spark have themselves."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._handles = jvm.java.lang.invoke.MethodHandles
        self._lookup = self._handles.publicLookup()
        self._name = self._class_name()
        self.has_filter = self._function(self._is_filtered())

    def adding_names_to(self, names: Any) -> Any:
        """Add the name of a node's class to a ``java.util.Set``."""
        add = self._method("java.util.HashSet", "add", self._jvm.java.lang.Boolean.TYPE, "java.lang.Object")
        named = self._name.asType(self._kind("java.lang.Object", "java.lang.Object"))
        return self._function(self._handles.filterReturnValue(named, add.bindTo(names)))

    def _class_name(self) -> Any:
        of_object = self._method("java.lang.Object", "getClass", "java.lang.Class")
        name = self._method("java.lang.Class", "getName", "java.lang.String")
        return self._handles.filterReturnValue(of_object, name)

    def _is_filtered(self) -> Any:
        boolean = self._jvm.java.lang.Boolean.TYPE
        of_function = self._handles.filterReturnValue(
            self._method(_FUNCTION, "filter", "scala.Option"), self._method("scala.Option", "isDefined", boolean)
        ).asType(self._kind(boolean, "java.lang.Object"))
        is_function = self._method("java.lang.Class", "isInstance", boolean, "java.lang.Object")
        never = self._handles.dropArguments(self._handles.constant(boolean, False), 0, self._types("java.lang.Object"))
        return self._handles.guardWithTest(is_function.bindTo(self._class(_FUNCTION)), of_function, never)

    def _method(self, owner: str, name: str, result: Any, *parameters: str) -> Any:
        return self._lookup.findVirtual(self._class(owner), name, self._kind(result, *parameters))

    def _kind(self, *names: Any) -> Any:
        return self._jvm.java.lang.invoke.MethodType.methodType(*map(self._class, names))

    def _types(self, *names: str) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for name in names:
            listed.add(self._class(name))
        return listed

    def _function(self, handle: Any) -> Any:
        interface = self._class("scala.Function1")
        return self._jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(interface, handle)

    def _class(self, name: Any) -> Any:
        return self._jvm.java.lang.Class.forName(name, True, self._loader) if isinstance(name, str) else name


@cache
def _walk(spark: SparkSession) -> _TreeWalk:
    return _TreeWalk(spark._jvm)
