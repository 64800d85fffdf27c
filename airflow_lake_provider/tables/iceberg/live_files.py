"""The data files of a table's head with the deletes on them, read from manifests."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Self

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import ManifestGroupPlanner, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType, TimestampType, TimestamptzType
from pyparsing import ParseException

from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.contracts.table_facts import TableShape
from airflow_lake_provider.iceberg.foreign_times import times_are_sure
from airflow_lake_provider.iceberg.table_obstacles import specs_without_source
from airflow_lake_provider.tables.base import UnreadPredicateError
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, LaterDeletes
from airflow_lake_provider.tables.iceberg.manifest_entries import ENTRY_SCHEMA, entries_of, live_entries
from airflow_lake_provider.tables.iceberg.partitions import is_void, value_range

# Field ids of the table spec: a deletion vector names its data file, an older position delete bounds its paths.
_REFERENCED_DATA_FILE = 143
_PATH = 2147483546
_DATA_FILE_STRUCT = ENTRY_SCHEMA.find_type("data_file")
_REFERENCED_AT = (
    [f.field_id for f in _DATA_FILE_STRUCT.fields].index(_REFERENCED_DATA_FILE)
    if isinstance(_DATA_FILE_STRUCT, StructType)
    else -1
)


Partition = tuple[Hashable, ...]


@dataclass(frozen=True, kw_only=True)
class DeleteRecord:
    """One delete file.

    :param id: path, for a deletion vector with its offset, as many share one file.
    :param target: the only data file it applies to; None when it applies to many.
    :param snapshot: that added it; None where its manifest does not say.
    """

    id: str
    spec_id: int
    partition: Partition
    bytes: int
    records: int
    sequence: int
    target: str | None
    is_equality: bool
    is_vector: bool
    snapshot: str | None = None


@dataclass(frozen=True, kw_only=True)
class LiveFiles:
    """The live files of a table's head.

    :param data: those that may hold rows of a predicate.
    :param deletes: all delete files.
    """

    data: list[FileRecord]
    deletes: list[DeleteRecord]


def endangered_deletes(shape: TableShape, manifests: Callable[[], Iterable[ManifestFile]]) -> str | None:
    """Return the partition field whose loss would part deletes from their data files, as the driver does.

    :param manifests: returns those of the head; asked only where a spec has lost its source column.
    """
    lost = specs_without_source(shape)
    of_deletes = (each for each in manifests() if each.content == ManifestContent.DELETES) if lost else ()
    # A manifest of what a commit has removed is there until the next one.
    live = (each for each in of_deletes if each.has_added_files() or each.has_existing_files())
    return next((lost[each.partition_spec_id] for each in live if each.partition_spec_id in lost), None)


# Spark has a text, where PyIceberg has a name, between the first; the second escapes in Spark alone, and stands there
# for any letter within LIKE.
_OTHERWISE_TO_SPARK = re.compile(r"\"|\\|\bLIKE\s*'[^']*_", re.IGNORECASE)


class DeleteIndex:
    """Finds the delete files that apply to a data file, as a scan does.

    :param deletes: all of a head.
    """

    def __init__(self, deletes: Iterable[DeleteRecord]) -> None:
        self._by_target: dict[str, list[DeleteRecord]] = defaultdict(list)
        # Those on many files, by whether they are of keys, and by the partition; no partition is all of the table.
        self._on_many: dict[tuple[bool, Hashable], list[tuple[int, str]]] = defaultdict(list)
        for delete in deletes:
            if delete.target is not None:
                self._by_target[delete.target].append(delete)
            else:
                is_everywhere = delete.is_equality and not delete.partition
                place = None if is_everywhere else (delete.spec_id, delete.partition)
                self._on_many[delete.is_equality, place].append((delete.sequence, delete.id))
        for ordered in self._on_many.values():
            ordered.sort()

    def on(self, file: DataFile, partition: Partition, sequence: int) -> tuple[list[DeleteRecord], LaterDeletes]:
        """Return the deletes on a data file: those on it alone, and the ids of all.

        :param partition: of the file.
        :param sequence: number of the file.
        """
        own, place = self._by_target.get(file.file_path, []), (file.spec_id, partition)
        # Once a file has a vector, older position deletes of it are part of the vector.
        has_vector = any(each.is_vector for each in own)
        own = [each for each in own if each.sequence >= sequence and (each.is_vector or not has_vector)]
        kinds = [(True, place), (True, None), *([] if has_vector else [(False, place)])]
        lists = [(self._on_many[kind], kind[0]) for kind in kinds if kind in self._on_many]
        # A key is deleted from earlier files alone, a position from those of the same commit as well.
        ends = [
            (ordered, (bisect_right if is_equality else bisect_left)(ordered, sequence, key=itemgetter(0)))
            for ordered, is_equality in lists
        ]
        return own, LaterDeletes((([(each.sequence, each.id) for each in own], 0), *ends) if own else tuple(ends))


def _parsed_where(where: str | BooleanExpression, table: str) -> BooleanExpression:
    """Parse a predicate where PyIceberg reads it as Spark does.

    :raises UnreadPredicateError: it does not parse, or means something else to Spark.
    """
    if isinstance(where, BooleanExpression):
        return where
    try:
        if sign := _OTHERWISE_TO_SPARK.search(where):
            raise ValueError(f"{sign[0][-1]} means something else to Spark")
        return parse(where)
    except (ParseException, ValueError, RecursionError) as error:
        raise UnreadPredicateError(
            f"{table}: where={shown(where)} cannot be read as comparisons of columns with constants "
            f"({shown(str(error))}); a dry run knows =, !=, <, <=, >, >=, IN, IS NULL, LIKE 'x%', AND, OR and NOT"
        ) from error


def columns_in(where: str, table: str) -> list[str]:
    """Return the columns that a predicate names.

    :raises UnreadPredicateError: it does not parse.
    """
    names, left = [], [_parsed_where(where, table)]
    while left:
        expression = left.pop()
        parts = (getattr(expression, part, None) for part in ("left", "right", "child"))
        left += [part for part in parts if isinstance(part, BooleanExpression)]
        if (term := getattr(expression, "term", None)) is not None:
            names.append(str(term.name))
    return names


def read_files(
    table: Table,
    manifests: Sequence[ManifestFile],
    where: str | BooleanExpression | None,
    column: NestedField | None = None,
) -> LiveFiles:
    """Read the live data files that may hold rows of ``where``, and all delete files, of main's head.

    :param manifests: of the head.
    :param column: whose bounds each file is given with.
    :raises UnreadPredicateError: ``where`` does not parse or names a column that the table lacks.
    """
    partition_of = _partitions_of(table.metadata)
    of_deletes = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
    name = ".".join(table.name())
    deletes = [
        _delete_record(entry, partition_of(entry.data_file)) for entry in live_entries(name, table.io, of_deletes)
    ]
    index = DeleteIndex(deletes)
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    entries = live_entries(name, table.io, data) if where is None else _entries_with(table, data, where)
    placed = ((entry, partition_of(entry.data_file)) for entry in entries)
    records = [_file_record(*each, index, column) for each in placed]
    if not _has_sure_bounds(table, column):
        records = [replace(each, bounds=None) for each in records]
    return LiveFiles(data=records, deletes=deletes)


class _Manifest(ManifestFile):
    """A manifest that PyIceberg filters by the values that are read here, where doubles are exact."""

    table: str

    @classmethod
    def of(cls, manifest: ManifestFile, table: str) -> Self:
        """Return a manifest whose errors have the name of a table."""
        made = cls(*(manifest[place] for place in range(len(manifest))))
        made.table = table
        return made

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:  # noqa: ARG002  # always
        """Return the entries that are not deleted."""
        return entries_of(self.table, io, self)


def _entries_with(
    table: Table, manifests: list[ManifestFile], where: str | BooleanExpression
) -> Iterator[ManifestEntry]:
    name = ".".join(table.name())
    planner = ManifestGroupPlanner(
        table_metadata=table.metadata, io=table.io, row_filter=_parsed_where(where, name), case_sensitive=False
    )
    try:
        yield from chain.from_iterable(planner.plan_manifest_entries([_Manifest.of(each, name) for each in manifests]))
    except (ValueError, TypeError, struct.error) as error:
        raise UnreadPredicateError(f"{name}: where={where!r} does not fit the table: {error}") from error


def _file_record(
    entry: ManifestEntry, partition: Partition, deletes: DeleteIndex, column: NestedField | None
) -> FileRecord:
    file = entry.data_file
    own, on = deletes.on(file, partition, entry.sequence_number or 0)
    return FileRecord(
        path=file.file_path,
        spec_id=file.spec_id,
        partition=partition,
        bytes=file.file_size_in_bytes,
        records=file.record_count,
        delete_files=on,
        deleted_records=sum(delete.records for delete in own),
        snapshot=None if entry.snapshot_id is None else str(entry.snapshot_id),
        bounds=None if column is None else _bounds(file, column),
        nulls=None if column is None else (file.null_value_counts or {}).get(column.field_id),
    )


def _bounds(file: DataFile, column: NestedField) -> tuple[Any, Any] | None:
    low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    return value_range(low, high, column.field_type)


def _has_sure_bounds(table: Table, column: NestedField | None) -> bool:
    is_time = column is not None and isinstance(column.field_type, TimestampType | TimestamptzType)
    return not is_time or times_are_sure(table.properties)


def _delete_record(entry: ManifestEntry, partition: Partition) -> DeleteRecord:
    file = entry.data_file
    target = _target(file)
    is_vector = file.file_format == FileFormat.PUFFIN
    return DeleteRecord(
        id=f"{file.file_path}#{target}" if is_vector else file.file_path,
        spec_id=file.spec_id,
        partition=partition,
        bytes=file.file_size_in_bytes,
        records=file.record_count,
        sequence=entry.sequence_number or 0,
        target=target,
        is_equality=file.content == DataFileContent.EQUALITY_DELETES,
        is_vector=is_vector,
        snapshot=None if entry.snapshot_id is None else str(entry.snapshot_id),
    )


def _target(file: DataFile) -> str | None:
    if file.content == DataFileContent.EQUALITY_DELETES:
        return None
    named: str | None = file[_REFERENCED_AT]
    if named is not None:
        return named
    lower = (file.lower_bounds or {}).get(_PATH)
    upper = (file.upper_bounds or {}).get(_PATH)
    return lower.decode() if lower is not None and lower == upper else None


def _partitions_of(metadata: TableMetadata) -> Callable[[DataFile], Partition]:
    """Return what reads the partition of a file: none of a spec whose fields are all void, as Iceberg has it.

    Version 1 keeps a field that was dropped as a void one, also after an upgrade.
    """
    unpartitioned = {spec.spec_id for spec in metadata.partition_specs if all(map(is_void, spec.fields))}

    def partition_of(file: DataFile) -> Partition:
        values = None if file.spec_id in unpartitioned else file.partition
        return tuple(values[i] for i in range(len(values))) if values else ()

    return partition_of
