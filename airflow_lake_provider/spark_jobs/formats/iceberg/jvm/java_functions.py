"""Functions of Java made of its own methods, so that a collection is searched in the JVM.

Asked item by item through the gateway, a table of ten thousand files takes ten seconds to search. A Python callback
would need a server of the driver's own.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.java_methods import as_function, guava, load_class, method


@cache
def java_functions(spark: SparkSession) -> JavaFunctions:
    """Return those of a session, each made once."""
    return JavaFunctions(spark)


class JavaFunctions:
    """Functions over ``org.apache.iceberg`` objects.

    Each is made by ``session/java_methods.py``.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._spark, self._jvm = spark, jvm
        self._lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()

    @cached_property
    def location_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the location of its data file."""
        return self._of_task("location", load_class(self._spark, "java.lang.String"))

    @cached_property
    def rows_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of rows of its data file, deleted or not."""
        return self._of_task("recordCount", self._jvm.java.lang.Long.TYPE)

    @cached_property
    def location(self) -> Any:
        """Map a ``DataFile`` to its location."""
        text = load_class(self._spark, "java.lang.String")
        return self._function(self._method("org.apache.iceberg.ContentFile", "location", text))

    @cached_property
    def referenced_data_file(self) -> Any:
        """Map a ``DeleteFile`` to the location of the one data file it is on; null where it may be on others."""
        text, delete_file = (
            load_class(self._spark, name) for name in ("java.lang.String", "org.apache.iceberg.DeleteFile")
        )
        owner = load_class(self._spark, "org.apache.iceberg.util.ContentFileUtil")
        kind = self._jvm.java.lang.invoke.MethodType.methodType(text, delete_file)
        return self._function(self._lookup.findStatic(owner, "referencedDataFileLocation", kind))

    @cached_property
    def is_task_of_orc(self) -> Any:
        """Tell whether a ``FileScanTask`` reads an ORC file; a Guava predicate."""
        predicates = guava(self._spark).base.Predicates
        wanted = self._jvm.org.apache.iceberg.FileFormat.ORC
        kind = load_class(self._spark, "org.apache.iceberg.FileFormat")
        return predicates.compose(predicates.equalTo(wanted), self._of_task("format", kind))

    @cached_property
    def is_position_delete(self) -> Any:
        """Tell whether a ``DeleteFile`` has positions, in a file or as a vector; a Guava predicate."""
        kind = load_class(self._spark, "org.apache.iceberg.FileContent")
        content = self._function(self._method("org.apache.iceberg.ContentFile", "content", kind))
        predicates = guava(self._spark).base.Predicates
        return predicates.compose(
            predicates.equalTo(self._jvm.org.apache.iceberg.FileContent.POSITION_DELETES), content
        )

    def input_file(self, io: Any) -> Any:
        """Map a ``DeleteFile`` to its ``InputFile``.

        :param io: ``org.apache.iceberg.io.FileIO``.
        """
        delete_file = load_class(self._spark, "org.apache.iceberg.DeleteFile")
        result = load_class(self._spark, "org.apache.iceberg.io.InputFile")
        method = self._method("org.apache.iceberg.io.FileIO", "newInputFile", result, delete_file)
        return self._function(method.bindTo(io))

    def value_in(self, found: Any) -> Any:
        """Map a key of a ``java.util.Map`` to its value; null where it has none.

        :param found: the map.
        """
        anything = load_class(self._spark, "java.lang.Object")
        return self._function(self._method("java.util.Map", "get", anything, anything).bindTo(found))

    def _of_task(self, name: str, result: Any) -> Any:
        """Map a ``FileScanTask`` to what a method of its data file returns."""
        content_file = load_class(self._spark, "org.apache.iceberg.ContentFile")
        file = self._method("org.apache.iceberg.ContentScanTask", "file", content_file)
        asked = self._method("org.apache.iceberg.ContentFile", name, result)
        return self._function(self._jvm.java.lang.invoke.MethodHandles.filterReturnValue(file, asked))

    def _method(self, owner: str, name: str, result: Any, *parameters: Any) -> Any:
        return method(self._spark, owner, name, result, *parameters)

    def _function(self, handle: Any) -> Any:
        return as_function(self._spark, handle)
