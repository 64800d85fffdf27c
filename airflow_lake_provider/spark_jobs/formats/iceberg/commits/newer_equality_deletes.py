"""Refuse the commit of a rewrite that would drop an equality delete which was committed after the rewrite began.

Rewritten files keep the sequence number of the start. So deletes by key that come meanwhile apply to them. Iceberg
drops deletes that are older than every data file, but for those that the commit adds. It may replace all older files.
Then a delete by key that came before newer rows goes with them, and its row is back. That is apache/iceberg#10312,
still so in 1.12.
"""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava
from airflow_lake_provider.spark_jobs.jvm.method_handles import GUAVA, MethodHandles, method_handles

_OPERATIONS, _METADATA, _SNAPSHOT, _MANIFEST, _IO = (
    f"org.apache.iceberg.{name}"
    for name in ("TableOperations", "TableMetadata", "Snapshot", "ManifestFile", "io.FileIO")
)
_LIST, _PREDICATE, _RANGE = "java.util.List", f"{GUAVA}.base.Predicate", f"{GUAVA}.collect.Range"
_REMOVED = "removed-equality-delete-files"


def keeping_newer_deletes(table: IcebergTable) -> Any:
    """Return the table's ``TableOperations``, for a rewrite that begins at its head.

    A commit is refused as a conflict on three conditions. It removes equality deletes. Manifests of deletes are newer
    than the start. No manifest stays that has a data file as old as the start. A commit that would lose nothing may be
    refused, too: the next try begins at a newer head.
    """
    make, operations = method_handles(table.spark), table.java.operations()
    start = int(table.java.currentSnapshot().sequenceNumber())
    commit = make.method(_OPERATIONS, "commit", "void", _METADATA, _METADATA).bindTo(operations)
    removes = make.dropping(_removes(make), 0, _METADATA)
    # Only one commit lies between: its rows and its deletes have the same number.
    safe = make.where(_has_old_data(table, make, start + 1), commit, _refused(table, make))
    checked = make.where(removes, make.where(_has_newer_deletes(table, make, start), safe, commit), commit)
    return make.proxy(_OPERATIONS, operations, commit=checked)


def _removes(make: MethodHandles) -> Any:
    """Return a test of the new metadata: whether its newest snapshot has removed equality deletes."""
    summary = make.then(_newest(make), make.method(_SNAPSHOT, "summary", "java.util.Map"))
    contains = make.method("java.util.Map", "containsKey", "boolean", "java.lang.Object")
    return make.then(summary, make.given(contains, 1, _REMOVED))


def _has_newer_deletes(table: IcebergTable, make: MethodHandles, start: int) -> Any:
    """Return a test of the expected metadata: whether manifests of deletes are newer than the start."""
    newer = _numbered(table, make, "sequenceNumber", "greaterThan", start)
    return make.then(_manifests(table, make, "deleteManifests"), make.given(_any(make), 1, newer))


def _has_old_data(table: IcebergTable, make: MethodHandles, number: int) -> Any:
    """Return a test of both: whether a manifest of data stays that has a file not newer than a number."""
    predicates = f"{GUAVA}.base.Predicates"
    stays = make.typed(make.static(predicates, "in", _PREDICATE, "java.util.Collection"), _PREDICATE, _LIST)
    both = make.static(predicates, "and", _PREDICATE, _PREDICATE, _PREDICATE)
    old = make.given(both, 0, _numbered(table, make, "minSequenceNumber", "atMost", number))
    manifests = _manifests(table, make, "dataManifests")
    return make.each_through(_any(make), 0, manifests, make.then(make.then(manifests, stays), old))


def _any(make: MethodHandles) -> Any:
    of_iterable = make.static(f"{GUAVA}.collect.Iterables", "any", "boolean", "java.lang.Iterable", _PREDICATE)
    return make.typed(of_iterable, "boolean", _LIST, _PREDICATE)


def _numbered(table: IcebergTable, make: MethodHandles, name: str, bound: str, number: int) -> Any:
    """Return a predicate of manifests: whether a number of theirs is in a range."""
    of_number = make.typed(make.static(_RANGE, bound, _RANGE, "java.lang.Comparable"), _RANGE, "long")
    numbers = make.function(make.method(_MANIFEST, name, "long"))
    return guava(table.spark).base.Predicates.compose(make.call(of_number, number), numbers)


def _manifests(table: IcebergTable, make: MethodHandles, name: str) -> Any:
    listed = make.method(_SNAPSHOT, name, _LIST, _IO)
    return make.then(_newest(make), make.given(listed, 1, table.java.io()))


def _newest(make: MethodHandles) -> Any:
    return make.method(_METADATA, "currentSnapshot", _SNAPSHOT)


def _refused(table: IcebergTable, make: MethodHandles) -> Any:
    jvm = jvm_of(table.spark)
    message = "Found new equality deletes that would be dropped with the files that they apply to"
    error = jvm.org.apache.iceberg.exceptions.ValidationException(
        message, java_array(table.spark, "java.lang.Object", [])
    )
    thrown = make.given(make.throwing("org.apache.iceberg.exceptions.ValidationException", "void"), 0, error)
    return make.dropping(thrown, 0, _METADATA, _METADATA)
