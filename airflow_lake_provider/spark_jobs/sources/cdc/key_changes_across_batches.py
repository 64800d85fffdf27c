"""Key changes that the border of a batch cuts: their deletes, to remember, and creates of deletes applied earlier.

A delete is one half of a key change where it tells the new key, as headers of Kafka's records do. Events without them
tell none. There the delete at the batch's greatest position may be one, since nothing stands between the two
halves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from airflow_lake_provider.contracts.applied.open_key_changes import CutDelete, OpenKeyChange
from airflow_lake_provider.contracts.applied.stream_remedies import OF_FILES, StreamRemedies
from airflow_lake_provider.spark_jobs.formats.base import KeyHistory
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, op_is
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

# More than a table remembers.
_MOST_KEPT = 200
_UNSIGNED = 2**64
# Of a place in the log.
Numbers = tuple[int, ...]


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
    remedies: StreamRemedies = OF_FILES

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
                f"nor was it applied lately: it may be {self.remedies.may_come}"
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
        sf.max("position").alias("greatest"),
        sf.count_if(sf.coalesce("new_key", "old_key").isNotNull()).alias("told"),
    )
    halves = events.groupBy("position", "ordinal").agg(
        sf.count_if(op_is(CREATE)).alias("creates"),
        sf.collect_set(sf.when(op_is(DELETE), key_hash(sf.col("key"), keys))).alias("deleted"),
        sf.bool_or(sf.col("new_key").isNotNull()).alias("moves"),
    )
    is_last = (sf.col("position") == sf.col("greatest")) & (sf.col("told") == 0)
    cut = (
        halves.filter("creates = 0 AND size(deleted) > 0")
        .join(sf.broadcast(greatest), sf.col("moves") | is_last)
        .orderBy(sf.desc("position"))
        .limit(_MOST_KEPT)
        .select("position", "ordinal", "deleted")
    )
    rows = [(_numbers(position), int(ordinal), deleted) for position, ordinal, deleted in cut.collect()]
    deletes = sorted((position, ordinal, hashed) for position, ordinal, deleted in rows for hashed in deleted)
    return tuple(_in_rounds(deletes, _begins(events, {hashed for _, _, hashed in deletes}, keys)))[::-1]


def _numbers(position: Iterable[int | Decimal]) -> Numbers:
    return tuple(map(int, position))


def _begins(events: DataFrame, hashes: Collection[int], keys: Sequence[str]) -> dict[int, Numbers]:
    """Return where the first event of each of some keys stands."""
    if not hashes:
        return {}
    hashed = events.select(key_hash(sf.col("key"), keys).alias("hash"), "position")
    begins = hashed.filter(sf.col("hash").isin(*hashes)).groupBy("hash").agg(sf.min("position"))
    return {key: _numbers(position) for key, position in begins.collect()}


def _in_rounds(deletes: Iterable[tuple[Numbers, int, int]], begins: Mapping[int, Numbers]) -> Iterator[CutDelete]:
    rounds: dict[int, int] = {}
    for position, ordinal, hashed in deletes:
        rounds[hashed] = rounds.get(hashed, -1) + 1
        yield CutDelete(
            position=position,
            ordinal=ordinal,
            key_hash=hashed % _UNSIGNED,
            changed=begins[hashed] < position,
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
    ends = _placed(events, [(_signed(delete.key_hash), delete.position, delete.ordinal) for delete in deletes])
    ends = ends.select("h", sf.col("position").alias("end"))
    joined = events.join(sf.broadcast(ends), key_hash(sf.col("key"), keys) == sf.col("h"), "left")
    is_before = sf.col("h").isNull() | (sf.col("position") < sf.col("end"))
    return joined.filter(is_before).withColumn("is_cut", sf.col("h").isNotNull()).drop("h", "end")


def _placed(events: DataFrame, rows: Iterable[tuple[int, Numbers, int]]) -> DataFrame:
    """Return ``h``, ``position`` and ``ordinal``, of the types that the events have."""
    kinds = {name: events.schema[name].dataType for name in ("position", "ordinal")}
    names = events.select("position.*").columns
    texts = [json.dumps([*map(str, (hashed, *position, ordinal))]) for hashed, position, ordinal in rows]
    # As an Arrow table: rows of Python objects would start a Python worker.
    frame = dataframe_of(events.sparkSession, pa.table({"text": pa.array(texts, pa.string())}))
    numbers = [sf.get(sf.from_json("text", "ARRAY<STRING>"), sf.lit(i)) for i in range(len(names) + 2)]
    position = sf.struct(*(number.alias(name) for name, number in zip(names, numbers[1:-1], strict=True)))
    return frame.select(
        numbers[0].cast("bigint").alias("h"),
        position.cast(kinds["position"]).alias("position"),
        numbers[-1].cast(kinds["ordinal"]).alias("ordinal"),
    )


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
    deletes = events.filter(op_is(DELETE)).select("position").distinct()
    creates = events.filter(op_is(CREATE) & (sf.size("holes") > 0))
    creates = creates if every else creates.join(deletes, "position", "left_anti")
    hashed = sf.when(sf.col("old_key").isNotNull(), key_hash(sf.col("old_key"), keys)).alias("hash")
    wanted = creates.select("position", "ordinal", hashed).distinct().collect()
    entries = [(_numbers(position), _remembered(history, int(ordinal), old)) for position, ordinal, old in wanted]
    remembered = [(position, entry) for position, entry in entries if entry is not None]
    rows_at = {at: history.rows_then(at) for at in {entry.snapshot for _, entry in remembered}}
    present = {at: rows for at, rows in rows_at.items() if rows is not None}
    kept = [(position, entry) for position, entry in remembered if entry.snapshot in present]
    roots = [_roots(present[at], at, _placed(events, _of_snapshot(kept, at)), types, keys) for at in present]
    return OldRows(
        roots=reduce(DataFrame.unionByName, roots) if roots else None,
        rows_at=present,
        unknown=len(entries) - len(remembered),
        expired=len(remembered) - len(kept),
    )


def _remembered(history: KeyHistory, ordinal: int, hashed: int | None) -> OpenKeyChange | None:
    entries = [e for e in history.open_changes.at(ordinal) if hashed is None or e.key_hash == hashed % _UNSIGNED]
    # Several old keys with one position tell nothing where the old key is not told.
    return entries[0] if len(entries) == 1 else None


def _of_snapshot(changes: Iterable[tuple[Numbers, OpenKeyChange]], at: str) -> Iterator[tuple[int, Numbers, int]]:
    for position, entry in changes:
        if entry.snapshot == at:
            yield _signed(entry.key_hash), position, entry.ordinal


def _roots(
    rows: DataFrame,
    at: str,
    creates: DataFrame,
    types: Mapping[str, DataType],
    keys: Sequence[str],
) -> DataFrame:
    """Return ``position``, ``ordinal`` and ``root`` of the creates whose old row is in a snapshot."""
    key = sf.struct(*(quoted(name).cast(types[name]).alias(f"k{i}") for i, name in enumerate(keys)))
    old_keys = rows.select(key.alias("key"))
    joined = old_keys.join(sf.broadcast(creates), key_hash(sf.col("key"), keys) == sf.col("h"))
    root = sf.struct("key", sf.lit(at).alias("at")).alias("root")
    return joined.select("position", "ordinal", root).localCheckpoint()
