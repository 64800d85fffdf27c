"""The events of a batch in one line per key with what the table knows: its rows, deleted keys and key changes.

What the table knows takes the form of events: ``held`` a row, at the row's position; ``removed`` a delete that was
applied; ``begun`` the begin of a key, where a key change or an earlier create put it. So late events find their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from airflow_lake_provider.contracts.applied.position_column import PLACE_TYPE, POSITION_COLUMN, POSITION_TYPE
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.formats.base import KeyHistory
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import FIRST, LAST, in_lines, place_at, place_of
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_changes_across_batches import OldRows
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# Kinds of what the table knows, in ``op`` beside those of events. A row that the table holds.
HELD = "held"
# A delete that was applied, or the flagged row of one.
REMOVED = "removed"
# The begin of a key, where a key change or an earlier create put it.
BEGUN = "begun"
_MAX_ROUNDS = 40
_HELD = f"STRUCT<known: {PLACE_TYPE}, since: {PLACE_TYPE}, older: MAP<STRING, {PLACE_TYPE}>, position: {POSITION_TYPE}>"


@dataclass(frozen=True, kw_only=True)
class KeyOrder:
    """Knowledge of a table about the keys of a source with ``ordering="key"``.

    :param history: of the table; ``epoch`` as it has it, or the next.
    :param schema: of the table; None where there is none.
    :param rows: of the table; None where it has none.
    :param deleted_keys: of the history, read after the table's base was: a commit adds to them before it is made.
    :param deleted_column: where deletes are soft.
    :param again: whether an event at the position of its row is applied once more.
    """

    epoch: int
    schema: StructType | None = None
    rows: DataFrame | None = None
    deleted_keys: DataFrame | None = None
    history: KeyHistory = field(default_factory=KeyHistory)
    deleted_column: str | None = None
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class KeyTimeline:
    """Builds the lines.

    :param types: of the batch's columns.
    """

    order: KeyOrder
    keys: Sequence[str]
    types: Mapping[str, DataType]

    def of(self, events: DataFrame, old: OldRows) -> DataFrame:
        """Return the events and what the table knows of their keys, and of those that the keys have changed to.

        :param events: ``key``, ``op``, ``second``, ``last_commit``, ``_lake_arrival``, ``after``, ``holes``, ``types``,
            ``old_key``, ``new_key``, ``ts_ms``.
        :param old: rows of old keys in snapshots.
        :return: the same columns but ``last_commit``; ``place``, in the log; ``second``, the number in the key's line,
            and ``first``, the same; ``is_new``, of the batch; ``held``, of rows; ``line``, its places as numbers;
            ``known``, the number up to which the values of a deleted key had come; ``at``, the snapshot of rows.
        """
        new_events = self._with_implied(events, old)
        deletes, keys = self._deletes(new_events.select("key").distinct())
        frames = [new_events, *deletes, *self._old_rows(old), *self._rows(keys)]
        # Once for all that is done by key. The first job on the lines fills them.
        lines = reduce(DataFrame.unionByName, frames).repartition("key")
        return in_lines(_once(lines)).localCheckpoint(eager=False)

    def _with_implied(self, events: DataFrame, old: OldRows) -> DataFrame:
        """Return the batch's own, and for each create that tells its old key the delete of that."""
        place = (sf.col("second"), sf.col("last_commit"), sf.col("ts_ms"), op_is(READ))
        new_events = events.select(
            "key",
            "op",
            sf.struct(*place).cast(PLACE_TYPE).alias("place"),
            *("second", ARRIVAL, "after", "holes", "types", "old_key", "new_key", "ts_ms"),
            sf.lit(True).alias("is_new"),
            sf.lit(None).cast(_HELD).alias("held"),
            sf.lit(PRESENT).alias("at"),
        )
        creates = new_events.filter(op_is(CREATE))
        moved = creates.filter("old_key IS NOT NULL").select("old_key", "key", "place", "ts_ms")
        if old.roots is not None:
            bare = creates.filter("old_key IS NULL").join(sf.broadcast(old.roots.drop("first")), "second")
            moved = moved.union(bare.select("root.key", "key", "place", "ts_ms"))
        implied = self._event(
            sf.col("old_key"), DELETE, sf.col("place"), new_key=sf.col("key"), ts_ms=sf.col("ts_ms"), is_new=True
        )
        return new_events.unionByName(moved.select(*implied))

    def _deletes(self, wanted: DataFrame) -> tuple[list[DataFrame], DataFrame]:
        """Return the deletes of keys and the begins of the keys that they have changed to, and all these keys."""
        if self.order.deleted_keys is None:
            return [], wanted
        deletes = self._deleted(self.order.deleted_keys)
        frames: list[DataFrame] = []
        seen = wanted = wanted.localCheckpoint()
        for _ in range(_MAX_ROUNDS):
            deleted = deletes.join(sf.broadcast(wanted), "key", "left_semi").localCheckpoint()
            frames.append(deleted)
            moved = deleted.filter("new_key IS NOT NULL")
            if moved.isEmpty():
                break
            frames.append(moved.select(*self._event(sf.col("new_key"), BEGUN, sf.col("place"), old_key=sf.col("key"))))
            heirs = moved.select(sf.col("new_key").alias("key")).distinct()
            wanted = heirs.join(seen, "key", "left_anti").localCheckpoint()
            if wanted.isEmpty():
                break
            seen = seen.union(wanted)
        return frames, seen

    def _rows(self, wanted: DataFrame) -> list[DataFrame]:
        """Return the rows of keys, and where those with older values began."""
        if self.order.rows is None:
            return []
        rows = self._held(self.order.rows, PRESENT).join(sf.broadcast(wanted), "key", "left_semi")
        rows = rows.localCheckpoint(eager=False)
        begun = rows.filter(op_is(HELD) & sf.col("held.since").isNotNull())
        return [rows, begun.select(*self._event(sf.col("key"), BEGUN, sf.col("held.since")))]

    def _old_rows(self, old: OldRows) -> list[DataFrame]:
        if old.roots is None:
            return []
        roots = sf.broadcast(old.roots.select("root.key", "root.at"))
        return [self._held(rows, at).join(roots, ["key", "at"], "left_semi") for at, rows in old.rows_at.items()]

    def _held(self, rows: DataFrame, at: str) -> DataFrame:
        names = {name.lower() for name in rows.columns}
        position = quoted(POSITION_COLUMN) if POSITION_COLUMN in names else sf.lit(None).cast(POSITION_TYPE)
        flag = self.order.deleted_column
        deleted = sf.coalesce(quoted(flag), sf.lit(False)) if flag and flag.lower() in names else sf.lit(False)
        ours = position["epoch"] == self.order.epoch
        since, older = sf.when(ours, position["since"]), sf.when(ours, position["older"])
        held = sf.struct(sf.lit(None), since, older, position).cast(_HELD)
        is_held = sf.when(deleted, REMOVED).otherwise(HELD)
        place, ts_ms = self._place(position), position["ts_ms"]
        return rows.select(*self._event(self._key(), is_held, place, ts_ms=ts_ms, held=held, at=at))

    def _deleted(self, rows: DataFrame) -> DataFrame:
        position, heir = sf.col("_deleted_position"), sf.col("_moved_to")
        ours = (position["epoch"] == self.order.epoch) & heir.isNotNull()
        heir = sf.when(ours, _struct(heir[name].cast(self.types[name]) for name in self.keys))
        place, ts_ms = self._place(position), position["ts_ms"]
        # A delete has no row.
        held = sf.struct(sf.col("_values_position"), sf.lit(None), sf.lit(None), sf.lit(None)).cast(_HELD)
        return rows.select(*self._event(self._key(), REMOVED, place, new_key=heir, ts_ms=ts_ms, held=held))

    def _key(self) -> Column:
        return _struct(quoted(name).cast(self.types[name]) for name in self.keys)

    def _place(self, position: Column) -> Column:
        epoch = position["epoch"]
        older = epoch.isNull() | (epoch < self.order.epoch)
        later = epoch > self.order.epoch
        return sf.when(older, place_at(FIRST)).when(later, place_at(LAST)).otherwise(place_of(position))

    def _event(
        self,
        key: Column,
        op: Column | str,
        place: Column,
        *,
        old_key: Column | None = None,
        new_key: Column | None = None,
        ts_ms: Column | None = None,
        held: Column | None = None,
        at: str = PRESENT,
        is_new: bool = False,
    ) -> list[Column]:
        fields = ", ".join(f"k{i}: {self.types[name].simpleString()}" for i, name in enumerate(self.keys))
        key_type = f"STRUCT<{fields}>"
        op = sf.lit(op) if isinstance(op, str) else op
        # A row is what its last event left, so it comes after that one; what ends or begins a key comes before.
        file = sf.when(op == HELD, 2**31 - 1).otherwise(-1).cast("int")
        zero = sf.lit(0).cast("bigint")
        arrival = sf.struct(file.alias("file"), zero.alias("block"), zero.alias("row"))
        null = sf.lit(None)
        return [
            key.cast(key_type).alias("key"),
            op.alias("op"),
            place.alias("place"),
            place["lsn"].alias("second"),
            arrival.alias(ARRIVAL),
            null.cast("MAP<STRING, STRING>").alias("after"),
            sf.array().cast("ARRAY<STRING>").alias("holes"),
            null.cast("BIGINT").alias("types"),
            (null if old_key is None else old_key).cast(key_type).alias("old_key"),
            (null if new_key is None else new_key).cast(key_type).alias("new_key"),
            (null if ts_ms is None else ts_ms).cast("BIGINT").alias("ts_ms"),
            sf.lit(is_new).alias("is_new"),
            (null if held is None else held).cast(_HELD).alias("held"),
            sf.lit(at).alias("at"),
        ]


