"""Rows of a table that were found for a batch or a predicate, with their positions."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import FoundPositions, Positions
from airflow_lake_provider.spark_jobs.sql.identifiers import text_literal

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
        """Number of rows that have a key of the batch; some of them may stay as they are."""
        return sum(self.place.found.values())

    @property
    def deleted(self) -> int:
        """Number of rows that the batch deletes."""
        return sum(self.place.deleted.values())

    @property
    def updated(self) -> int:
        """Number of rows that the batch replaces."""
        return sum(len(of_file) for of_file in self.positions.values()) - self.deleted

    def split_by_file(self, paths: Set[str]) -> tuple[ResolvedRows, ResolvedRows]:
        """Return the rows outside and those inside some data files."""
        inside = paths & self.place.found.keys()
        if self.rows is None or not inside:
            return self, ResolvedRows()
        is_inside = sf.expr(f"_file IN ({', '.join(map(text_literal, sorted(inside)))})")
        outside = replace(
            self, rows=self.rows.filter(~is_inside), place=self.place.of_files(self.place.found.keys() - inside)
        )
        return outside, replace(self, rows=self.rows.filter(is_inside), place=self.place.of_files(inside))

    def union(self, others: ResolvedRows) -> ResolvedRows:
        """Return both, where ``others`` are in other data files."""
        if self.rows is None or others.rows is None:
            return others if self.rows is None else self
        return replace(self, rows=self.rows.unionByName(others.rows), place=self.place.union(others.place))
