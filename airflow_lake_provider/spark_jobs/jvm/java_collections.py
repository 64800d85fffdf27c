"""Lists of Java: read in one command, or item by item where the items stay objects of Java."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, empty_array, jvm_of
from airflow_lake_provider.spark_jobs.jvm.method_handles import GUAVA, method_handles

# No path of a file has it.
SEPARATOR = "\0"


def guava(spark: SparkSession) -> Any:
    """Return the package of Guava, as py4j has it."""
    return class_named(spark, GUAVA)


class JavaItems(Sequence[Any]):
    """The items of a Java collection; each comes over when it is asked for, and is then an object on both sides.

    They are asked for by place: an iterator ends with an exception, which PySpark looks through by some twenty
    commands.
    """

    def __init__(self, spark: SparkSession, collection: Any) -> None:
        self._spark = spark
        self._listed = jvm_of(spark).java.util.ArrayList(collection)
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
        self._listed.forEach(method_handles(self._spark).instance("java.util.function.Consumer", handle))


def texts_of(spark: SparkSession, items: Any, function: Any) -> list[str]:
    """Return what a function gives for each item, as text.

    :param items: a ``java.util.List``.
    :param function: of :meth:`MethodHandles.function`; gives no text with a NUL.
    """
    if items.isEmpty():
        return []
    library = guava(spark)
    joined: str = library.base.Joiner.on(SEPARATOR).join(library.collect.Lists.transform(items, function))
    return joined.split(SEPARATOR)


def as_number_list(spark: SparkSession, items: Any, function: Any) -> list[int]:
    """Return the whole number that a function gives for each item of a ``java.util.List``."""
    return [int(text) for text in texts_of(spark, items, function)]


def list_of_texts(spark: SparkSession, texts: Collection[str]) -> Any:
    """Return texts as a ``java.util.List``; PySpark would add each to a list by a command of its own.

    :param texts: not empty, and without a NUL.
    """
    library = guava(spark)
    return library.collect.Lists.newArrayList(library.base.Splitter.on(SEPARATOR).split(SEPARATOR.join(texts)))


def list_of(spark: SparkSession, items: Iterable[Any]) -> Any:
    """Return items as a ``java.util.ArrayList``; each is added by a command of its own."""
    listed = jvm_of(spark).java.util.ArrayList()
    for item in items:
        listed.add(item)
    return listed


def list_of_array(spark: SparkSession, items: Any) -> Any:
    """Return an array as a ``java.util.List``; py4j passes an array only where its very type is declared."""
    java = jvm_of(spark).java
    copy = empty_array(spark, "java.lang.Object", len(items))
    java.lang.System.arraycopy(items, 0, copy, 0, len(items))
    return java.util.Arrays.asList(copy)


def items_of(sequence: Any) -> list[Any]:
    """Return the items of a ``scala.collection.Seq``."""
    return [sequence.apply(place) for place in range(sequence.size())]


def value_of(option: Any) -> Any | None:
    """Return the value of a ``scala.Option``; None where it has none."""
    return option.get() if option.isDefined() else None
