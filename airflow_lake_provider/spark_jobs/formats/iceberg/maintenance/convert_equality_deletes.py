"""Convert equality deletes: their keys become positions of the rows that they delete, in one commit.

Iceberg's planner gives each data file a list of all equality deletes of a higher sequence number. Each task loads the
keys of its list. Here the keys of all of them are joined once with the key columns of the data files.

The commit is a row delta, not a rewrite. A rewrite of files that began before an equality delete was made keeps its
sequence number. It then needs that delete, or has to see that positions in its files were deleted. Iceberg looks for
these in row deltas alone, as a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.compaction_rules import MANY_EQUALITY_DELETES
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import (
    RowDelta,
    commit_row_delta,
    commit_snapshot,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_position_deletes, write_vectors
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import messages_with_path
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import (
    FILE,
    POSITION,
    FileScan,
    table_with_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.equality_delete_files import (
    NO_PARTITION,
    KeyedDeletes,
    PartitionNumbers,
    SnapshotFiles,
    are_on_one_file_each,
    conversion_obstacle,
    keyed_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import WINS, Positions, collect_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import whole_file_task
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

# Small files are many: with Iceberg's 4 MiB for opening one, a Spark task would read four of them.
_OPEN_FILE_COST = {"file-open-cost": str(256 << 10)}
# Commits of writers in between that a conversion is put onto without reading the keys again.
_MOST_HEADS = 5
_NUMBER, _PARTITION, _NEWEST = "_lake_sequence_number", "_lake_partition", "_lake_newest"


@dataclass(frozen=True, kw_only=True)
class ConvertedDeletes:
    """Result of a conversion.

    :param files: equality delete files that are gone.
    :param rows: positions that were written for them.
    :param left: why others were left as they are, and how many.
    """

    files: int = 0
    rows: int = 0
    left: Counter[str] = field(default_factory=Counter)

    @property
    def sentence(self) -> str:
        """The counts, as the end of a sentence; empty where no file was converted."""
        return f"; {self.files:,} equality delete files became {self.rows:,} positions" if self.files else ""


def convert_equality_deletes(
    table: IcebergTable, max_attempts: int, summary: dict[str, str], progress: Progress
) -> ConvertedDeletes:
    """Convert those of the head where there are ``MANY_EQUALITY_DELETES`` files or more; no row changes.

    :param max_attempts: tries when a writer gets in between.
    :param summary: of the snapshot, with its action and run key.
    :raises UnknownOutcomeError: the answer to the commit was lost; no file was removed.
    """
    refusal = ""
    for _ in range(max_attempts):
        files = SnapshotFiles(table.refresh(), table.java.currentSnapshot())
        if len(files.equality_deletes) < MANY_EQUALITY_DELETES:
            return ConvertedDeletes()
        obstacle = conversion_obstacle(table, files)
        if obstacle is not None:
            return ConvertedDeletes(left=Counter({obstacle: len(files.equality_deletes)}))
        try:
            return _converted(table, files, summary, progress)
        except CommitConflictError as refused:
            refusal = str(refused)
    return ConvertedDeletes(left=Counter({refusal: len(files.equality_deletes)}))


def _converted(
    table: IcebergTable, files: SnapshotFiles, summary: dict[str, str], progress: Progress
) -> ConvertedDeletes:
    groups, left = keyed_deletes(table, files.equality_deletes)
    converted = [file for group in groups for file in group.files]
    if not converted:
        return ConvertedDeletes(left=left)
    with progress.phase("resolve equality deletes") as facts:
        try:
            positions = _positions(table, files, groups)
        except (CapturedException, JavaError) as error:
            return ConvertedDeletes(left=left + Counter({messages_with_path(error): len(converted)}))
        rows = sum(map(len, positions.values()))
        facts.update(rows=rows, files=len(positions), delete_files=len(converted))
    with progress.phase("commit positions"):
        _commit(table, files, {str(file.location()) for file in converted}, positions, summary)
    return ConvertedDeletes(files=len(converted), rows=rows, left=left)


def _positions(table: IcebergTable, files: SnapshotFiles, groups: Sequence[KeyedDeletes]) -> Positions:
    """Return the positions of the rows that equality deletes delete, by path of their data file."""
    numbers = PartitionNumbers(table, (file for group in groups if not group.is_global for file in group.files))
    has_global = any(group.is_global for group in groups)
    newest = max(int(file.dataSequenceNumber()) for group in groups for file in group.files)
    sequence_numbers = map(int, files.texts("dataSequenceNumber", "java.lang.Long"))
    older = zip(files.data, files.paths, sequence_numbers, strict=True) if files.data else ()
    data = [(file, path, number, numbers.of_data(file)) for file, path, number in older if number < newest]
    data = [each for each in data if has_global or each[3] != NO_PARTITION]
    if not data:
        return {}
    make_task = whole_file_task(table)
    with ExitStack() as scans:
        rows = _rows(table, scans, [make_task(file) for file, *_ in data], [each[1:] for each in data])
        matched = [_matched(table, scans, rows, group, numbers) for group in groups]
        found_rows = reduce(DataFrame.union, matched).withColumns({WINS: sf.lit(True), DELETED: sf.lit(True)})
        return collect_positions(found_rows, keys=None).positions


def _matched(
    table: IcebergTable, scans: ExitStack, rows: DataFrame, group: KeyedDeletes, numbers: PartitionNumbers
) -> DataFrame:
    """Return the place of each row with a key that was deleted after it: of lower sequence number."""
    places = [
        (path, int(file.dataSequenceNumber()), NO_PARTITION if group.is_global else numbers.of_delete(path))
        for file in group.files
        for path in [str(file.location())]
    ]
    deletes = _rows(table, scans, _delete_tasks(table, group.files), places)
    of_key = [f"_lake_key_{place}" for place in range(len(group.keys))]
    columns = [quoted(key).alias(name) for key, name in zip(group.keys, of_key, strict=True)]
    scope = [] if group.is_global else [_PARTITION]
    newest = deletes.select(*columns, _PARTITION, _NUMBER).groupBy(*of_key, *scope).agg(sf.max(_NUMBER).alias(_NEWEST))
    left = rows.select(FILE, POSITION, _NUMBER, _PARTITION, *columns).alias("rows")
    right = newest.alias("deletes")
    is_deleted = sf.col(f"rows.{_NUMBER}") < sf.col(f"deletes.{_NEWEST}")
    for name in (*of_key, *scope):
        is_deleted &= sf.col(f"rows.{name}").eqNullSafe(sf.col(f"deletes.{name}"))
    matched = left.join(right, is_deleted, "left_semi")
    return matched.select(sf.col(FILE).alias("_file"), sf.col(POSITION).alias("_pos"))


def _rows(
    table: IcebergTable, scans: ExitStack, tasks: Sequence[Any], places: Iterable[tuple[str, int, int]]
) -> DataFrame:
    """Return the rows of tasks with the sequence number and the partition of their file.

    :param places: path, sequence number and number of the partition of each file.
    """
    paths, sequence_numbers, partitions = zip(*places, strict=True)
    of_file = pa.table(
        {FILE: pa.array(paths, pa.string()), _NUMBER: pa.array(sequence_numbers), _PARTITION: pa.array(partitions)}
    )
    scan = FileScan(table.spark, table_with_positions(table.spark, table.java), tasks, _OPEN_FILE_COST)
    scans.enter_context(closing(scan))
    return scan.dataframe.join(sf.broadcast(dataframe_of(table.spark, of_file)), on=FILE)


def _delete_tasks(table: IcebergTable, deletes: Iterable[Any]) -> list[Any]:
    """Return tasks that read the keys of equality delete files, by field id as those of data files are.

    Without a spec: a file's own values count, where a scan takes those of identity partitions from the metadata.
    """
    iceberg, make_task = table.iceberg, whole_file_task(table)
    none = iceberg.PartitionSpec.unpartitioned()
    spec = iceberg.PartitionSpecParser.toJson(none)

    def as_data(file: Any) -> Any:
        builder = iceberg.DataFiles.builder(none).withPath(str(file.location())).withFormat(file.format())
        return builder.withFileSizeInBytes(file.fileSizeInBytes()).withRecordCount(file.recordCount()).build()

    return [make_task(as_data(file), spec=spec) for file in deletes]


def _commit(
    table: IcebergTable, files: SnapshotFiles, converted: set[str], positions: Positions, summary: dict[str, str]
) -> None:
    """Commit on the head, also where writers came in between.

    What they have added is newer than the deletes that go, or was rewritten from files without a row to delete. Where
    a file with such a row is gone, all is resolved again.

    :param files: of the snapshot that was resolved.
    :param converted: paths of the equality deletes that go.
    """
    base = str(files.snapshot.snapshotId())
    for left in reversed(range(_MOST_HEADS)):
        head = table.refresh().base_of(None)
        if head != base and all(each.id != base for each in table.ancestors()):
            raise CommitConflictError(f"{table.name}: snapshot {base} is no ancestor of {MAIN} any more")
        now = files if head == base else SnapshotFiles(table, table.java.currentSnapshot())
        commit = DataCommit(action=summary[ACTION], run_key=summary[RUN_KEY], base=head, branch=MAIN, summary=summary)
        delta = _delta(table, now, converted, positions)
        try:
            with discarded_on_failure(table, delta.deletes):
                _send(table, commit, delta)
            return
        except CommitConflictError:
            if not left or table.refresh().base_of(None) == head:
                raise


def _send(table: IcebergTable, commit: DataCommit, delta: RowDelta) -> None:
    if delta.deletes:
        commit_row_delta(table, commit, delta, {})
        return

    def without(transaction: Any) -> Any:
        # No row was deleted by them, so that this is a rewrite to everybody.
        rewrite = transaction.newRewrite()
        for file in delta.replaced:
            rewrite.deleteFile(file)
        return rewrite

    commit_snapshot(table, commit, {}, without)


def _delta(table: IcebergTable, files: SnapshotFiles, converted: set[str], positions: Positions) -> RowDelta:
    """Write the deletes by position, and return what is to be committed on a snapshot.

    :param files: of that snapshot.
    :raises CommitConflictError: a data file with rows to delete, or an equality delete, is not live in it.
    """
    outdated = [file for file in files.equality_deletes if str(file.location()) in converted]
    if len(outdated) < len(converted):
        raise CommitConflictError(f"{table.name}: equality deletes were removed while their keys were looked for")
    delta = RowDelta(replaced=outdated, referenced=list(positions))
    if not positions:
        return delta
    live = {path: file for path, file in zip(files.paths, files.data, strict=True) if path in positions}
    if len(live) < len(positions):
        raise CommitConflictError(f"{table.name}: data files with rows to delete are gone")
    make_task = whole_file_task(table)
    if table.format_version < 3:
        tasks = {path: make_task(file) for path, file in live.items()}
        return replace(delta, deletes=write_position_deletes(table, tasks, positions))
    deletes = dict(_deletes_on(table, files, live))
    tasks = {path: make_task(file, deletes.get(path, ())) for path, file in live.items()}
    vectors, replaced = write_vectors(table, tasks, positions)
    return replace(delta, deletes=vectors, replaced=[*outdated, *replaced])


def _deletes_on(table: IcebergTable, files: SnapshotFiles, live: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield, by path, the vector on a data file, or the older position deletes that are on it alone."""
    if not are_on_one_file_each(table, files.position_deletes):
        raise CommitConflictError(f"{table.name}: position deletes of whole partitions were added meanwhile")
    on_file: dict[str, list[Any]] = {}
    util = table.iceberg.util.ContentFileUtil
    for delete in files.position_deletes:
        path = str(util.referencedDataFileLocation(delete))
        if path in live and delete.dataSequenceNumber() >= live[path].dataSequenceNumber():
            on_file.setdefault(path, []).append(delete)
    for path, deletes in on_file.items():
        yield path, [delete for delete in deletes if util.isDV(delete)] or deletes
