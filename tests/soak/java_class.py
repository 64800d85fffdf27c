"""Java of the tests, compiled by the compiler that Spark brings, into the class loader that has Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, source: Path, name: str) -> Any:
    """Return a class of a file of Java, which is compiled once for each JVM.

    :param name: of the class, with its package.
    """
    jvm: Any = spark._jvm
    context = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    # A driver of a database serves those only whose class loader sees it.
    loader = jvm.java.lang.Class.forName("org.apache.iceberg.jdbc.JdbcClientPool", True, context).getClassLoader()
    try:
        jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source.read_text())
        classes = dict(compiler.getBytecodes())
        # A class that another one extends comes before it.
        for found in sorted(classes, key=lambda found: not found.endswith("Passing")):
            _define(jvm, spark, loader, found, classes[found])
    found_class: Any = jvm
    for part in name.split("."):
        found_class = getattr(found_class, part)
    return found_class


def _define(jvm: Any, spark: SparkSession, loader: Any, name: str, code: bytes) -> None:
    gateway: Any = spark.sparkContext._gateway
    given = gateway.new_array(jvm.java.lang.Object, 4)
    given[0], given[1], given[2], given[3] = name, code, 0, len(code)
    for method in jvm.java.lang.Class.forName("java.lang.ClassLoader").getDeclaredMethods():
        if method.getName() == "defineClass" and method.getParameterCount() == len(given):
            method.setAccessible(True)
            method.invoke(loader, given)
            return
