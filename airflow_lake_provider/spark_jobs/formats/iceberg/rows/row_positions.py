"""Rows found by key, and their positions on the driver: listed when few, as bitmaps of the executors when many."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, text_literal
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow

# Whether the row of the batch changes this one.
WINS = "_lake_wins"
# Rows, some 130 bytes each with the path of their file. Up to here they are quicker collected than aggregated.
MOST_LISTED = 200_000
# Positions per bitmap of Spark's bitmap functions, 4 KiB each.
_BUCKET = 32_768

Positions = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class FoundPositions:
    """Positions of the rows that a batch has keys of, by path of their data file.

    :param positions: of those that it changes, ascending.
    :param row_counts: how many rows have a key of the batch.
    :param deleted: of those in ``positions``, how many the batch deletes.
    :param upserted: how many have a row of the batch that does not delete, by path as well.
    :param may_repeat: whether more than one of the rows may have one key.
    """

    positions: Positions = field(default_factory=dict)
    row_counts: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)
    upserted: Mapping[str, int] = field(default_factory=dict)
    may_repeat: bool = False

    def of_files(self, paths: Collection[str]) -> FoundPositions:
        """Return those in some of the files."""
        return FoundPositions(
            positions={path: of_file for path, of_file in self.positions.items() if path in paths},
            row_counts={path: rows for path, rows in self.row_counts.items() if path in paths},
            deleted={path: rows for path, rows in self.deleted.items() if path in paths},
            upserted={path: rows for path, rows in self.upserted.items() if path in paths},
            may_repeat=self.may_repeat,
        )

    def union(self, others: FoundPositions) -> FoundPositions:
        """Return both, where ``others`` are in other files."""
        return FoundPositions(
            positions={**self.positions, **others.positions},
            row_counts={**self.row_counts, **others.row_counts},
            deleted={**self.deleted, **others.deleted},
            upserted={**self.upserted, **others.upserted},
            # A key may be among both.
            may_repeat=self.may_repeat or others.may_repeat or bool(self.row_counts and others.row_counts),
        )


def collect_positions(matched: DataFrame, keys: int | None, names: Sequence[str] = ()) -> FoundPositions:
    """Run the join behind ``matched``, and bring the positions to the driver.

    What the driver receives is bounded by 26 MB for up to :data:`MOST_LISTED` keys. Beyond, one bit for each row of the
    data files that have a hit is the bound, 125 MB for a billion rows. A table that has its keys many times may exceed
    it.

    :param matched: with ``_file``, ``_pos``, ``_lake_wins`` and ``_lake_deleted``.
    :param keys: how many the batch has; None when nobody knows how many rows there are.
    :param names: the key columns, to tell whether a key was found twice; empty where nobody asks.
    """
    return _listed(matched, names) if keys is not None and keys <= MOST_LISTED else _from_bitmaps(matched, names)


def _listed(matched: DataFrame, names: Sequence[str]) -> FoundPositions:
    key = _hash(names) if names else sf.monotonically_increasing_id()
    deletes = (sf.col(WINS) & sf.col(DELETED)).alias("deletes")
    upserts = (~sf.col(DELETED)).alias("upserts")
    rows = to_arrow(matched.select("_file", "_pos", WINS, deletes, upserts, key.alias("key")))
    counts = rows.group_by("_file").aggregate([("_pos", "count"), ("deletes", "sum"), ("upserts", "sum")])
    changed = rows.filter(rows.column(WINS)).group_by("_file").aggregate([("_pos", "list")])
    lists = changed.column("_pos_list")
    paths = changed.column("_file").to_pylist()
    return FoundPositions(
        positions={path: np.unique(lists[index].values.to_numpy()) for index, path in enumerate(paths)},
        row_counts=_by_path(counts, "_pos_count"),
        deleted=_by_path(counts, "deletes_sum"),
        upserted=_by_path(counts, "upserts_sum"),
        may_repeat=pc.count_distinct(rows.column("key")).as_py() < rows.num_rows,
    )


def _hash(names: Sequence[str]) -> Column:
    return sf.xxhash64(*map(quoted, names))


def _from_bitmaps(matched: DataFrame, names: Sequence[str]) -> FoundPositions:
    # Counted from 1: position 0 would be in a bucket of its own.
    number = sf.when(sf.col(WINS), sf.col("_pos") + 1)
    buckets = matched.groupBy("_file", sf.bitmap_bucket_number(number).alias("bucket")).agg(
        sf.bitmap_construct_agg(sf.bitmap_bit_position(number)).alias("bitmap"),
        sf.count_if(sf.col(WINS) & sf.col(DELETED)).alias("deletes"),
        sf.count_if(~sf.col(DELETED)).alias("upserts"),
        sf.count(sf.lit(1)).alias("found"),
    )
    rows = to_arrow(buckets)
    counts = rows.group_by("_file").aggregate([("found", "sum"), ("deletes", "sum"), ("upserts", "sum")])
    # A shuffle of 8 bytes for each key, for which later steps drop no repeats: they would shuffle whole rows. Two keys
    # with one hash are taken for a repeat.
    distinct = matched.agg(sf.count_distinct(_hash(names))).collect()[0][0] if names else None
    may_repeat = distinct is not None and distinct < (pc.sum(rows.column("found")).as_py() or 0)
    return FoundPositions(
        positions=_unpacked(rows),
        row_counts=_by_path(counts, "found_sum"),
        deleted=_by_path(counts, "deletes_sum"),
        upserted=_by_path(counts, "upserts_sum"),
        may_repeat=may_repeat,
    )


def _unpacked(rows: pa.Table) -> Positions:
    positions: dict[str, list[NDArray[np.int64]]] = {}
    changed = rows.filter(pc.is_valid(rows.column("bucket"))).sort_by("bucket")
    for batch in changed.to_batches():
        bitmaps = batch.column("bitmap")
        places = zip(batch.column("_file").to_pylist(), batch.column("bucket").to_pylist(), strict=True)
        for index, (path, bucket) in enumerate(places):
            bits = np.frombuffer(bitmaps[index].as_buffer(), dtype=np.uint8)
            inside = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            positions.setdefault(path, []).append(inside + (bucket - 1) * _BUCKET)
    return {path: np.concatenate(of_file) for path, of_file in positions.items()}


def _by_path(rows: pa.Table, column: str) -> dict[str, int]:
    return dict(zip(rows.column("_file").to_pylist(), pc.fill_null(rows.column(column), 0).to_pylist(), strict=True))


ROW_ID = "_row_id"


def place_columns(format_version: int) -> list[str]:
    """Return the metadata columns of where a row is, and of its id where the table has ids."""
    return ["_file", "_pos", *([ROW_ID] if format_version >= 3 else [])]


@dataclass(frozen=True, kw_only=True)
class ResolvedRows:
    """The rows of a table that have a key of the batch.

    :param rows: one per row of the table, checkpointed. Columns are the keys, ``_file``, ``_row_id`` where the table
        has row lineage, ``_lake_wins``, and as ``_lake_old_...`` the columns that the merge reads. None for no rows. Of
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
    def row_count(self) -> int:
        """Number of rows that have a key of the batch; some of them may stay as they are."""
        return sum(self.place.row_counts.values())

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
        inside = paths & self.place.row_counts.keys()
        if self.rows is None or not inside:
            return self, ResolvedRows()
        is_inside = sf.expr(f"_file IN ({', '.join(map(text_literal, sorted(inside)))})")
        outside = replace(
            self, rows=self.rows.filter(~is_inside), place=self.place.of_files(self.place.row_counts.keys() - inside)
        )
        return outside, replace(self, rows=self.rows.filter(is_inside), place=self.place.of_files(inside))

    def union(self, others: ResolvedRows) -> ResolvedRows:
        """Return both, where ``others`` are in other data files."""
        if self.rows is None or others.rows is None:
            return others if self.rows is None else self
        return replace(self, rows=self.rows.unionByName(others.rows), place=self.place.union(others.place))
