"""Names of the JVM, each looked up once.

``sf.col("id")`` asks the JVM three times: for the class ``functions``, for its method ``col``, then for the column.
The first two answers are always the same, and a batch of change events makes some 800 columns.
``jvm.org.apache.iceberg.Files`` asks four times. Each package is looked for as a class, in all jars, and not found.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

# What PySpark and our modules ask for first: packages, and classes that PySpark imports.
_ROOTS = ("com", "java", "org", "py4j", "scala")
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")


class _Remembered:
    """A package with its classes, or a class with its static methods."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if isinstance(member, JavaPackage):
            if name[:1].isupper():
                # A class that is not there; its jar may be added later.
                return member
            member = _Remembered(member)
        setattr(self, name, member)
        return member

    def __call__(self, *arguments: Any) -> Any:
        # PySpark reads the error of a package that is called.
        return self._found(*arguments)


def remember_lookups(spark: SparkSession) -> None:
    """Keep what the session's view of the JVM is asked for.

    An attribute of the view is found before the view asks the JVM. Other names are looked up as before.
    """
    jvm: Any = spark._jvm
    for name in (*_ROOTS, *_CLASSES):
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))
