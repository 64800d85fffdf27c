"""Rebase a pending commit onto a head that another writer moved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.new_head import on_new_head, reading_base
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import Discard
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    ROW_ID,
    WINS,
    Positions,
    ResolvedRows,
    collect_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import rows_of_files, tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert, row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.resolve_keys import (
    resolve_appended_rows,
    resolve_rows,
    resolve_rows_of_files,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.write_upserted_rows import write_upserted_rows
from airflow_lake_provider.spark_jobs.jvm.java_collections import SEPARATOR, guava
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted


@dataclass(frozen=True, kw_only=True)
class RebasedCommit:
    """A commit on the branch's head.

    :param resolved: the rows of its keys there; the same object where they are in the same files with the same deletes.
    :param affected: keys whose staged rows were made of rows that have changed, and have to be made again.
    """

    commit: PlannedUpsert
    resolved: ResolvedRows
    affected: AffectedKeys | None = None


def rebase(table: IcebergTable, commit: PlannedUpsert, resolved: ResolvedRows) -> RebasedCommit:
    """Find out what a commit is on the branch's head.

    :raises CommitConflictError: see :func:`on_new_head`; or the table has row lineage now, and had not.
    """
    pending, operations = on_new_head(table, commit)
    _refuse_upgraded(table, resolved)
    if pending is commit:
        return RebasedCommit(commit=commit, resolved=resolved)
    same, before, after = _read_again(table, commit, pending, operations, resolved)
    if not before.row_count and not after.row_count:
        return RebasedCommit(commit=pending, resolved=resolved)
    affected = affected_keys(commit, before, after, row_merge(table, commit).ignores_existing_row)
    return RebasedCommit(commit=pending, resolved=same.union(after), affected=affected)


def _read_again(
    table: IcebergTable, commit: PlannedUpsert, pending: PlannedUpsert, operations: list[str], resolved: ResolvedRows
) -> tuple[ResolvedRows, ResolvedRows, ResolvedRows]:
    """Return the rows where nothing has changed, and those of the files that have, before and now."""
    base, head = str(commit.base), str(pending.base)
    if set(operations) == {"append"}:
        return resolved, ResolvedRows(), resolve_appended_rows(table, pending, int(base), int(head))
    paths = changed_files(table, base, head)
    after = None if paths is None else resolve_rows_of_files(table, pending, paths)
    if paths is None or after is None:
        return ResolvedRows(), resolved, resolve_rows(table, pending)
    same, before = resolved.split_by_file(paths)
    return same, before, after


def rebase_over_appends(table: IcebergTable, commit: PlannedUpsert) -> PlannedUpsert:
    """Return a commit on the branch's head, where only rows of other keys were appended.

    :raises CommitConflictError: anything else was committed, or what :func:`rebase` refuses.
    """
    pending, operations = on_new_head(table, commit)
    if pending is commit:
        return commit
    if set(operations) != {"append"}:
        raise CommitConflictError(f"{table.name}: data files may have changed since they were read: {set(operations)}")
    with reading_base(table, commit):
        appended = resolve_appended_rows(table, pending, int(commit.base or 0), int(pending.base or 0))
    if appended.row_count:
        raise CommitConflictError(f"{table.name}: rows with keys of the batch were appended since it was resolved")
    return pending


def _refuse_upgraded(table: IcebergTable, resolved: ResolvedRows) -> None:
    """Refuse what was resolved without row lineage on a table that has it now."""
    if resolved.rows is not None and (ROW_ID in resolved.rows.columns) != (table.format_version >= 3):
        raise CommitConflictError(f"{table.name}: was upgraded to format version 3 since the batch was resolved")


def changed_files(table: IcebergTable, base: str, head: str) -> set[str] | None:
    """Return the paths of data files that were added or removed, or whose deletes have changed.

    Costs what the commits have written, not what the table holds.

    :param base: snapshot id, an ancestor of ``head``.
    :return: None where deletes do not name the one data file that they are on. Such are equality deletes and position
        deletes of many files, and those that other engines wrote to format version 2 and a later commit removed.
    """
    java = java_functions(table.spark)
    paths: set[str] = set()
    snapshot = table.java.snapshot(int(head))
    while str(snapshot.snapshotId()) != base:
        changes = table.changes_of(snapshot)
        for files in (changes.addedDataFiles(), changes.removedDataFiles()):
            paths |= _texts(table, files, java.location)
        for deletes in (changes.addedDeleteFiles(), changes.removedDeleteFiles()):
            paths |= _texts(table, deletes, java.referenced_data_file)
        snapshot = table.java.snapshot(snapshot.parentId())
    return None if "" in paths else paths


def _texts(table: IcebergTable, files: Any, to_text: Any) -> set[str]:
    """Return a text of each file, brought over at once; empty for null."""
    package = guava(table.spark)
    texts = package.collect.Iterables.transform(files, to_text)
    if package.collect.Iterables.isEmpty(texts):
        return set()
    return set(package.base.Joiner.on(SEPARATOR).useForNull("").join(texts).split(SEPARATOR))


@dataclass(frozen=True, kw_only=True)
class AffectedKeys:
    """Some keys of a batch.

    :param keys: the key columns, each key once; checkpointed.
    :param count: how many there are, at least one.
    """

    keys: DataFrame
    count: int

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows that have one of the keys."""
        # Fewer than the batch has, and those are broadcast, too.
        return rows.join(sf.broadcast(self.keys), on=self.keys.columns, how="left_semi")


