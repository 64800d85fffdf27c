"""Where the keys of a batch stand in a table: only key columns of files that may hold one are read.

Resolving costs the batch and one pruned read of the key columns (DESIGN section 4; Airbyte, OLake and Kafka Connect do
the same on one node). ``MERGE INTO`` shuffles and sorts every row of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable
from airflow_lake_provider.spark_jobs.latest_changes import quoted

ROW_ID = "_row_id"
Positions = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class ResolvedRows:
    """The rows of a table that have a key of the batch.

    :param rows: one per row of the table: the keys, ``_row_id`` where the table has row lineage, and the columns asked
        for; checkpointed. None for a table without rows.
    :param positions: of all of them by path of their data file, 8 bytes each on the driver.
    :param updated: how many of them the batch replaces; ``deleted``: how many it deletes.
    :param pruning: how the read was bounded, a sentence.
    """

    rows: DataFrame | None = None
    positions: Positions = field(default_factory=dict)
    updated: int = 0
    deleted: int = 0
    pruning: str = "the table has no rows"

    def and_appended(self, appended: ResolvedRows) -> ResolvedRows:
        """Return both, where ``appended`` is in files that were not there when this was resolved."""
        return ResolvedRows(
            rows=self.rows,
            positions={**self.positions, **appended.positions},
            updated=self.updated + appended.updated,
            deleted=self.deleted + appended.deleted,
            pruning=self.pruning,
        )


def resolve_rows(table: IcebergTable, commit: KeyedCommit, columns: Sequence[str] = ()) -> ResolvedRows:
    """Find the rows with a key of the batch at ``commit.base``.

    :param columns: others to keep of these rows.
    """
    if commit.base is None:
        return ResolvedRows()
    return _resolve(table, commit, table.rows_at(int(commit.base)), columns)


def resolve_appended_rows(table: IcebergTable, commit: KeyedCommit, start: int, end: int) -> ResolvedRows:
    """Find them in the files that appends have added since ``start``, and read no others.

    :param start: exclusive; every snapshot from there to ``end`` is an append.
    """
    reader = table.spark.read.option("start-snapshot-id", str(start)).option("end-snapshot-id", str(end))
    return _resolve(table, commit, reader.table(table.sql_name), ())


def _resolve(table: IcebergTable, commit: KeyedCommit, held: DataFrame, columns: Sequence[str]) -> ResolvedRows:
    predicates, pruning = key_pruning(table, commit, "t")
    held = held.alias("t")
    for predicate in predicates:
        held = held.filter(sf.expr(predicate))
    keys = [quoted(key) for key in commit.keys]
    lineage = [ROW_ID] if table.format_version >= 3 else []
    held = held.select(*keys, "_file", "_pos", *lineage, *(quoted(name) for name in columns))
    found = held.join(sf.broadcast(commit.rows.select(*keys, DELETED)), on=list(commit.keys))
    # Lazy: the job that collects the positions also fills it.
    found = found.localCheckpoint(eager=False)
    by_file = found.groupBy("_file").agg(
        sf.collect_list("_pos").alias("positions"), sf.count_if(DELETED).alias("deleted")
    )
    positions, deleted = _collect(by_file.toArrow())
    touched = sum(len(of_file) for of_file in positions.values())
    return ResolvedRows(
        rows=found.drop("_file", "_pos", DELETED),
        positions=positions,
        updated=touched - deleted,
        deleted=deleted,
        pruning=pruning,
    )


def _collect(by_file: pa.Table) -> tuple[Positions, int]:
    positions: dict[str, NDArray[np.int64]] = {}
    for batch in by_file.to_batches():
        lists = batch.column("positions")
        for index, path in enumerate(batch.column("_file").to_pylist()):
            positions[path] = np.unique(lists[index].values.to_numpy())
    return positions, sum(by_file.column("deleted").to_pylist())
