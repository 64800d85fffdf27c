"""The data files of a table's head with the deletes on them, read from manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import ManifestGroupPlanner, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType
from pyparsing import ParseException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord
from airflow_lake_provider.tables.iceberg.manifest_entries import ENTRY_SCHEMA, live_entries
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


@dataclass
class DeleteIndex:
    """Finds the delete files that apply to a data file, as a scan does."""

    all: list[DeleteRecord] = field(default_factory=list)
    _by_target: dict[str, list[DeleteRecord]] = field(default_factory=lambda: defaultdict(list))
    _by_partition: dict[Hashable, list[DeleteRecord]] = field(default_factory=lambda: defaultdict(list))
    _everywhere: list[DeleteRecord] = field(default_factory=list)

    def add(self, delete: DeleteRecord) -> None:
        """File a delete under what it applies to."""
        self.all.append(delete)
        if delete.target is not None:
            self._by_target[delete.target].append(delete)
        elif delete.is_equality and not delete.partition:
            self._everywhere.append(delete)
        else:
            self._by_partition[(delete.spec_id, delete.partition)].append(delete)

    def on(self, file: DataFile, partition: Partition, sequence: int) -> list[DeleteRecord]:
        """Return the deletes on a data file.

        :param partition: of the file.
        """
        key = (file.spec_id, partition)
        candidates = chain(self._by_target.get(file.file_path, ()), self._by_partition.get(key, ()), self._everywhere)
        deletes = list(candidates)
        # Once a file has a vector, older position deletes of it are part of the vector.
        if any(delete.is_vector for delete in deletes):
            deletes = [delete for delete in deletes if delete.is_vector or delete.is_equality]
        return [d for d in deletes if sequence < d.sequence or (sequence == d.sequence and not d.is_equality)]


def _parsed_where(where: str | BooleanExpression, table: str) -> BooleanExpression:
    """Parse a predicate as PyIceberg reads it.

    :raises InvalidSpecError: it does not parse.
    """
    if isinstance(where, BooleanExpression):
        return where
    try:
        return parse(where)
    except (ParseException, ValueError, RecursionError) as error:
        raise InvalidSpecError(
            f"{table}: where={shown(where)} cannot be read as comparisons of columns with constants "
            f"({shown(str(error))}); a dry run knows =, !=, <, <=, >, >=, IN, IS NULL, LIKE 'x%', AND, OR and NOT"
        ) from error


def columns_in(where: str, table: str) -> list[str]:
    """Return the columns that a predicate names.

    :raises InvalidSpecError: it does not parse.
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
    :raises InvalidSpecError: ``where`` does not parse or names a column that the table lacks.
    """
    deletes, partition_of = DeleteIndex(), _partitions_of(table.metadata)
    of_deletes = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
    for entry in live_entries(table.io, of_deletes):
        deletes.add(_delete_record(entry, partition_of(entry.data_file)))
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    entries = live_entries(table.io, data) if where is None else _entries_with(table, data, where)
    placed = ((entry, partition_of(entry.data_file)) for entry in entries)
    return LiveFiles(data=[_file_record(*each, deletes, column) for each in placed], deletes=deletes.all)


def _entries_with(
    table: Table, manifests: list[ManifestFile], where: str | BooleanExpression
) -> Iterator[ManifestEntry]:
    planner = ManifestGroupPlanner(
        table_metadata=table.metadata,
        io=table.io,
        row_filter=_parsed_where(where, ".".join(table.name())),
        case_sensitive=False,
    )
    try:
        yield from chain.from_iterable(planner.plan_manifest_entries(manifests))
    except (ValueError, TypeError) as error:
        raise InvalidSpecError(f"{'.'.join(table.name())}: where={where!r} does not fit the table: {error}") from error


def _file_record(
    entry: ManifestEntry, partition: Partition, deletes: DeleteIndex, column: NestedField | None
) -> FileRecord:
    file = entry.data_file
    on = deletes.on(file, partition, entry.sequence_number or 0)
    return FileRecord(
        path=file.file_path,
        spec_id=file.spec_id,
        partition=partition,
        bytes=file.file_size_in_bytes,
        records=file.record_count,
        delete_files=frozenset(delete.id for delete in on),
        deleted_records=sum(delete.records for delete in on if delete.target is not None),
        snapshot=None if entry.snapshot_id is None else str(entry.snapshot_id),
        bounds=None if column is None else _bounds(file, column),
        nulls=None if column is None else (file.null_value_counts or {}).get(column.field_id),
    )


def _bounds(file: DataFile, column: NestedField) -> tuple[Any, Any] | None:
    low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    return value_range(low, high, column.field_type)


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
