"""Stage rows of a batch again, by key, where another commit has changed the rows that they were made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import Discard
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    ROW_ID,
    WINS,
    Positions,
    ResolvedRows,
    collect_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import rows_of_files, tasks_without_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.write_upserted_rows import write_upserted_rows
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted


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
