"""The keys of a batch whose staged rows were made of rows that other commits have changed since."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.formats.iceberg.rows.found_rows import ROW_ID, ResolvedRows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.planned_upsert import PlannedUpsert
from airflow_lake_provider.spark_jobs.sql.columns import quoted


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
