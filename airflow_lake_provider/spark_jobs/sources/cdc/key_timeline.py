"""The events of each key in a batch, in one order with what the table knows: its rows, deleted keys and key changes.

What the table knows takes the form of events: ``row`` a row, at the row's position; ``removed`` a delete that was
applied; ``begun`` the begin of a key, where a key change or an earlier create put it. So late events find their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN, PlaceTypes
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.formats.base import KeyHistory
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import FIRST, last, place_at, place_of, with_ordinals
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_changes_across_batches import OldRows
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# Kinds of what the table knows, in ``op`` beside those of events. A row that the table has.
ROW = "row"
# A delete that was applied, or the flagged row of one.
REMOVED = "removed"
# The begin of a key, where a key change or an earlier create put it.
BEGUN = "begun"
ENDS = (DELETE, REMOVED)
_MAX_ROUNDS = 40


@dataclass(frozen=True, kw_only=True)
class KeyOrder:
    """Knowledge of a table about the keys of a source with ``ordering="key"``.

    :param history: of the table; ``epoch`` as it has it, or the next.
    :param schema: of the table; None where there is none.
    :param rows: of the table; None where it has none.
    :param deleted_keys: of the history, read after the table's base was: a commit adds to them before it is made.
    :param deleted_column: where deletes are soft.
    :param again: whether an event at the position of its row is applied once more.
    :param types: of the positions of the source's log.
    """

    epoch: int
    types: PlaceTypes = field(default_factory=PlaceTypes)
    schema: StructType | None = None
    rows: DataFrame | None = None
    deleted_keys: DataFrame | None = None
    history: KeyHistory = field(default_factory=KeyHistory)
    deleted_column: str | None = None
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class KeyTimeline:
    """Builds the timelines.

    :param types: of the batch's columns.
    """

    order: KeyOrder
    keys: Sequence[str]
    types: Mapping[str, DataType]

    def of(self, events: DataFrame, old: OldRows, *, names_old_keys: bool = True) -> DataFrame:
        """Return the events and what the table knows of their keys, and of those that the keys have changed to.

        :param events: ``key``, ``op``, ``ordinal``, ``last_commit``, ``_lake_arrival``, ``after``, ``holes``,
            ``types``, ``old_key``, ``new_key``, ``ts_ms``.
        :param old: rows of old keys in snapshots.
        :param names_old_keys: False where no event has an ``old_key``.
        :return: the same columns but ``last_commit``; ``place``, in the log; ``ordinal``, the number among the
            key's events, and ``position``, a struct of it; ``is_new``, of the batch; ``row_state``, places that a row
            of the table keeps; ``row_ordinals``, the same as numbers; ``values_up_to``, the number up to which the
            values of a deleted key had come; ``at``, the snapshot of rows.
        """
        new_events = self._of_batch(events)
        if names_old_keys or old.roots is not None:
            new_events = self._with_implied(new_events, old)
        deletes, keys = self._deletes(new_events.select("key").distinct())
        frames = [new_events, *deletes, *self._old_rows(old), *self._rows(keys)]
        # Once for all that is done by key. The first job on them fills them.
        timeline = reduce(DataFrame.unionByName, frames).repartition("key")
        return with_ordinals(_once(timeline), self.order.types).localCheckpoint(eager=False)

    def _of_batch(self, events: DataFrame) -> DataFrame:
        place = (sf.col("ordinal"), sf.col("last_commit"), sf.col("ts_ms"), op_is(READ))
        return events.select(
            "key",
            "op",
            sf.struct(*place).cast(self.order.types.place).alias("place"),
            *("ordinal", ARRIVAL, "after", "holes", "types", "old_key", "new_key", "ts_ms"),
            sf.lit(True).alias("is_new"),
            sf.lit(None).cast(self._row_state).alias("row_state"),
            sf.lit(PRESENT).alias("at"),
        )

    def _with_implied(self, new_events: DataFrame, old: OldRows) -> DataFrame:
        """Add for each create that tells its old key the delete of that."""
        creates = new_events.filter(op_is(CREATE))
        moved = creates.filter("old_key IS NOT NULL").select("old_key", "key", "place", "ts_ms")
        if old.roots is not None:
            bare = creates.filter("old_key IS NULL").join(sf.broadcast(old.roots.drop("position")), "ordinal")
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
        seen = wanted = wanted.localCheckpoint(eager=False)
        for _ in range(_MAX_ROUNDS):
            deleted = deletes.join(sf.broadcast(wanted), "key", "left_semi").localCheckpoint(eager=False)
            frames.append(deleted)
            # All of them, in the job that also keeps them.
            if not deleted.agg(sf.count("new_key")).collect()[0][0]:
                break
            moved = deleted.filter("new_key IS NOT NULL")
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
        rows = self._from_rows(self.order.rows, PRESENT).join(sf.broadcast(wanted), "key", "left_semi")
        rows = rows.localCheckpoint(eager=False)
        begun = rows.filter(op_is(ROW) & sf.col("row_state.since").isNotNull())
        return [rows, begun.select(*self._event(sf.col("key"), BEGUN, sf.col("row_state.since")))]

    def _old_rows(self, old: OldRows) -> list[DataFrame]:
        if old.roots is None:
            return []
        roots = sf.broadcast(old.roots.select("root.key", "root.at"))
        return [self._from_rows(rows, at).join(roots, ["key", "at"], "left_semi") for at, rows in old.rows_at.items()]

    def _from_rows(self, rows: DataFrame, at: str) -> DataFrame:
        names = {name.lower() for name in rows.columns}
        position = quoted(POSITION_COLUMN) if POSITION_COLUMN in names else sf.lit(None).cast(self.order.types.row)
        flag = self.order.deleted_column
        deleted = sf.coalesce(quoted(flag), sf.lit(False)) if flag and flag.lower() in names else sf.lit(False)
        ours = position["epoch"] == self.order.epoch
        since, older = sf.when(ours, position["since"]), sf.when(ours, position["older"])
        row_state = sf.struct(sf.lit(None), since, older, position).cast(self._row_state)
        kind = sf.when(deleted, REMOVED).otherwise(ROW)
        place, ts_ms = self._place(position), position["ts_ms"]
        return rows.select(*self._event(self._key(), kind, place, ts_ms=ts_ms, row_state=row_state, at=at))

    def _deleted(self, rows: DataFrame) -> DataFrame:
        position, heir = sf.col("_deleted_position"), sf.col("_moved_to")
        ours = (position["epoch"] == self.order.epoch) & heir.isNotNull()
        heir = sf.when(ours, _struct(heir[name].cast(self.types[name]) for name in self.keys))
        place, ts_ms = self._place(position), position["ts_ms"]
        # A delete has no row.
        row_state = sf.struct(sf.col("_values_position"), sf.lit(None), sf.lit(None), sf.lit(None)).cast(
            self._row_state
        )
        return rows.select(*self._event(self._key(), REMOVED, place, new_key=heir, ts_ms=ts_ms, row_state=row_state))

    @property
    def _row_state(self) -> str:
        place = self.order.types.place
        kept = f"since: {place}, older: MAP<STRING, {place}>, position: {self.order.types.row}"
        return f"STRUCT<values_up_to: {place}, {kept}>"

    def _key(self) -> Column:
        return _struct(quoted(name).cast(self.types[name]) for name in self.keys)

    def _place(self, position: Column) -> Column:
        types, epoch = self.order.types, position["epoch"]
        older = epoch.isNull() | (epoch < self.order.epoch)
        later = epoch > self.order.epoch
        return (
            sf.when(older, place_at(FIRST, types))
            .when(later, place_at(last(types), types))
            .otherwise(place_of(position, types))
        )

    def _event(
        self,
        key: Column,
        op: Column | str,
        place: Column,
        *,
        old_key: Column | None = None,
        new_key: Column | None = None,
        ts_ms: Column | None = None,
        row_state: Column | None = None,
        at: str = PRESENT,
        is_new: bool = False,
    ) -> list[Column]:
        fields = ", ".join(f"k{i}: {self.types[name].simpleString()}" for i, name in enumerate(self.keys))
        key_type = f"STRUCT<{fields}>"
        op = sf.lit(op) if isinstance(op, str) else op
        # A row is what its last event left, so it comes after that one; what ends or begins a key comes before.
        file = sf.when(op == ROW, 2**31 - 1).otherwise(-1).cast("int")
        zero = sf.lit(0).cast("bigint")
        arrival = sf.struct(file.alias("file"), zero.alias("block"), zero.alias("row"))
        null = sf.lit(None)
        return [
            key.cast(key_type).alias("key"),
            op.alias("op"),
            place.alias("place"),
            place["lsn"].alias("ordinal"),
            arrival.alias(ARRIVAL),
            null.cast("MAP<STRING, STRING>").alias("after"),
            sf.array().cast("ARRAY<STRING>").alias("holes"),
            null.cast("BIGINT").alias("types"),
            (null if old_key is None else old_key).cast(key_type).alias("old_key"),
            (null if new_key is None else new_key).cast(key_type).alias("new_key"),
            (null if ts_ms is None else ts_ms).cast("BIGINT").alias("ts_ms"),
            sf.lit(is_new).alias("is_new"),
            (null if row_state is None else row_state).cast(self._row_state).alias("row_state"),
            sf.lit(at).alias("at"),
        ]


def _struct(values: Iterable[Column]) -> Column:
    return sf.struct(*(value.alias(f"k{i}") for i, value in enumerate(values)))


def _once(events: DataFrame) -> DataFrame:
    """Keep one of each: delivered events, deletes that are known from several sides, begins of a key."""
    kind = sf.when(op_is(DELETE, REMOVED), DELETE).otherwise(sf.col("op"))
    has_key_change = sf.coalesce("new_key", "old_key").isNotNull()
    one = Window.partitionBy("key", "ordinal", kind, "at")
    best = one.orderBy(sf.col("is_new").desc(), has_key_change.desc(), sf.col(ARRIVAL).desc())
    # A stream that starts again may tell an earlier commit before the same event, or none.
    last_commit = sf.max("place.last_commit").over(one)
    was_applied = sf.coalesce(sf.max(op_is(REMOVED)).over(one), sf.lit(False))
    return (
        events.withColumns(
            {
                "copy": sf.row_number().over(best),
                "place": sf.col("place").withField("last_commit", last_commit),
                "new_key": sf.coalesce("new_key", sf.first("new_key", ignorenulls=True).over(one)),
                # Of a delete: whether it was applied before, and up to where the key's values had come then.
                "was_applied": was_applied,
                "values_up_to": sf.max("row_state.values_up_to").over(one),
            }
        )
        .filter("copy = 1")
        .drop("copy")
    )
