"""Functions of Java over Iceberg's objects, so that a collection of files or tasks is searched in the JVM."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal
from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava
from airflow_lake_provider.spark_jobs.jvm.method_handles import GUAVA, method_handles

_TASK, _FILE, _DELETE = (f"org.apache.iceberg.{name}" for name in ("FileScanTask", "ContentFile", "DeleteFile"))
_MANIFEST = "org.apache.iceberg.ManifestFile"
_OBJECT, _TEXT, _COLLECTION = "java.lang.Object", "java.lang.String", "java.util.Collection"
_STREAMS = ("stream.Stream", "stream.LongStream", "function.ToLongFunction")


@once_a_driver
def java_functions(spark: SparkSession) -> JavaFunctions:
    """Return those of the driver's JVM, each made once."""
    return JavaFunctions(spark)


class JavaFunctions:
    """Functions over ``org.apache.iceberg`` objects, made of :class:`MethodHandles`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._make = method_handles(spark)

    @cached_property
    def location_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the location of its data file."""
        return self._of_task("location", _TEXT)

    @cached_property
    def rows_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of rows of its data file, deleted or not."""
        return self._of_task("recordCount", "long")

    @cached_property
    def sequence_number_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the data sequence number of its data file."""
        return self._of_task("dataSequenceNumber", "java.lang.Long")

    @cached_property
    def first_row_id_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the first row id of its data file, as text; ``null`` for none."""
        return self.of_task("firstRowId", "java.lang.Long")

    @cached_property
    def format_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the format of its data file, such as ``PARQUET``."""
        return self.of_task("format", "org.apache.iceberg.FileFormat")

    def of_task(self, name: str, result: str) -> Any:
        """Map a ``FileScanTask`` to what a method of its data file returns, as text; ``null`` for none."""
        return self._make.function(self._as_text(self._of_file(name, result)))

    def of_part(self, name: str) -> Any:
        """Map a ``FileScanTask`` to a number of its own, such as its start."""
        return self._make.function(self._make.method("org.apache.iceberg.ContentScanTask", name, "long"))

    @cached_property
    def listed_deletes_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the list of its delete files."""
        return self._make.function(self._make.method(_TASK, "deletes", "java.util.List"))

    @cached_property
    def delete_count_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of its delete files."""
        deletes = self._make.typed(self._make.method(_TASK, "deletes", "java.util.List"), _COLLECTION, _TASK)
        return self._make.function(self._make.then(deletes, self._make.method(_COLLECTION, "size", "int")))

    @cached_property
    def deletes_of_task(self) -> Any:
        """Map a ``FileScanTask`` to a text of its delete files, which is another one of others."""
        listed = self._make.typed(self._make.method(_TASK, "deletes", "java.util.List"), _OBJECT, _TASK)
        return self._make.function(self._make.then(listed, self._make.method(_OBJECT, "toString", _TEXT)))

    @cached_property
    def digest_of_deletes(self) -> Any:
        """Map a ``FileScanTask`` to a digest of its delete files in any order: of their locations and offsets.

        Vectors share Puffin files. Of an equality delete, which is on every older file, each task has the location.
        """
        texts = self._make.method(_TEXT, "concat", _TEXT, _TEXT)
        offset = self._as_text(self._make.method(_DELETE, "contentOffset", "java.lang.Long"))
        location = self._make.typed(self._make.method(_FILE, "location", _TEXT), _TEXT, _DELETE)
        both = self._make.each_through(texts, 0, offset, location)
        of_delete = self._make.rearranged(both, self._make.type_of(_TEXT, _DELETE), [0, 0])
        lists, function = f"{GUAVA}.collect.Lists", f"{GUAVA}.base.Function"
        transform = self._make.static(lists, "transform", "java.util.List", "java.util.List", function)
        listed = self._make.given(transform, 1, self._make.function(of_delete))
        ordering, order = f"{GUAVA}.collect.Ordering", guava(self._spark).collect.Ordering.natural()
        ordered = self._make.method(ordering, "sortedCopy", "java.util.List", "java.lang.Iterable").bindTo(order)
        ordered = self._make.typed(ordered, _OBJECT, "java.util.List")
        text = self._make.then(self._make.then(listed, ordered), self._make.method(_OBJECT, "toString", _TEXT))
        deletes = self._make.method(_TASK, "deletes", "java.util.List")
        return self._make.function(self._make.then(self._make.then(deletes, text), self._sha256))

    @cached_property
    def deleted_rows_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of entries of its delete files."""
        stream, numbers, function = (f"java.util.{name}" for name in _STREAMS)
        deletes = self._make.typed(self._make.method(_TASK, "deletes", "java.util.List"), _COLLECTION, _TASK)
        streamed = self._make.then(deletes, self._make.method(_COLLECTION, "stream", stream))
        count = self._make.instance(function, self._make.method(_FILE, "recordCount", "long"))
        counts = self._make.given(self._make.method(stream, "mapToLong", numbers, function), 1, count)
        total = self._make.then(counts, self._make.method(numbers, "sum", "long"))
        return self._make.function(self._make.then(streamed, total))

    @cached_property
    def _sha256(self) -> Any:
        """Handle from a text to its digest, in hexadecimal digits."""
        owner, code, charset = f"{GUAVA}.hash.HashFunction", f"{GUAVA}.hash.HashCode", "java.nio.charset.Charset"
        digest = self._make.method(owner, "hashString", code, "java.lang.CharSequence", charset)
        digest = digest.bindTo(guava(self._spark).hash.Hashing.sha256())
        utf_8 = class_named(self._spark, "java.nio.charset.StandardCharsets").UTF_8
        of_text = self._make.typed(self._make.given(digest, 1, utf_8), _OBJECT, _TEXT)
        return self._make.then(of_text, self._make.method(_OBJECT, "toString", _TEXT))

    @cached_property
    def metadata_location(self) -> Any:
        """Map a ``Table`` to the location of the metadata it has; null where that is not written yet."""
        operations, metadata = "org.apache.iceberg.TableOperations", "org.apache.iceberg.TableMetadata"
        current = self._make.then(
            self._make.method("org.apache.iceberg.HasTableOperations", "operations", operations),
            self._make.method(operations, "current", metadata),
        )
        location = self._make.method(metadata, "metadataFileLocation", _TEXT)
        return self._make.function(self._make.then(current, location))

    @cached_property
    def location(self) -> Any:
        """Map a data or delete file to its location."""
        return self._make.function(self._make.method(_FILE, "location", _TEXT))

    def of_file(self, name: str, result: str) -> Any:
        """Map a data or delete file to what one of its methods returns, as text; ``null`` for none."""
        return self._make.function(self._as_text(self._make.method(_FILE, name, result)))

    def of_delete(self, name: str) -> Any:
        """Map a ``DeleteFile`` to a number of its own, such as the offset of a vector; ``null`` for none."""
        return self._make.function(self._as_text(self._make.method(_DELETE, name, "java.lang.Long")))

    @cached_property
    def table_name(self) -> Any:
        """Map a ``TableIdentifier`` to the table's name without its namespace."""
        return self._make.function(self._make.method("org.apache.iceberg.catalog.TableIdentifier", "name", _TEXT))

    @cached_property
    def snapshot_id(self) -> Any:
        """Map a ``Snapshot`` to its id."""
        return self._make.function(self._make.method("org.apache.iceberg.Snapshot", "snapshotId", "long"))

    @cached_property
    def spec_id_of_manifest(self) -> Any:
        """Map a ``ManifestFile`` to the id of its partition spec."""
        return self._make.function(self._make.method(_MANIFEST, "partitionSpecId", "int"))

    @cached_property
    def path_of_manifest(self) -> Any:
        """Map a ``ManifestFile`` to its location."""
        return self._make.function(self._make.method(_MANIFEST, "path", _TEXT))

    @cached_property
    def bytes_of_manifest(self) -> Any:
        """Map a ``ManifestFile`` to its length."""
        return self._make.function(self._make.method(_MANIFEST, "length", "long"))

    def of_manifest(self, name: str, kind: str = "Integer") -> Any:
        """Map a ``ManifestFile`` to a number, such as that of files added; ``null`` where it does not say."""
        return self._make.function(self._as_text(self._make.method(_MANIFEST, name, f"java.lang.{kind}")))

    def is_of_spec(self, spec_id: int) -> Any:
        """Tell whether a ``ManifestFile`` is of a partition spec; a Guava predicate."""
        return self._equal(spec_id, self.spec_id_of_manifest)

    @cached_property
    def spec_id(self) -> Any:
        """Map a data or delete file to the id of its partition spec."""
        return self._make.function(self._make.method(_FILE, "specId", "int"))

    def of_listed_file(self, name: str, result: str) -> Any:
        """Map a ``FileInfo`` of a listing to what one of its methods returns."""
        return self._make.function(self._make.method("org.apache.iceberg.io.FileInfo", name, result))

    @cached_property
    def referenced_data_file(self) -> Any:
        """Map a ``DeleteFile`` to the location of the one data file it is on; null where it may be on others."""
        owner = "org.apache.iceberg.util.ContentFileUtil"
        return self._make.function(self._make.static(owner, "referencedDataFileLocation", _TEXT, _DELETE))

    @cached_property
    def is_task_of_orc(self) -> Any:
        """Tell whether a ``FileScanTask`` reads an ORC file; a Guava predicate."""
        kind = "org.apache.iceberg.FileFormat"
        return self._equal(class_named(self._spark, kind).ORC, self._of_task("format", kind))

    def is_task_within(self, strict: Any, column: int) -> Any:
        """Tell whether every row of a ``FileScanTask`` satisfies its scan's filter; a Guava predicate.

        The partition alone proves it, or the bounds of the file do. The evaluator takes a column for one without nulls
        where the file counts those of others alone.

        :param strict: ``org.apache.iceberg.expressions.StrictMetricsEvaluator`` of the filter.
        :param column: field id of the one column of the filter.
        """
        scan = "org.apache.iceberg.ContentScanTask"
        file = self._make.method(scan, "file", _FILE)
        counts = self._make.then(file, self._make.method(_FILE, "nullValueCounts", "java.util.Map"))
        contains = self._make.given(self._make.method("java.util.Map", "containsKey", "boolean", _OBJECT), 1, column)
        predicates = guava(self._spark).base.Predicates
        # Of a file without rows there may be no counts at all.
        has_count = self._make.where_instance("java.util.Map", self._make.typed(contains, "boolean", _OBJECT))
        of_counts = self._make.typed(counts, _OBJECT, scan)
        counted = self._equal(True, self._make.function(self._make.then(of_counts, has_count)))
        return getattr(predicates, "or")(
            self.is_partition_of_task_within,
            getattr(predicates, "and")(self.are_bounds_of_task_within(strict), counted),
        )

    def are_bounds_of_task_within(self, strict: Any) -> Any:
        """Tell whether the bounds of the file of a ``FileScanTask`` prove that of values; a Guava predicate.

        :param strict: ``org.apache.iceberg.expressions.StrictMetricsEvaluator`` of the filter.
        """
        owner = "org.apache.iceberg.expressions.StrictMetricsEvaluator"
        within = self._make.method(owner, "eval", "boolean", _FILE).bindTo(strict)
        file = self._make.method("org.apache.iceberg.ContentScanTask", "file", _FILE)
        return self._equal(True, self._make.function(self._make.then(file, within)))

    @cached_property
    def is_partition_of_task_within(self) -> Any:
        """Tell whether the partition of a ``FileScanTask`` proves that every row satisfies its scan's filter; a Guava
        predicate.
        """
        expression = "org.apache.iceberg.expressions.Expression"
        operation = f"{expression}$Operation"
        residual = self._make.then(
            self._make.method("org.apache.iceberg.ContentScanTask", "residual", expression),
            self._make.method(expression, "op", operation),
        )
        return self._equal(class_named(self._spark, operation).TRUE, self._make.function(residual))

    def is_task_of_spec(self, spec_id: int) -> Any:
        """Tell whether the data file of a ``FileScanTask`` is of a partition spec; a Guava predicate."""
        return self._equal(spec_id, self._of_task("specId", "int"))

    @cached_property
    def _is_position_delete(self) -> Any:
        """Tell whether a ``DeleteFile`` has positions, in a file or as a vector; a Guava predicate."""
        kind = "org.apache.iceberg.FileContent"
        content = self._make.function(self._make.method(_FILE, "content", kind))
        return self._equal(class_named(self._spark, kind).POSITION_DELETES, content)

    @cached_property
    def first_of_collection(self) -> Any:
        """Map a ``java.util.Collection`` to its first item; it has one."""
        begun = self._make.method(_COLLECTION, "iterator", "java.util.Iterator")
        return self._make.function(self._make.then(begun, self._make.method("java.util.Iterator", "next", _OBJECT)))

    @cached_property
    def position_delete_count_of_task(self) -> Any:
        """Map a ``FileScanTask`` to the number of its delete files with positions; equality deletes are others."""
        size = self._make.method(_COLLECTION, "size", "int")
        return self._make.function(self._make.then(self._position_deletes, size))

    def positions_deleted_in_task(self, loader: Any) -> Any:
        """Map a ``FileScanTask`` to the positions that are deleted in its data file, a ``PositionDeleteIndex``.

        :param loader: ``org.apache.iceberg.data.BaseDeleteLoader``; it reads the delete files of a task it is given.
        """
        return self._make.function(self._loading.bindTo(loader))

    def input_file(self, io: Any) -> Any:
        """Map a ``DeleteFile`` to its ``InputFile``."""
        return self._make.function(self._new_input_file.bindTo(io))

    def value_in(self, java_map: Any) -> Any:
        """Map a key of a ``java.util.Map`` to its value; null where it has none."""
        return self._make.function(self._value.bindTo(java_map))

    @cached_property
    def add_deletes(self) -> Any:
        """Handle of ``RowDelta.addDeletes``, to be bound to one and given delete files."""
        return self._of_row_delta("addDeletes")

    @cached_property
    def remove_deletes(self) -> Any:
        """Handle of ``RowDelta.removeDeletes``, to be bound to one and given delete files."""
        return self._of_row_delta("removeDeletes")

    def _of_row_delta(self, name: str) -> Any:
        return self._make.method("org.apache.iceberg.RowDelta", name, "org.apache.iceberg.RowDelta", _DELETE)

    @cached_property
    def _new_input_file(self) -> Any:
        return self._make.method(
            "org.apache.iceberg.io.FileIO", "newInputFile", "org.apache.iceberg.io.InputFile", _DELETE
        )

    @cached_property
    def _value(self) -> Any:
        return self._make.method("java.util.Map", "get", _OBJECT, _OBJECT)

    @cached_property
    def _position_deletes(self) -> Any:
        """Handle from a ``FileScanTask`` to a collection of its delete files with positions."""
        deletes = self._make.typed(self._make.method(_TASK, "deletes", "java.util.List"), _COLLECTION, _TASK)
        owner, predicate = f"{GUAVA}.collect.Collections2", f"{GUAVA}.base.Predicate"
        filtered = self._make.static(owner, "filter", _COLLECTION, _COLLECTION, predicate)
        return self._make.then(deletes, self._make.given(filtered, 1, self._is_position_delete))

    @cached_property
    def _loading(self) -> Any:
        """Handle from a ``BaseDeleteLoader`` and a ``FileScanTask`` to a ``PositionDeleteIndex``."""
        loader, index, listed, text = (
            *(Internal.DELETE_LOADER, Internal.POSITION_INDEX),
            *("java.lang.Iterable", "java.lang.CharSequence"),
        )
        of_parts = self._make.each_through(
            self._make.method(loader, "loadPositionDeletes", index, listed, text),
            1,
            self._make.typed(self._position_deletes, listed, _TASK),
            self._make.typed(self._of_file("location", _TEXT), text, _TASK),
        )
        return self._make.rearranged(of_parts, self._make.type_of(index, loader, _TASK), [0, 1, 1])

    def _as_text(self, handle: Any) -> Any:
        boxed = handle.asType(handle.type().changeReturnType(self._make.class_of(_OBJECT)))
        return self._make.then(boxed, self._make.static(_TEXT, "valueOf", _TEXT, _OBJECT))

    def _equal(self, wanted: Any, function: Any) -> Any:
        predicates = guava(self._spark).base.Predicates
        return predicates.compose(predicates.equalTo(wanted), function)

    def _of_task(self, name: str, result: str) -> Any:
        """Map a ``FileScanTask`` to what a method of its data file returns."""
        return self._make.function(self._of_file(name, result))

    def _of_file(self, name: str, result: str) -> Any:
        """Handle from a ``ContentScanTask`` to what a method of its file returns."""
        file = self._make.method("org.apache.iceberg.ContentScanTask", "file", _FILE)
        return self._make.then(file, self._make.method(_FILE, name, result))
