"""Live equality deletes of a snapshot, and the data files whose rows they may delete."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_lake_provider.iceberg.table_obstacles import specs_without_source, with_place_columns
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import POSITIONS, missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of_texts

_OF_DATA = ("content", "file_path", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes")
_EQUALITY = "EQUALITY_DELETES"
# Types whose values are equal in Spark where they are in Iceberg. The table spec rules floats out of delete keys.
_KEY_TYPES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary", "uuid")
_SIZED_KEY_TYPES = ("decimal(", "fixed[")
NO_PARTITION = -1


@dataclass(frozen=True, kw_only=True)
class KeyedDeletes:
    """Equality delete files with the same key columns.

    :param keys: names that the columns have now.
    :param is_global: of an unpartitioned spec, so that they apply to files of every partition.
    :param files: ``org.apache.iceberg.DeleteFile`` objects.
    """

    keys: tuple[str, ...]
    is_global: bool
    files: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class SnapshotFiles:
    """Files of a snapshot by its manifests: not a scan, which gives each data file a list of all deletes on it."""

    table: IcebergTable
    snapshot: Any

    @cached_property
    def data(self) -> JavaItems:
        """The ``org.apache.iceberg.DataFile`` objects, without metrics."""
        columns = list_of_texts(self.table.spark, _OF_DATA)
        read = self.table.iceberg.ManifestFiles.read
        manifests = self.snapshot.dataManifests(self.table.java.io())
        return self._files(manifests, lambda *given: read(*given).select(columns))

    @cached_property
    def deletes(self) -> JavaItems:
        """The ``org.apache.iceberg.DeleteFile`` objects."""
        manifests = self.snapshot.deleteManifests(self.table.java.io())
        return self._files(manifests, self.table.iceberg.ManifestFiles.readDeleteManifest)

    @cached_property
    def equality_deletes(self) -> list[Any]:
        """Those of ``deletes`` that delete by key."""
        return [file for file, is_equality in self._with_content() if is_equality]

    @cached_property
    def position_deletes(self) -> list[Any]:
        """Those of ``deletes`` that delete by position."""
        return [file for file, is_equality in self._with_content() if not is_equality]

    @cached_property
    def paths(self) -> list[str]:
        """Paths of ``data``."""
        return self.data.texts(java_functions(self.table.spark).location)

    def texts(self, name: str, kind: str, files: JavaItems | None = None) -> list[str]:
        """Return what a method of each data file returns, as text."""
        return (files or self.data).texts(java_functions(self.table.spark).of_file(name, kind))

    def _with_content(self) -> Iterable[tuple[Any, bool]]:
        contents = self.texts("content", "org.apache.iceberg.FileContent", self.deletes) if self.deletes else []
        return zip(self.deletes, (content == _EQUALITY for content in contents), strict=True)

    def _files(self, manifests: Any, read: Callable[..., Any]) -> JavaItems:
        spark, java = self.table.spark, self.table.java
        listed = jvm_of(spark).java.util.ArrayList()
        for manifest in manifests:
            with closing(read(manifest, java.io(), java.specs())) as reader:
                guava(spark).collect.Iterables.addAll(listed, reader)
        return JavaItems(spark, listed)


def conversion_obstacle(table: IcebergTable, files: SnapshotFiles) -> str | None:
    """Return why no equality delete of a table is converted; None where they may be."""
    if missing := missing_internals(table.spark, POSITIONS):
        return f"this Iceberg has no {missing[0]}"
    if encrypted := next((name for name in table.properties() if name.startswith("encryption.")), None):
        return f"property {encrypted!r} encrypts files"
    if (why := with_place_columns(table.facts.shape)) is not None:
        return why
    if lost := specs_without_source(table.facts.shape):
        return f"the column of partition field {next(iter(lost.values()))!r} was dropped"
    if files.data and "ORC" in files.texts("format", "org.apache.iceberg.FileFormat"):
        # Iceberg does not read rows of ORC with their positions.
        return "data files are orc"
    if len(set(files.paths)) < len(files.paths):
        return "a data file was added more than once"
    if table.format_version >= 3 and not are_on_one_file_each(table, files.position_deletes):
        return "position deletes of whole partitions lie on a table of version 3"
    return None


def are_on_one_file_each(table: IcebergTable, deletes: Sequence[Any]) -> bool:
    """Tell whether each position delete is on one data file, so that a vector can take its place."""
    return all(table.iceberg.util.ContentFileUtil.isFileScoped(file) for file in deletes)


def keyed_deletes(table: IcebergTable, deletes: Sequence[Any]) -> tuple[list[KeyedDeletes], Counter[str]]:
    """Return equality deletes by their key columns, and why some are left, with the number of files.

    :param deletes: ``org.apache.iceberg.DeleteFile`` objects.
    """
    columns = {int(column.fieldId()): column for column in table.java.schema().columns()}
    specs = dict(table.java.specs())
    groups: dict[tuple[tuple[int, ...], bool], list[Any]] = defaultdict(list)
    left: Counter[str] = Counter()
    for file in deletes:
        ids = tuple(sorted(int(id_) for id_ in file.equalityFieldIds()))
        reason = _key_obstacle(columns, ids) or ("equality deletes are orc" if str(file.format()) == "ORC" else None)
        if reason is not None:
            left[reason] += 1
        else:
            groups[ids, bool(specs[file.specId()].isUnpartitioned())].append(file)
    return [
        KeyedDeletes(keys=tuple(str(columns[id_].name()) for id_ in ids), is_global=is_global, files=files)
        for (ids, is_global), files in groups.items()
    ], left


def _key_obstacle(columns: dict[int, Any], ids: tuple[int, ...]) -> str | None:
    if not ids or not set(ids) <= columns.keys():
        return "a key column is nested or was dropped"
    kinds = [str(columns[id_].type()) for id_ in ids]
    unfit = [kind for kind in kinds if kind not in _KEY_TYPES and not kind.startswith(_SIZED_KEY_TYPES)]
    return f"a key column is of type {unfit[0]}" if unfit else None


class PartitionNumbers:
    """Numbers of partitions that equality deletes are in: Iceberg compares partitions as their types do."""

    def __init__(self, table: IcebergTable, deletes: Iterable[Any]) -> None:
        self._pair = table.iceberg.util.Pair.of
        # A map of Java has the methods of a mapping in Python: its key is a pair.
        self._numbers = table.iceberg.util.PartitionMap.create(table.java.specs())
        self._of_delete = {str(file.location()): self._number(file) for file in deletes}

    def of_delete(self, path: str) -> int:
        """Return the number of a delete file's partition."""
        return self._of_delete[path]

    def of_data(self, file: Any) -> int:
        """Return the number of a data file's partition; ``NO_PARTITION`` where no delete is in it."""
        if not self._of_delete:
            return NO_PARTITION
        number = self._numbers.get(self._pair(file.specId(), file.partition()))
        return NO_PARTITION if number is None else int(number)

    def _number(self, file: Any) -> int:
        partition = self._pair(file.specId(), file.partition())
        number = self._numbers.get(partition)
        if number is None:
            self._numbers[partition] = number = len(self._numbers)
        return int(number)
