"""Methods of Java as functions of the JVM, so that a collection is read there and comes over in one command.

Asked item by item through the gateway, a folder of 100,000 files takes a minute to list. A Python callback would need
a server of the driver's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from pyspark.sql import SparkSession

# Guava as Iceberg's runtime brings it: Spark 3.5 has release 14, and another cluster may have any.
GUAVA = "org.apache.iceberg.relocated.com.google.common"
# No path of a file has it.
SEPARATOR = "\0"


def guava(spark: SparkSession) -> Any:
    """Return the package of Guava, as py4j has it."""
    return attrgetter(GUAVA)(_jvm(spark))


@cache
def load_class(spark: SparkSession, name: str) -> Any:
    """Return the ``java.lang.Class`` of a full name, one of the jars given to the session included."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)


def method(spark: SparkSession, owner: str, name: str, result: Any, *parameters: Any) -> Any:
    """Return the ``MethodHandle`` of a public method.

    :param owner: full name of its class or interface.
    :param result: its type; a primitive one is a constant, such as ``java.lang.Long.TYPE``.
    """
    lookup = _invoke(spark).MethodHandles.publicLookup()
    return lookup.findVirtual(load_class(spark, owner), name, method_type(spark, result, *parameters))


def static_method(spark: SparkSession, owner: str, name: str, result: Any, *parameters: Any) -> Any:
    """Return the ``MethodHandle`` of a public static method; see :func:`method`."""
    lookup = _invoke(spark).MethodHandles.publicLookup()
    return lookup.findStatic(load_class(spark, owner), name, method_type(spark, result, *parameters))


def method_type(spark: SparkSession, result: Any, *parameters: Any) -> Any:
    """Return a ``MethodType`` of classes."""
    if len(parameters) < 2:
        return _invoke(spark).MethodType.methodType(result, *parameters)
    listed = java_array(spark, _jvm(spark).java.lang.Class, parameters)
    return _invoke(spark).MethodType.methodType(result, listed)


def as_function(spark: SparkSession, handle: Any) -> Any:
    """Return a ``MethodHandle`` as Guava's ``Function``, which is also a ``java.util.function.Function``."""
    return _instance(spark, f"{GUAVA}.base.Function", handle)


class JavaItems(Sequence[Any]):
    """The items of a Java collection; each comes over when it is asked for, and is then an object on both sides.

    They are asked for by place: an iterator ends with an exception, which PySpark looks through by some twenty
    commands.
    """

    def __init__(self, spark: SparkSession, collection: Any) -> None:
        self._spark = spark
        self._listed = _jvm(spark).java.util.ArrayList(collection)
        self._size = int(self._listed.size())

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._size))]
        return self._listed.get(range(self._size)[place])

    def texts(self, function: Any) -> list[str]:
        """Return what a function gives for each item, see :func:`texts_of`."""
        return texts_of(self._spark, self._listed, function)

    def give_each(self, handle: Any) -> None:
        """Call a ``MethodHandle`` with each item, in one command."""
        self._listed.forEach(_instance(self._spark, "java.util.function.Consumer", handle))


def texts_of(spark: SparkSession, items: Any, function: Any) -> list[str]:
    """Return what a function gives for each item, as text.

    :param items: a ``java.util.List``.
    :param function: of :func:`as_function`; gives no text with a NUL.
    """
    if items.isEmpty():
        return []
    library = guava(spark)
    joined: str = library.base.Joiner.on(SEPARATOR).join(library.collect.Lists.transform(items, function))
    return joined.split(SEPARATOR)


def as_number_list(spark: SparkSession, items: Any, function: Any) -> list[int]:
    """Return the whole number that a function gives for each item of a ``java.util.List``."""
    return [int(text) for text in texts_of(spark, items, function)]


def java_list(spark: SparkSession, texts: Collection[str]) -> Any:
    """Return texts as a ``java.util.List``; PySpark would add each to a list by a command of its own.

    :param texts: not empty, and without a NUL.
    """
    library = guava(spark)
    return library.collect.Lists.newArrayList(library.base.Splitter.on(SEPARATOR).split(SEPARATOR.join(texts)))


def java_array(spark: SparkSession, kind: Any, items: Sequence[Any]) -> Any:
    """Return items as an array of Java, which is what a method with any number of arguments takes.

    :param kind: class of the items, as py4j has it.
    """
    gateway: Any = spark.sparkContext._gateway
    made = gateway.new_array(kind, len(items))
    for place, item in enumerate(items):
        made[place] = item
    return made


def list_of_array(spark: SparkSession, items: Any) -> Any:
    """Return an array as a ``java.util.List``; py4j passes an array only where its very type is declared."""
    jvm = _jvm(spark)
    gateway: Any = spark.sparkContext._gateway
    copy = gateway.new_array(jvm.java.lang.Object, len(items))
    jvm.java.lang.System.arraycopy(items, 0, copy, 0, len(items))
    return jvm.java.util.Arrays.asList(copy)


def _instance(spark: SparkSession, interface: str, handle: Any) -> Any:
    return _invoke(spark).MethodHandleProxies.asInterfaceInstance(load_class(spark, interface), handle)


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _invoke(spark: SparkSession) -> Any:
    return _jvm(spark).java.lang.invoke
