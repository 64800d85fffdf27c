"""Functions of Java made of its own methods, so that a collection is searched in the JVM.

Asked item by item through the gateway, a table of ten thousand files takes ten seconds to search. A Python callback
would need a server of the driver's own.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal
from airflow_lake_provider.spark_jobs.jvm.java_methods import (
    GUAVA,
    as_function,
    guava,
    java_array,
    load_class,
    method,
    method_type,
    static_method,
)

_TASK, _FILE = "org.apache.iceberg.FileScanTask", "org.apache.iceberg.ContentFile"


@cache
def java_functions(spark: SparkSession) -> JavaFunctions:
    """Return those of a session, each made once."""
    return JavaFunctions(spark)


class JavaFunctions:
    """Functions over ``org.apache.iceberg`` objects.

    Each is made by ``spark_jobs/jvm/java_methods.py``.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._spark, self._jvm = spark, jvm
        self._handles = jvm.java.lang.invoke.MethodHandles
        self._handle_class = jvm.java.lang.invoke.MethodHandle

    @cached_property
    def location_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the location of its data file."""
        return self._of_task("location", load_class(self._spark, "java.lang.String"))

    @cached_property
    def rows_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of rows of its data file, deleted or not."""
        return self._of_task("recordCount", self._jvm.java.lang.Long.TYPE)

    @cached_property
    def metadata_location(self) -> Any:
        """Map a ``Table`` to the location of the metadata it has; null where that is not written yet."""
        text, operations, metadata = self._classes(
            "java.lang.String", "org.apache.iceberg.TableOperations", "org.apache.iceberg.TableMetadata"
        )
        current = self._then(
            self._method("org.apache.iceberg.HasTableOperations", "operations", operations),
            self._method("org.apache.iceberg.TableOperations", "current", metadata),
        )
        return self._function(
            self._then(current, self._method("org.apache.iceberg.TableMetadata", "metadataFileLocation", text))
        )

    @cached_property
    def location(self) -> Any:
        """Map a data or delete file to its location."""
        text = load_class(self._spark, "java.lang.String")
        return self._function(self._method(_FILE, "location", text))

    @cached_property
    def referenced_data_file(self) -> Any:
        """Map a ``DeleteFile`` to the location of the one data file it is on; null where it may be on others."""
        text, delete_file = self._classes("java.lang.String", "org.apache.iceberg.DeleteFile")
        owner = "org.apache.iceberg.util.ContentFileUtil"
        return self._function(static_method(self._spark, owner, "referencedDataFileLocation", text, delete_file))

    @cached_property
    def is_task_of_orc(self) -> Any:
        """Tell whether a ``FileScanTask`` reads an ORC file; a Guava predicate."""
        predicates = guava(self._spark).base.Predicates
        wanted = self._jvm.org.apache.iceberg.FileFormat.ORC
        kind = load_class(self._spark, "org.apache.iceberg.FileFormat")
        return predicates.compose(predicates.equalTo(wanted), self._of_task("format", kind))

    @cached_property
    def _is_position_delete(self) -> Any:
        """Tell whether a ``DeleteFile`` has positions, in a file or as a vector; a Guava predicate."""
        kind = load_class(self._spark, "org.apache.iceberg.FileContent")
        content = self._function(self._method(_FILE, "content", kind))
        predicates = guava(self._spark).base.Predicates
        return predicates.compose(
            predicates.equalTo(self._jvm.org.apache.iceberg.FileContent.POSITION_DELETES), content
        )

    @cached_property
    def first_of_collection(self) -> Any:
        """Map a ``java.util.Collection`` to its first item; it has one."""
        anything, iterator = self._classes("java.lang.Object", "java.util.Iterator")
        begun = self._method("java.util.Collection", "iterator", iterator)
        return self._function(self._then(begun, self._method("java.util.Iterator", "next", anything)))

    @cached_property
    def position_delete_count_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of its delete files with positions; equality deletes are others."""
        size = self._method("java.util.Collection", "size", self._jvm.java.lang.Integer.TYPE)
        return self._function(self._then(self._position_deletes, size))

    def positions_deleted_in_task(self, loader: Any) -> Any:
        """Map a ``FileScanTask`` to the positions that are deleted in its data file, a ``PositionDeleteIndex``.

        :param loader: ``org.apache.iceberg.data.BaseDeleteLoader``; it reads the delete files of a task it is given.
        """
        return self._function(self._loading.bindTo(loader))

    def input_file(self, io: Any) -> Any:
        """Map a ``DeleteFile`` to its ``InputFile``.

        :param io: ``org.apache.iceberg.io.FileIO``.
        """
        return self._function(self._new_input_file.bindTo(io))

    def value_in(self, found: Any) -> Any:
        """Map a key of a ``java.util.Map`` to its value; null where it has none.

        :param found: the map.
        """
        return self._function(self._value.bindTo(found))

    @cached_property
    def add_deletes(self) -> Any:
        """Handle of ``RowDelta.addDeletes``, to be bound to one and given delete files."""
        return self._of_row_delta("addDeletes")

    @cached_property
    def remove_deletes(self) -> Any:
        """Handle of ``RowDelta.removeDeletes``, to be bound to one and given delete files."""
        return self._of_row_delta("removeDeletes")

    def _of_row_delta(self, name: str) -> Any:
        row_delta, delete_file = self._classes("org.apache.iceberg.RowDelta", "org.apache.iceberg.DeleteFile")
        return self._method("org.apache.iceberg.RowDelta", name, row_delta, delete_file)

    @cached_property
    def _new_input_file(self) -> Any:
        input_file, delete_file = self._classes("org.apache.iceberg.io.InputFile", "org.apache.iceberg.DeleteFile")
        return self._method("org.apache.iceberg.io.FileIO", "newInputFile", input_file, delete_file)

    @cached_property
    def _value(self) -> Any:
        anything = load_class(self._spark, "java.lang.Object")
        return self._method("java.util.Map", "get", anything, anything)

    @cached_property
    def _position_deletes(self) -> Any:
        """Handle from a ``FileScanTask`` to a collection of its delete files with positions."""
        task, listed, collection = self._classes(_TASK, "java.util.List", "java.util.Collection")
        predicate = load_class(self._spark, f"{GUAVA}.base.Predicate")
        deletes = self._method(_TASK, "deletes", listed).asType(method_type(self._spark, collection, task))
        owner = f"{GUAVA}.collect.Collections2"
        filtered = static_method(self._spark, owner, "filter", collection, collection, predicate)
        wanted = java_array(self._spark, self._jvm.java.lang.Object, [self._is_position_delete])
        return self._then(deletes, self._handles.insertArguments(filtered, 1, wanted))

    @cached_property
    def _loading(self) -> Any:
        """Handle from a ``BaseDeleteLoader`` and a ``FileScanTask`` to a ``PositionDeleteIndex``."""
        loader, task, index = self._classes(Internal.DELETE_LOADER, _TASK, Internal.POSITION_INDEX)
        listed, text = self._classes("java.lang.Iterable", "java.lang.CharSequence")
        location = self._of_file("location", load_class(self._spark, "java.lang.String"))
        parts = [
            self._position_deletes.asType(method_type(self._spark, listed, task)),
            location.asType(method_type(self._spark, text, task)),
        ]
        load = self._method(Internal.DELETE_LOADER, "loadPositionDeletes", index, listed, text)
        of_parts = self._handles.filterArguments(load, 1, java_array(self._spark, self._handle_class, parts))
        order = java_array(self._spark, self._jvm.int, [0, 1, 1])
        return self._handles.permuteArguments(of_parts, method_type(self._spark, index, loader, task), order)

    def _of_task(self, name: str, result: Any) -> Any:
        """Map a ``FileScanTask`` to what a method of its data file returns."""
        return self._function(self._of_file(name, result))

    def _of_file(self, name: str, result: Any) -> Any:
        """Handle from a ``ContentScanTask`` to what a method of its file returns."""
        file = self._method("org.apache.iceberg.ContentScanTask", "file", load_class(self._spark, _FILE))
        return self._then(file, self._method(_FILE, name, result))

    def _then(self, handle: Any, next_one: Any) -> Any:
        return self._handles.filterReturnValue(handle, next_one)

    def _classes(self, *names: str) -> list[Any]:
        return [load_class(self._spark, name) for name in names]

    def _method(self, owner: str, name: str, result: Any, *parameters: Any) -> Any:
        return method(self._spark, owner, name, result, *parameters)

    def _function(self, handle: Any) -> Any:
        return as_function(self._spark, handle)
