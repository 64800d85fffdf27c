"""Key changes that the border of a batch cuts: their deletes, to remember, and creates of deletes applied earlier.

A delete is one half of a key change where it tells the new key, as headers of Kafka's records do. Events without them
tell none. There the delete at the batch's greatest position may be one, since nothing stands between the two
halves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from airflow_lake_provider.contracts.applied.open_key_changes import CutDelete, OpenKeyChange
from airflow_lake_provider.spark_jobs.formats.base import KeyHistory
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, op_is
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

_SEQUENCE = ["first", "second"]
# More than a table remembers.
_MOST_KEPT = 200
_UNSIGNED = 2**64


@dataclass(frozen=True, kw_only=True)
class OldRows:
    """The old keys' rows of creates whose delete was applied by an earlier run.

    :param roots: for ``unavailable_values.last_known_values``; None where there are no such creates.
    :param rows_at: rows of the table by snapshot.
    :param unknown: creates of which nothing is known; ``expired``: of which the snapshot is gone.
    """

    roots: DataFrame | None = None
    rows_at: Mapping[str, DataFrame] = field(default_factory=dict)
    unknown: int = 0
    expired: int = 0

    @property
    def hint(self) -> str:
        """Event that a value that stays unknown may wait for; empty where nothing is known of that."""
        if self.expired:
            return (
                f"{self.expired} of them are of rows whose key changed, and the snapshots with the old rows have "
                "expired: take a new snapshot of these rows, and expire snapshots later than the source delivers"
            )
        if self.unknown:
            return (
                f"{self.unknown} rows have changed their key, and the delete of its old key is neither in the batch "
                "nor was it applied lately: it may be in a file that has not come yet. Nothing was applied; run "
                "again when it is there"
            )
        return ""


def key_hash(key: Column, keys: Sequence[str]) -> Column:
    """Return 64 bits of a struct ``k0, k1, ...``, the same after its types were widened."""
    return sf.xxhash64(*(key[f"k{i}"].cast("string") for i in range(len(keys))))


def cut_deletes(events: DataFrame, keys: Sequence[str]) -> tuple[CutDelete, ...]:
    """Return the deletes whose create is not among the events, newest first, no more than a table remembers.

    :param events: see ``last_known_values``, and ``new_key`` (struct, NULL where it is not told).
    """
    greatest = events.agg(
        sf.max(sf.struct(*_SEQUENCE)).alias("greatest"),
        sf.count_if(sf.coalesce("new_key", "old_key").isNotNull()).alias("told"),
    )
    halves = events.groupBy(*_SEQUENCE).agg(
        sf.count_if(op_is(CREATE)).alias("creates"),
        sf.collect_set(sf.when(op_is(DELETE), key_hash(sf.col("key"), keys))).alias("deleted"),
        sf.bool_or(sf.col("new_key").isNotNull()).alias("moves"),
    )
    is_last = (sf.struct(*_SEQUENCE) == sf.col("greatest")) & (sf.col("told") == 0)
    cut = (
        halves.filter("creates = 0 AND size(deleted) > 0")
        .join(sf.broadcast(greatest), sf.col("moves") | is_last)
        .orderBy(*(sf.col(name).desc() for name in _SEQUENCE))
        .limit(_MOST_KEPT)
        .select(*_SEQUENCE, "deleted")
    )
    deletes = sorted((first, second, hashed) for first, second, deleted in cut.collect() for hashed in deleted)
    return tuple(_in_rounds(deletes, _begins(events, {hashed for _, _, hashed in deletes}, keys)))[::-1]


def _begins(events: DataFrame, hashes: Collection[int], keys: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Return where the first event of each of some keys stands."""
    if not hashes:
        return {}
    hashed = events.select(key_hash(sf.col("key"), keys).alias("hash"), *_SEQUENCE)
    begins = hashed.filter(sf.col("hash").isin(*hashes)).groupBy("hash").agg(sf.min(sf.struct(*_SEQUENCE)))
    return {key: (first, second) for key, (first, second) in begins.collect()}


def _in_rounds(deletes: Iterable[tuple[int, int, int]], begins: Mapping[int, tuple[int, int]]) -> Iterator[CutDelete]:
    rounds: dict[int, int] = {}
    for first, position, hashed in deletes:
        rounds[hashed] = rounds.get(hashed, -1) + 1
        yield CutDelete(
            first=first,
            position=position,
            key_hash=hashed % _UNSIGNED,
            changed=begins[hashed] < (first, position),
            round=rounds[hashed],
        )


def _signed(hashed: int) -> int:
    return hashed - _UNSIGNED if hashed >= _UNSIGNED // 2 else hashed