def _struct(values: Iterable[Column]) -> Column:
    return sf.struct(*(value.alias(f"k{i}") for i, value in enumerate(values)))


def _once(events: DataFrame) -> DataFrame:
    """Keep one of each: delivered events, deletes that are known from several sides, begins of a key."""
    kind = sf.when(op_is(DELETE, REMOVED), DELETE).otherwise(sf.col("op"))
    has_key_change = sf.coalesce("new_key", "old_key").isNotNull()
    one = Window.partitionBy("key", "second", kind, "at")
    best = one.orderBy(sf.col("is_new").desc(), has_key_change.desc(), sf.col(ARRIVAL).desc())
    # A connector that starts again may tell an earlier commit before the same event, or none.
    last_commit = sf.max("place.last_commit").over(one)
    was_known = sf.coalesce(sf.max(op_is(REMOVED)).over(one), sf.lit(False))
    return (
        events.withColumns(
            {
                "copy": sf.row_number().over(best),
                "place": sf.col("place").withField("last_commit", last_commit),
                "new_key": sf.coalesce("new_key", sf.first("new_key", ignorenulls=True).over(one)),
                # Of a delete: whether it was applied before, and up to where the key's values had come then.
                "was_known": was_known,
                "known": sf.max("held.known").over(one),
            }
        )
        .filter("copy = 1")
        .drop("copy")
    )
