"""Where the keys of a batch stand in a table: only key columns of files that may hold one are read.

Resolving costs the batch and one pruned read of the key columns (DESIGN section 4; Airbyte, OLake and Kafka Connect do
the same on one node). ``MERGE INTO`` shuffles and sorts every row of the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.change_batch import MARKERS
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.found_positions import WINS, Positions, collect_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning, known_ranges
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.row_merge import OLD, row_merge
from airflow_lake_provider.spark_jobs.latest_changes import quoted

ROW_ID = "_row_id"


@dataclass(frozen=True, kw_only=True)
class ResolvedRows:
    """The rows of a table that have a key of the batch.

    :param rows: one per row of the table: the keys, ``_row_id`` where the table has row lineage, ``_lake_wins`` and the
        columns that the merge reads, as ``_lake_old_...``; checkpointed. None for a table without rows.
    :param positions: of those that the batch replaces or deletes by path of their data file, 8 bytes each on the
        driver.
    :param found: how many of them there are.
    :param updated: how many of them the batch replaces; ``deleted``: how many it deletes. The others stay as they are.
    :param pruning: how the read was bounded, a sentence.
    """

    rows: DataFrame | None = None
    positions: Positions = field(default_factory=dict)
    found: int = 0
    updated: int = 0
    deleted: int = 0
    pruning: str = "the table has no rows"

    def and_appended(self, appended: ResolvedRows) -> ResolvedRows:
        """Return both, where ``appended`` is in files that were not there when this was resolved."""
        both = self.rows is not None and appended.rows is not None
        return ResolvedRows(
            rows=self.rows.unionByName(appended.rows) if both else self.rows,  # type: ignore[union-attr, arg-type]
            positions={**self.positions, **appended.positions},
            found=self.found + appended.found,
            updated=self.updated + appended.updated,
            deleted=self.deleted + appended.deleted,
            pruning=self.pruning,
        )


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
    return _resolve(table, commit, reader.table(table.sql_name))


def _resolve(table: IcebergTable, commit: KeyedCommit, held: DataFrame) -> ResolvedRows:
    predicates, pruning = key_pruning(table, commit, "t")
    held = held.alias("t")
    for predicate in predicates:
        held = held.filter(sf.expr(predicate))
    merge = row_merge(table, commit)
    keys = [quoted(key) for key in commit.keys]
    lineage = [ROW_ID] if table.format_version >= 3 else []
    old = [quoted(name).alias(OLD + name.lower()) for name in merge.reads]
    changes = commit.rows.select(*keys, *(quoted(name) for name in deciding_columns(commit)))
    found = held.select(*keys, "_file", "_pos", *lineage, *old).join(sf.broadcast(changes), on=list(commit.keys))
    # Lazy: the job that collects the positions also fills it.
    found = found.withColumn(WINS, sf.expr(merge.wins or "true")).localCheckpoint(eager=False)
    place = collect_positions(found, known_ranges(commit).keys)
    return ResolvedRows(
        rows=found.drop("_file", "_pos", *deciding_columns(commit)),
        positions=place.positions,
        found=place.found,
        updated=sum(len(of_file) for of_file in place.positions.values()) - place.deleted,
        deleted=place.deleted,
        pruning=pruning,
    )


def deciding_columns(commit: KeyedCommit) -> list[str]:
    """Return the columns of the batch, beside the keys, that decide whether its row changes the table's."""
    order = commit.order_by if commit.semantics.ignore_stale else ()
    markers = [name for name in MARKERS if name in commit.rows.columns]
    return [*markers, *(name for name in order if name not in commit.keys)]
