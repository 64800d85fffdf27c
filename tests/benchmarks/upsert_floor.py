"""Measure the floor of an upsert: what no upsert of these rows can do without, on this machine and in this run.

It has three parts: one pass over the key column of the data files that may hold a key of the batch, one write of the
batch's rows as one data file, and one commit of it. The commit goes to a branch, so main stays as it is.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

BRANCH = "floor"
# The hash keeps Iceberg from answering of metadata, and the vectorised reader reads no other column.
KEY_PASS = "SELECT bit_xor(xxhash64(id)) FROM {table} WHERE id BETWEEN {low} AND {high}"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Seconds of each part.

    :param key_pass: over the key column of the candidate files.
    :param write: of the batch's rows, as one Parquet file.
    :param commit: of that file.
    """

    key_pass: float
    write: float
    commit: float

    @property
    def seconds(self) -> float:
        """Sum of the parts."""
        return self.key_pass + self.write + self.commit

    def __str__(self) -> str:
        parts = f"key column {self.key_pass:.2f} s, write {self.write:.2f} s, commit {self.commit:.2f} s"
        return f"floor {self.seconds:.2f} s: {parts}"

    def to_plain(self) -> dict[str, float]:
        """Return the parts for JSON."""
        return {name: round(seconds, 3) for name, seconds in vars(self).items()}

    @classmethod
    def of_plain(cls, plain: Mapping[str, float]) -> Floor:
        """Return what :meth:`to_plain` has written."""
        return cls(**plain)

    @classmethod
    def median(cls, floors: Sequence[Floor]) -> Floor:
        """Return the median of each part."""
        parts = ("key_pass", "write", "commit")
        return cls(**{part: statistics.median(getattr(floor, part) for floor in floors) for part in parts})


def measure_floor(
    spark: SparkSession, table: str, batch: str, home: Path, *, rounds: int = 3, warm_up: int = 1
) -> Floor:
    """Return the median of each part; the table's main stays as it is.

    :param table: an Iceberg table with a number ``id`` as its key.
    :param batch: folder of Parquet files.
    :param home: an empty folder is made in it for the data file.
    :param warm_up: rounds that are not counted.
    """
    folder = home / f"floor-{uuid.uuid4().hex}"
    rows = spark.read.parquet(batch)
    low, high = rows.selectExpr("min(id)", "max(id)").collect()[0]
    key_pass = KEY_PASS.format(table=table, low=low, high=high)
    # What reading the batch takes is the batch's, not the write's.
    cached = rows.coalesce(1).cache()
    count = cached.count()
    catalog: Any = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    java = catalog.loadIcebergTable(spark._jsparkSession, table)
    try:
        played = [
            Floor(
                key_pass=_seconds_of_query(spark, key_pass),
                write=_seconds_of_write(cached, folder / str(number)),
                commit=_seconds_of_commit(spark, java, folder / str(number), count),
            )
            for number in range(warm_up + rounds)
        ]
    finally:
        cached.unpersist()
        _remove_branch(java)
    return Floor.median(played[warm_up:])


def _seconds_of_query(spark: SparkSession, query: str) -> float:
    started = time.monotonic()
    spark.sql(query).collect()
    return time.monotonic() - started


def _seconds_of_write(rows: DataFrame, folder: Path) -> float:
    started = time.monotonic()
    rows.write.parquet(str(folder))
    return time.monotonic() - started


def _seconds_of_commit(spark: SparkSession, java: Any, folder: Path, rows: int) -> float:
    (file,) = folder.glob("part-*.parquet")
    started = time.monotonic()
    builder = spark._jvm.org.apache.iceberg.DataFiles.builder(java.spec())  # type: ignore[union-attr]
    input_file = java.io().newInputFile(f"file:{file}")
    data_file = builder.withInputFile(input_file).withFormat("parquet").withRecordCount(rows).build()
    java.newFastAppend().appendFile(data_file).toBranch(BRANCH).commit()
    return time.monotonic() - started


def _remove_branch(java: Any) -> None:
    java.refresh()
    if java.refs().containsKey(BRANCH):
        java.manageSnapshots().removeBranch(BRANCH).commit()