def affected_keys(
    commit: PlannedUpsert, before: ResolvedRows, after: ResolvedRows, ignores_existing_row: bool
) -> AffectedKeys | None:
    """Compare the table's rows before and now; None where no staged row was made of what has changed.

    :param ignores_existing_row: of :class:`RowMerge`: nothing but their row ids is taken from them.
    """
    changed = _lost_row_ids(before, after, commit) if ignores_existing_row else _different(before, after)
    if changed is None:
        return None
    # Lazy: the count fills it.
    keys = changed.select(*map(quoted, commit.keys)).distinct().localCheckpoint(eager=False)
    count = keys.count()
    return AffectedKeys(keys=keys, count=count) if count else None


def _lost_row_ids(before: ResolvedRows, after: ResolvedRows, commit: PlannedUpsert) -> DataFrame | None:
    """Return the rows whose id, which a staged row carries, may now be that of a row with another key."""
    if before.rows is None or ROW_ID not in before.rows.columns:
        return None
    had = before.rows.filter(sf.col(ROW_ID).isNotNull())
    if after.rows is None:
        return had
    return had.join(after.rows, on=[*commit.keys, ROW_ID], how="left_anti")


def _different(before: ResolvedRows, after: ResolvedRows) -> DataFrame | None:
    """Return the rows that came, went, or have other values than they had."""
    if before.rows is None or after.rows is None:
        return before.rows if after.rows is None else after.rows
    was, now = before.rows.drop("_file"), after.rows.drop("_file")
    if any("map<" in field.dataType.simpleString() or "variant" in field.dataType.simpleString()
           for field in was.schema):  # fmt: skip
        # Spark compares neither.
        return was.unionByName(now)
    return was.exceptAll(now).unionByName(now.exceptAll(was))


@dataclass
class StagedBatch:
    """Rows that a commit is going to add.

    :param files: ``org.apache.iceberg.DataFile`` objects.
    :param outdated: positions of rows in them that do not count, by path.
    """

    files: list[Any]
    outdated: Positions = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of rows that the commit adds."""
        written = sum(int(file.recordCount()) for file in self.files)
        return written - sum(len(of_file) for of_file in self.outdated.values())

    def stage_again(
        self,
        table: IcebergTable,
        commit: PlannedUpsert,
        resolved: ResolvedRows,
        affected: AffectedKeys,
        discard: Discard,
    ) -> None:
        """Make the rows of some keys anew.

        They go into files of their own. Where the rows that do not count would be more than half of the batch, all of
        it is staged again. They would stay in the table, though they never were to be seen.

        :param discard: deletes the files that are replaced.
        """
        lost = affected.count + sum(len(of_file) for of_file in self.outdated.values())
        outdated = None if 2 * lost > commit.batch_keys.count else self._rows_of(table, commit, affected)
        if outdated is None:
            discard(table, self.files)
            self.files[:], self.outdated = write_upserted_rows(table, commit, resolved), {}
            return
        rows = affected.of(commit.rows)
        self.files += write_upserted_rows(table, replace(commit, rows=rows), resolved)
        both = {
            path: np.union1d(self.outdated[path], outdated[path]) for path in self.outdated.keys() & outdated.keys()
        }
        self.outdated = {**self.outdated, **outdated, **both}

    def _rows_of(self, table: IcebergTable, commit: PlannedUpsert, affected: AffectedKeys) -> Positions | None:
        """Return where the staged rows of these keys stand; None where that cannot be told."""
        if not self.files:
            return {}
        with rows_of_files(table, tasks_without_deletes(table, self.files)) as staged:
            if staged is None:
                return None
            rows = affected.of(staged.select(*(quoted(key) for key in commit.keys), "_file", "_pos"))
            every = rows.withColumns({WINS: sf.lit(True), DELETED: sf.lit(False)})
            return collect_positions(every, affected.count).positions
