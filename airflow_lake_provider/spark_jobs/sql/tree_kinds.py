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
_TREE_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"


def kinds_in(spark: SparkSession, java: Any) -> list[str]:
    """Return the names of the classes of an expression and all that is below it, each once, and :data:`FILTERED`.

    :param java: ``org.apache.spark.sql.catalyst.expressions.Expression``.
    """
    return _walk(spark).kinds(java)


class _TreeWalk:
    """Guava's walk over trees, with functions of Java made of methods of Java."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        graph, function = "com.google.common.graph.SuccessorsFunction", "com.google.common.base.Function"
        self._traverser = jvm.com.google.common.graph.Traverser.forTree(self._instance(graph, self._children()))
        self._name = self._instance(function, self._class_name())
        self._has_filter = self._instance(function, self._is_filtered())

    def kinds(self, java: Any) -> list[str]:
        """List the classes."""
        guava = self._jvm.com.google.common
        iterables, nodes = guava.collect.Iterables, self._traverser.depthFirstPreOrder(java)
        names = guava.collect.ImmutableSet.copyOf(iterables.transform(nodes, self._name))
        functions = iterables.filter(nodes, guava.base.Predicates.instanceOf(self._class(_FUNCTION)))
        filtered = iterables.contains(iterables.transform(functions, self._has_filter), True)
        return [*str(guava.base.Joiner.on("\n").join(names)).split("\n"), *([FILTERED] if filtered else [])]

    def _children(self) -> Any:
        children = self._method(_TREE_NODE, "children", "scala.collection.immutable.Seq")
        owner = "scala.jdk.javaapi.CollectionConverters"
        kind = self._kind("java.lang.Iterable", "scala.collection.Iterable")
        to_java = self._lookup().findStatic(self._class(owner), "asJava", kind)
        # The types of what is composed have to be equal.
        to_java = to_java.asType(self._kind("java.lang.Iterable", "scala.collection.immutable.Seq"))
        return self._handles().filterReturnValue(children, to_java)

    def _class_name(self) -> Any:
        of_object = self._method("java.lang.Object", "getClass", "java.lang.Class")
        name = self._method("java.lang.Class", "getName", "java.lang.String")
        return self._handles().filterReturnValue(of_object, name)

    def _is_filtered(self) -> Any:
        option = self._method(_FUNCTION, "filter", "scala.Option")
        kind = self._jvm.java.lang.invoke.MethodType.methodType(self._jvm.java.lang.Boolean.TYPE)
        is_defined = self._lookup().findVirtual(self._class("scala.Option"), "isDefined", kind)
        return self._handles().filterReturnValue(option, is_defined)

    def _method(self, owner: str, name: str, result: str) -> Any:
        return self._lookup().findVirtual(self._class(owner), name, self._kind(result))

    def _kind(self, *names: str) -> Any:
        return self._jvm.java.lang.invoke.MethodType.methodType(*map(self._class, names))

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class(interface), handle)

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name, True, self._loader)

    def _handles(self) -> Any:
        return self._jvm.java.lang.invoke.MethodHandles

    def _lookup(self) -> Any:
        return self._handles().publicLookup()


@cache
def _walk(spark: SparkSession) -> _TreeWalk:
    return _TreeWalk(spark._jvm)