def last_rows(
    events: DataFrame, cut: Sequence[CutDelete], keys: Sequence[str], rows_of: Callable[[DataFrame], DataFrame]
) -> dict[int, DataFrame]:
    """Return, by round, the rows that the batch changed before it deleted them, as they were last.

    :param rows_of: makes rows of what came before the deletes of a round; ``is_cut`` tells their keys.
    """
    by_round = {}
    for number in {delete.round for delete in cut if delete.changed}:
        deletes = [delete for delete in cut if delete.round == number]
        rows = rows_of(_events_before(events, deletes, keys).localCheckpoint()).localCheckpoint()
        if not rows.isEmpty():
            by_round[number] = rows
    return by_round


def _events_before(events: DataFrame, deletes: Sequence[CutDelete], keys: Sequence[str]) -> DataFrame:
    """Return the events without those of the deletes' keys from each delete on; ``is_cut`` tells these keys.

    :param deletes: at most one of a key.
    """
    ended = [(_signed(delete.key_hash), delete.first, delete.position) for delete in deletes]
    ends = _integers(events.sparkSession, ended, ("h", "f", "s"))
    joined = events.join(sf.broadcast(ends), key_hash(sf.col("key"), keys) == sf.col("h"), "left")
    # Spark 3.5 compares only structs whose fields have the same names.
    end = sf.struct(*(sf.col(name).alias(place) for name, place in zip(("f", "s"), _SEQUENCE, strict=True)))
    is_before = sf.col("h").isNull() | (sf.struct(*_SEQUENCE) < end)
    return joined.filter(is_before).withColumn("is_cut", sf.col("h").isNotNull()).drop("h", "f", "s")


def _integers(spark: SparkSession, rows: Sequence[tuple[int, ...]], names: Sequence[str]) -> DataFrame:
    # As an Arrow table: rows of Python objects would start a Python worker.
    columns = {name: pa.array([row[place] for row in rows], pa.int64()) for place, name in enumerate(names)}
    return dataframe_of(spark, pa.table(columns))


def old_rows(
    events: DataFrame,
    history: KeyHistory,
    types: Mapping[str, DataType],
    keys: Sequence[str],
    *,
    every: bool = False,
) -> OldRows:
    """Find the old keys' rows of creates with unavailable values.

    :param every: also of those whose delete is among the events; it may have been applied before.
    """
    deletes = events.filter(op_is(DELETE)).select(*_SEQUENCE).distinct()
    creates = events.filter(op_is(CREATE) & (sf.size("holes") > 0))
    creates = creates if every else creates.join(deletes, _SEQUENCE, "left_anti")
    hashed = sf.when(sf.col("old_key").isNotNull(), key_hash(sf.col("old_key"), keys)).alias("hash")
    wanted = creates.select(*_SEQUENCE, hashed).distinct().collect()
    entries = [(first, second, _remembered(history, second, old)) for first, second, old in wanted]
    known = [(first, second, entry) for first, second, entry in entries if entry is not None]
    rows_at = {at: history.rows_then(at) for at in {entry.snapshot for _, _, entry in known}}
    present = {at: rows for at, rows in rows_at.items() if rows is not None}
    kept = [(first, second, entry) for first, second, entry in known if entry.snapshot in present]
    roots = [_roots(present[at], at, kept, types, keys) for at in present]
    return OldRows(
        roots=reduce(DataFrame.unionByName, roots) if roots else None,
        rows_at=present,
        unknown=len(entries) - len(known),
        expired=len(known) - len(kept),
    )


def _remembered(history: KeyHistory, position: int, hashed: int | None) -> OpenKeyChange | None:
    entries = [e for e in history.open_changes.at(position) if hashed is None or e.key_hash == hashed % _UNSIGNED]
    # Several old keys with one position tell nothing where the old key is not told.
    return entries[0] if len(entries) == 1 else None


def _roots(
    rows: DataFrame,
    at: str,
    changes: Sequence[tuple[int, int, OpenKeyChange]],
    types: Mapping[str, DataType],
    keys: Sequence[str],
) -> DataFrame:
    """Return ``first``, ``second`` and ``root`` of the creates whose old row is in a snapshot."""
    wanted = [(first, second, _signed(entry.key_hash)) for first, second, entry in changes if entry.snapshot == at]
    creates = _integers(rows.sparkSession, wanted, ("first", "second", "h"))
    key = sf.struct(*(quoted(name).cast(types[name]).alias(f"k{i}") for i, name in enumerate(keys)))
    old_keys = rows.select(key.alias("key"))
    joined = old_keys.join(sf.broadcast(creates), key_hash(sf.col("key"), keys) == sf.col("h"))
    root = sf.struct("key", sf.lit(at).alias("at")).alias("root")
    return joined.select(*_SEQUENCE, root).localCheckpoint()
