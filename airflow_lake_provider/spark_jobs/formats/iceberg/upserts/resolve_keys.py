"""Where the keys of a batch stand in a table: only key columns of files that may hold one are read.

Resolving costs the batch and one pruned read of the key columns (DESIGN section 4; Airbyte, OLake and Kafka Connect do
the same on one node). ``MERGE INTO`` shuffles and sorts every row of the target.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    WINS,
    FoundPositions,
    Positions,
    collect_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.rows_of_files import rows_of_files
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import live_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.iceberg_row_merge import OLD, row_merge
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning, known_ranges
from airflow_lake_provider.spark_jobs.sql.columns import quoted
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, text_literal

ROW_ID = "_row_id"


@dataclass(frozen=True, kw_only=True)
class ResolvedRows:
    """The rows of a table that have a key of the batch.

    :param rows: one per row of the table: the keys, ``_file``, ``_row_id`` where the table has row lineage,
        ``_lake_wins`` and the columns that the merge reads, as ``_lake_old_...``; checkpointed. None for no rows. Of
        rows that a predicate matches all columns, for an update.
    :param place: where they stand, 8 bytes on the driver for each that the batch replaces or deletes.
    :param pruning: how the read was bounded, a sentence.
    """

    rows: DataFrame | None = None
    place: FoundPositions = field(default_factory=FoundPositions)
    pruning: str = "the table has no rows"

    @property
    def positions(self) -> Positions:
        """Of the rows that the batch replaces or deletes, by path of their data file."""
        return self.place.positions

    @property
    def found(self) -> int:
        """How many rows have a key of the batch; some of them may stay as they are."""
        return sum(self.place.found.values())

    @property
    def deleted(self) -> int:
        """How many rows the batch deletes."""
        return sum(self.place.deleted.values())

    @property
    def updated(self) -> int:
        """How many rows the batch replaces."""
        return sum(len(of_file) for of_file in self.positions.values()) - self.deleted

    def parted(self, paths: Set[str]) -> tuple[ResolvedRows, ResolvedRows]:
        """Return the rows outside and those inside some data files."""
        touched = paths & self.place.found.keys()
        if self.rows is None or not touched:
            return self, ResolvedRows()
        is_inside = sf.expr(f"_file IN ({', '.join(map(text_literal, sorted(touched)))})")
        outside = replace(
            self, rows=self.rows.filter(~is_inside), place=self.place.of_files(self.place.found.keys() - touched)
        )
        return outside, replace(self, rows=self.rows.filter(is_inside), place=self.place.of_files(touched))

    def and_those(self, others: ResolvedRows) -> ResolvedRows:
        """Return both, where ``others`` are in other data files."""
        if self.rows is None or others.rows is None:
            return others if self.rows is None else self
        return replace(self, rows=self.rows.unionByName(others.rows), place=self.place.and_those(others.place))


def resolve_rows(table: IcebergTable, commit: KeyedCommit) -> ResolvedRows:
    """Find the rows with a key of the batch at ``commit.base``."""
    if commit.base is None:
        return ResolvedRows()
    return _resolve(table, commit, table.rows_at(int(commit.base)))


def resolve_appended_rows(table: IcebergTable, commit: KeyedCommit, start: int, end: int) -> ResolvedRows:
    """Find them in the files that appends have added since ``start``, and read no others.

    :param start: exclusive; every snapshot from there to ``end`` is an append.
    """
    reader = table.spark.read.option("start-snapshot-id", str(start)).option("end-snapshot-id", str(end))
    return _resolve(table, commit, reader.table(table.sql_name), by_bucket=False)


def resolve_rows_of_files(table: IcebergTable, commit: KeyedCommit, paths: Set[str]) -> ResolvedRows | None:
    """Find them in some data files, and read no others.

    :param paths: those that are not live at ``commit.base`` have no rows there.
    :return: None where rows of chosen files cannot be told their position.
    """
    if not paths:
        return ResolvedRows()
    predicates, pruning = key_pruning(table, commit, quoted_name(table.name.table), by_bucket=False)
    tasks = live_tasks(table, int(commit.base or 0), paths, " AND ".join(predicates))
    if not tasks:
        return ResolvedRows(pruning=pruning)
    with rows_of_files(table, tasks) as held:
        return None if held is None else _found(table, commit, held, pruning)


def _resolve(table: IcebergTable, commit: KeyedCommit, held: DataFrame, *, by_bucket: bool = True) -> ResolvedRows:
    predicates, pruning = key_pruning(table, commit, "t", by_bucket=by_bucket)
    held = held.alias("t")
    for predicate in predicates:
        held = held.filter(sf.expr(predicate))
    return _found(table, commit, held, pruning)


def _found(table: IcebergTable, commit: KeyedCommit, held: DataFrame, pruning: str) -> ResolvedRows:
    merge = row_merge(table, commit)
    keys = [quoted(key) for key in commit.keys]
    lineage = [ROW_ID] if table.format_version >= 3 else []
    old = [quoted(name).alias(OLD + name.lower()) for name in merge.reads]
    changes = commit.rows.select(*keys, *(quoted(name) for name in deciding_columns(commit)))
    found = held.select(*keys, "_file", "_pos", *lineage, *old).join(sf.broadcast(changes), on=list(commit.keys))
    # Lazy: the job that collects the positions also fills it.
    found = found.withColumn(WINS, sf.expr(merge.wins or "true")).localCheckpoint(eager=False)
    place = collect_positions(found, known_ranges(commit).keys, commit.keys)
    return ResolvedRows(rows=found.drop("_pos", *deciding_columns(commit)), place=place, pruning=pruning)


def deciding_columns(commit: KeyedCommit) -> list[str]:
    """Return the columns of the batch, beside the keys, that decide whether its row changes the table's."""
    order = commit.order_by if commit.semantics.ignore_stale else ()
    markers = [name for name in MARKERS if name in commit.rows.columns]
    return [*markers, *(name for name in order if name not in commit.keys)]
