"""Refuse the commit of a rewrite that would drop an equality delete which was committed after the rewrite began.

Rewritten files keep the sequence number of the start. So deletes by key that come meanwhile apply to them. Iceberg
drops deletes that are older than every data file, but for those that the commit adds. It may replace all older files.
Then a delete by key that came before newer rows goes with them, and its row is back. That is apache/iceberg#10312,
still so in 1.12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, java_array, jvm_of, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.method_handles import GUAVA, MethodHandles, method_handles

_OPERATIONS, _METADATA, _SNAPSHOT, _MANIFEST, _IO = (
    f"org.apache.iceberg.{name}"
    for name in ("TableOperations", "TableMetadata", "Snapshot", "ManifestFile", "io.FileIO")
)
_LIST, _PREDICATE, _RANGE = "java.util.List", f"{GUAVA}.base.Predicate", f"{GUAVA}.collect.Range"
_OBJECT = "java.lang.Object"
_REMOVED = "removed-equality-delete-files"


def keeping_newer_deletes(table: IcebergTable) -> Any:
    """Return the table's ``TableOperations``, for a rewrite that begins at its head.

    A commit is refused as a conflict on three conditions. It removes equality deletes. Manifests of deletes are newer
    than the start. No manifest stays that has a data file as old as the start. A commit that would lose nothing may be
    refused, too: the next try begins at a newer head.
    """
    starts, kept = _kept(table.spark)
    operations = table.java.operations()
    starts.put(operations, table.java.currentSnapshot().sequenceNumber())
    return kept(operations)


@once_a_driver
def _kept(spark: SparkSession) -> tuple[Any, Callable[[Any], Any]]:
    """Return the sequence numbers of the starts by ``TableOperations``, and what keeps newer deletes of these."""
    make, java = method_handles(spark), jvm_of(spark).java.util
    starts = java.Collections.synchronizedMap(java.WeakHashMap())
    rules = _Rules(spark, make, starts)
    commit = make.method(_OPERATIONS, "commit", "void", _METADATA, _METADATA)
    safe = make.where(rules.has_old_data, commit, rules.refused)
    checked = make.where(rules.removes, make.where(rules.has_newer_deletes, safe, commit), commit)
    return starts, make.proxies(_OPERATIONS, commit=checked)


@dataclass(frozen=True)
class _Rules:
    """Functions of the operations, of the metadata that is expected, and of the new one."""

    spark: SparkSession
    make: MethodHandles
    starts: Any

    @property
    def removes(self) -> Any:
        """A test: the newest snapshot has removed equality deletes."""
        summary = self.make.then(self._newest, self.make.method(_SNAPSHOT, "summary", "java.util.Map"))
        contains = self.make.method("java.util.Map", "containsKey", "boolean", _OBJECT)
        return self.make.dropping(
            self.make.then(summary, self.make.given(contains, 1, _REMOVED)), 0, _OPERATIONS, _METADATA
        )

    @property
    def has_newer_deletes(self) -> Any:
        """A test: manifests of deletes that are expected are newer than the start."""
        newer = self._numbered("sequenceNumber", "greaterThan", 0)
        test = self.make.collected(self.make.each_through(self._any, 1, newer), 0, self._manifests("deleteManifests"))
        return self._of_commit(test, (1, 0, 0))

    @property
    def has_old_data(self) -> Any:
        """A test: a manifest of data stays that has a file of the start, or of the one commit after it.

        Rows and deletes of that one have the same number.
        """
        predicates = f"{GUAVA}.base.Predicates"
        stays = self.make.typed(
            self.make.static(predicates, "in", _PREDICATE, "java.util.Collection"), _PREDICATE, _LIST
        )
        old = self._numbered("minSequenceNumber", "atMost", 1)
        both = self.make.static(predicates, "and", _PREDICATE, _PREDICATE, _PREDICATE)
        manifests = self._manifests("dataManifests")
        predicate = self.make.collected(self.make.each_through(both, 0, old, stays), 1, manifests)
        test = self.make.collected(self.make.collected(self._any, 1, predicate), 0, manifests)
        return self._of_commit(test, (1, 0, 0, 2, 0))

    @property
    def refused(self) -> Any:
        """The refusal."""
        error = "org.apache.iceberg.exceptions.ValidationException"
        message = "Found new equality deletes that would be dropped with the files that they apply to"
        made = class_named(self.spark, error)(message, java_array(self.spark, _OBJECT, []))
        thrown = self.make.given(self.make.throwing(error, "void"), 0, made)
        return self.make.dropping(thrown, 0, _OPERATIONS, _METADATA, _METADATA)

    def _of_commit(self, test: Any, order: Sequence[int]) -> Any:
        kind = self.make.type_of("boolean", _OPERATIONS, _METADATA, _METADATA)
        return self.make.rearranged(test, kind, order)

    @property
    def _any(self) -> Any:
        of_iterable = self.make.static(f"{GUAVA}.collect.Iterables", "any", "boolean", "java.lang.Iterable", _PREDICATE)
        return self.make.typed(of_iterable, "boolean", _LIST, _PREDICATE)

    @property
    def _newest(self) -> Any:
        return self.make.method(_METADATA, "currentSnapshot", _SNAPSHOT)

    def _manifests(self, name: str) -> Any:
        """Return the manifests of metadata and operations."""
        listed = self.make.method(_SNAPSHOT, name, _LIST, _IO)
        return self.make.each_through(listed, 0, self._newest, self.make.method(_OPERATIONS, "io", _IO))

    def _numbered(self, name: str, bound: str, more: int) -> Any:
        """Return, of operations, a predicate of manifests: whether a number is in a range from the start on."""
        make = self.make
        started = make.typed(
            make.method("java.util.Map", "get", _OBJECT, _OBJECT).bindTo(self.starts), "long", _OPERATIONS
        )
        added = make.given(make.static("java.lang.Math", "addExact", "long", "long", "long"), 1, more)
        limited = make.typed(make.static(_RANGE, bound, _RANGE, "java.lang.Comparable"), _PREDICATE, "long")
        compose = make.static(f"{GUAVA}.base.Predicates", "compose", _PREDICATE, _PREDICATE, f"{GUAVA}.base.Function")
        composed = make.given(compose, 1, make.function(make.method(_MANIFEST, name, "long")))
        return make.then(make.then(make.then(started, added), limited), composed)
