"""Commit groups that Arrow has rewritten, also where writers have deleted rows of their old files meanwhile.

Iceberg refuses a rewrite then, whatever it has cost. A table that is upserted all the time would never be compacted.
Here the commit is put onto the new head: what was deleted meanwhile is deleted in the new files, in the same commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_lake_provider.contracts.errors import CommitConflictError, LakeProviderError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.deleted_positions import (
    DeletedPositions,
    Positions,
    moved_positions,
    refuse_many,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.dropped_sources import refuse_deletes_without_source
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discard_files
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_conflict, is_unknown
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.group_files import GroupFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import Split, SplitResult
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.chosen_groups import RewriteStart
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

# Heads of writers that a commit is put onto, one after the other.
_MOST_HEADS = 10
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class GroupCommit:
    """One commit of groups and their new files.

    :param groups: ``org.apache.iceberg.actions.RewriteFileGroup`` objects.
    :param files: new files of each, ``DataFileSet`` objects.
    :param splits: of the groups, each with its result.
    :param opened: how files of the table are opened.
    :param summary: of the snapshot.
    """

    table: IcebergTable
    groups: Sequence[Any]
    files: Sequence[Any]
    splits: Sequence[tuple[Split, SplitResult]]
    opened: TableFiles
    summary: Mapping[str, str]

    def commit(self, start: RewriteStart) -> int:
        """Commit, and return how many rows were deleted meanwhile and are deleted in the new files.

        :raises JavaError: Iceberg's refusal, where the new files do not serve any more, or writers went on for too
            long; or that the outcome is unknown.
        """
        head, number = start.snapshot, start.sequence_number if start.keeps_sequence_number else None
        deleted: Mapping[str, Positions] = {}
        outdated = self._set("DeleteFileSet", (group.danglingDVs() for group in self.groups))
        for heads_left in reversed(range(_MOST_HEADS + 1)):
            try:
                self._replace_and_delete(start, head, number, deleted, outdated)
                break
            except JavaError as error:
                newer = self._newer_head(start, head) if heads_left and is_conflict(error) else None
                if newer is None:
                    raise
                number = start.sequence_number
                head, deleted, outdated = newer
        return sum(map(len, deleted.values()))

    def _newer_head(self, start: RewriteStart, tried: int) -> tuple[int, Mapping[str, Positions], Any] | None:
        """Return a head that the commit may be put onto, with what is :meth:`_deleted_meanwhile` there.

        :return: None where it has not moved. Nor is one older than the start: a branch may bring deletes by key that
            are, too.
        """
        snapshot = self.table.refresh().java.currentSnapshot()
        if snapshot is None or int(snapshot.sequenceNumber()) < start.sequence_number:
            return None
        head = int(snapshot.snapshotId())
        deleted = None if head == tried else self._deleted_meanwhile(head)
        return None if deleted is None else (head, *deleted)

    def _replace_and_delete(
        self, start: RewriteStart, head: int, number: int | None, deleted: Mapping[str, Positions], outdated: Any
    ) -> None:
        deletes: Sequence[Any] = ()
        if deleted:
            added = JavaItems(self.table.spark, self._set("DataFileSet", self.files))
            deletes = write_deletes(self.table, None, {}, added, deleted).deletes
        try:
            self._replace(start, head, number, outdated, deletes)
        except JavaError as error:
            if not is_unknown(error):
                discard_files(self.table, deletes)
            raise

    def _replace(
        self, start: RewriteStart, head: int, number: int | None, outdated: Any, deletes: Sequence[Any]
    ) -> None:
        """Put the new files in place of the old ones.

        :param head: no commit after it may have deleted rows of the old files.
        :param outdated: delete files that go with the old files, a ``DeleteFileSet``.
        :param deletes: delete files that come with the new ones.
        """
        update = start.commits.newRewrite().validateFromSnapshot(head)
        if number is not None:
            update = update.dataSequenceNumber(number)
        update.rewriteFiles(
            self._set("DataFileSet", (group.rewrittenFiles() for group in self.groups)),
            outdated,
            self._set("DataFileSet", self.files),
            self._set("DeleteFileSet", [list_of(self.table.spark, deletes)]),
        )
        for name, value in self.summary.items():
            update.set(name, value)
        update.commit()

    def _set(self, kind: str, collections: Any) -> Any:
        """Return all files of Java collections as a ``DataFileSet`` or a ``DeleteFileSet``."""
        files = getattr(self.table.iceberg.util, kind).create()
        for each in collections:
            guava(self.table.spark).collect.Iterables.addAll(files, each)
        return files

    def _deleted_meanwhile(self, head: int) -> tuple[dict[str, Positions], Any] | None:
        """Return the rows of the new files that a head has no more, and the delete files that go with the old ones.

        :return: None where the new files have not the rows of the head. An old file is gone, rows came back, keys were
            deleted, rows are in another order, or they have row ids by now.
        """
        parts = {part.path: part for split, _ in self.splits for part in split.parts}
        has_row_lineage = self.table.format_version >= 3
        if any(split.order or split.has_row_lineage != has_row_lineage for split, _ in self.splits):
            return None
        try:
            tasks = list_of(self.table.spark, scan_tasks(self.table, head, parts).values())
            refuse_deletes_without_source(self.table, lambda: {int(each.outputSpecId()) for each in self.groups})
            of_head = GroupFiles(self.table, self.groups[0])
            outdated = self._on_one_file(of_head.deletes(tasks))
            if of_head.kinds_of_deletes(tasks) - {"POSITION_DELETES"}:
                return None
            newer = self._newer(parts, {part.path: part for part in of_head.parts(tasks)})
            # Iceberg adds deletes in the place of others alone.
            return None if newer and outdated.isEmpty() else (newer, outdated)
        # A store may not answer, a file may be broken, or the deletes may be more than a driver takes.
        except (LakeProviderError, JavaError, OSError, pa.ArrowException):
            return None

    def _on_one_file(self, deletes: Any) -> Any:
        package = guava(self.table.spark)
        is_on_one = package.base.Predicates.compose(
            package.base.Predicates.notNull(), java_functions(self.table.spark).referenced_data_file
        )
        return self._set("DeleteFileSet", [package.collect.Iterables.filter(deletes, is_on_one)])

    def _newer(self, parts: Mapping[str, FilePart], of_head: Mapping[str, FilePart]) -> dict[str, Positions]:
        """Return the rows of new files that are deleted in old ones at a head, and were not when the rewrite began."""
        changed = [path for path, part in parts.items() if part.deletes != of_head[path].deletes]
        refuse_many(sum(each.rows for each in {each for path in changed for each in of_head[path].deletes}))
        before, now = DeletedPositions(self.opened, parts), DeletedPositions(self.opened, parts)
        # One read each, of an object store perhaps.
        with ThreadPoolExecutor(_AT_ONCE) as readers:
            applied = readers.map(lambda path: before.of(path, parts[path].deletes), changed)
            deleted = readers.map(lambda path: now.of(path, of_head[path].deletes), changed)
            left_out, gone = (dict(zip(changed, each, strict=True)) for each in (applied, deleted))
        newer = {path: np.setdiff1d(gone[path], left_out[path], assume_unique=True) for path in changed}
        if any(len(newer[path]) != len(gone[path]) - len(left_out[path]) for path in changed):
            raise CommitConflictError(f"{self.table.name}: rows that were deleted came back")
        moved: dict[str, Positions] = {}
        for _, result in self.splits:
            new_files = [(file.location, file.rows) for file in result.files]
            moved |= moved_positions(result.parts, new_files, left_out, newer)
        if sum(map(len, moved.values())) != sum(map(len, newer.values())):
            raise CommitConflictError(f"{self.table.name}: rows that were deleted are in no new file")
        return moved
