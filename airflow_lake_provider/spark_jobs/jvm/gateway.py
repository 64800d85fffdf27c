"""The JVM of a session: its packages and classes, arrays, and the Java objects behind PySpark's own.

py4j and PySpark's private attributes are known in this folder only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import wraps
from operator import attrgetter
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.sql import Column, DataFrame, SparkSession

from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError, java_messages, java_names

_Made = TypeVar("_Made")
_Given = ParamSpec("_Given")


def once_a_driver(
    make: Callable[Concatenate[SparkSession, _Given], _Made],
) -> Callable[Concatenate[SparkSession, _Given], _Made]:
    """Keep what a function makes of a session and hashable arguments, for all sessions and threads of the driver."""
    kept: dict[tuple[SparkContext, tuple[Any, ...]], _Made] = {}
    lock = RLock()

    @wraps(make)
    def made(spark: SparkSession, /, *arguments: _Given.args, **named: _Given.kwargs) -> _Made:
        key = (spark.sparkContext, (*arguments, *named.items()))
        if key not in kept:
            with lock:
                if key not in kept:
                    kept[key] = make(spark, *arguments, **named)
        return kept[key]

    return made


def jvm_of(spark: SparkSession) -> Any:
    """Return the JVM; its attributes are packages, as in ``jvm_of(spark).java.util.ArrayList()``."""
    return spark._jvm


def java_session(spark: SparkSession) -> Any:
    """Return the ``org.apache.spark.sql.SparkSession``."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> Any:
    """Return the ``org.apache.spark.SparkContext``."""
    return spark.sparkContext._jsc.sc()


def java_rows(rows: DataFrame) -> Any:
    """Return the ``org.apache.spark.sql.Dataset``."""
    return rows._jdf


def java_column(column: Column) -> Any:
    """Return the ``org.apache.spark.sql.Column``."""
    java: Any = column
    return java._jc


def hadoop_settings(spark: SparkSession) -> Any:
    """Return the ``org.apache.hadoop.conf.Configuration`` of the driver."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def opened_file(spark: SparkSession, location: str) -> closing[Any]:
    """Open a file of any scheme that Hadoop can read, an ``org.apache.hadoop.fs.FSDataInputStream``.

    :raises JavaError: it is not there, or cannot be read.
    """
    path = jvm_of(spark).org.apache.hadoop.fs.Path(location)
    return closing(path.getFileSystem(hadoop_settings(spark)).open(path))


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return every setting that somebody has given the session; PySpark 3.5 lists none."""
    listed = str(java_session(spark).conf().getAll().mkString("\0")).split("\0")
    # As Scala writes an entry of a map.
    return {name: value for name, _, value in (entry.partition(" -> ") for entry in listed)}


def submitted_settings() -> SparkConf:
    """Return the settings that ``spark-submit`` was given, before there is a session."""
    # Before there is a JVM, PySpark knows none of them, and says that nobody has given any.
    SparkContext._ensure_initialized()
    return SparkConf()


def submitted_hadoop() -> tuple[Any, Any]:
    """Return the JVM, and Hadoop's configuration by the settings that ``spark-submit`` was given; without a session."""
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    return jvm, jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())


def unreadable_settings(context: SparkContext, settings: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting of Spark SQL whose value Spark cannot read, and what it says of it.

    :param context: needs no session; one with such a setting hangs, as PySpark reads settings to word each error.
    """
    jvm: Any = context._jvm
    read = jvm.org.apache.spark.sql.internal.SQLConf()
    for name, value in settings:
        if name.startswith("spark.sql."):
            try:
                read.setConfString(name, value)
            except SPARK_ERRORS as error:
                yield name, java_messages(error)[0][1]


def is_java(value: object) -> bool:
    """Tell whether a value is an object of Java."""
    return isinstance(value, JavaObject)


def class_named(spark: SparkSession, name: str) -> Any:
    """Return a class by its full name, as py4j has it, to be called for an object or asked for static methods."""
    return attrgetter(name)(jvm_of(spark))


@once_a_driver
def load_class(spark: SparkSession, name: str) -> Any:
    """Return the ``java.lang.Class`` of a full name, one of the jars given to the session included."""
    lang = jvm_of(spark).java.lang
    return lang.Class.forName(name, True, lang.Thread.currentThread().getContextClassLoader())


@once_a_driver
def has_class(spark: SparkSession, name: str) -> bool:
    """Tell whether a class is there by its full name, of Spark or of a jar."""
    try:
        load_class(spark, name)
    except JavaError as error:
        if java_names(error)[:1] == ["ClassNotFoundException"]:
            return False
        raise
    return True


def java_array(spark: SparkSession, kind: str, items: Sequence[Any]) -> Any:
    """Return items as an array of Java, which is what a method with any number of arguments takes.

    :param kind: full name of the items' class, or ``"int"``.
    """
    array = empty_array(spark, kind, len(items))
    for place, item in enumerate(items):
        array[place] = item
    return array


def empty_array(spark: SparkSession, kind: str, size: int) -> Any:
    """Return an array of Java with nothing in its places; see :func:`java_array`."""
    gateway: Any = spark.sparkContext._gateway
    return gateway.new_array(class_named(spark, kind), size)
