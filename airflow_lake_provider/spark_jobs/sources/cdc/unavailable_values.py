"""Filling values that the server did not send because they had not changed, from the batch and from the table.

An unavailable value takes the newest known one of its row: earlier in the batch, else the table's. A row lives through
incarnations of keys. One begins with a create or snapshot event, or with what follows a delete; one that a change of
the key began goes on with the end of the old key's, which may itself have come from another key, and so on. One that
began before the batch goes on with the table's row. Known is not the same as not NULL, so values travel in structs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructField, StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import EVENT_ORDER
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, is_delete, op_is
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

# The snapshot of a root that is the table as it is.
PRESENT = ""
# Each round halves the longest chain of key changes, so this is more than any batch can hold.
_MAX_ROUNDS = 40


def last_known_values(events: DataFrame, hole_columns: Sequence[str], moved: DataFrame | None = None) -> DataFrame:
    """Return what is known at the end of each key that may need it.

    :param events: ``key`` (struct), ``op``, ``position``, ``_lake_arrival``,
        ``after``, ``holes``, ``types``, ``old_key`` (struct, NULL where it is not told).
    :param hole_columns: columns with an unavailable value somewhere.
    :param moved: ``position`` and ``root`` of creates whose key change began before the batch.
    :return: ``key``; ``s0``, ``s1``, ... per column of ``hole_columns`` a struct of ``text`` and ``types``, NULL while
        unknown; ``root``: ``key`` whose row in the table goes on, and ``at``, the snapshot that has it, empty for
        the present; NULL when there is none.
    """
    incarnations = _incarnations(_events_of_needed_keys(events), hole_columns).localCheckpoint()
    resolved = inherit(with_parents(incarnations, moved), len(hole_columns), sf.coalesce)
    states = [f"s{i}" for i in range(len(hole_columns))]
    return resolved.filter("is_last").select(sf.col("id.key").alias("key"), "root", *states)


def _events_of_needed_keys(events: DataFrame) -> DataFrame:
    """All events of keys with unavailable values, and of the keys those came from, redelivered ones once."""
    with_holes = events.filter(sf.size("holes") > 0)
    moved = with_holes.filter(op_is(CREATE)).select("position")
    old_keys = events.filter(op_is(DELETE)).join(moved, "position", "left_semi").select("key")
    needed = with_holes.select("key").union(old_keys).distinct()
    key = Window.partitionBy("key").orderBy(*EVENT_ORDER)
    event = sf.struct("position", "op")
    return (
        events.join(needed, "key", "left_semi")
        .withColumn("again", sf.coalesce(sf.lag(event).over(key) == event, sf.lit(False)))
        .filter(~sf.col("again"))
    )


def _incarnations(events: DataFrame, hole_columns: Sequence[str]) -> DataFrame:
    """One row per incarnation: how it began and ended, and what is known at its end from its own events."""
    key = Window.partitionBy("key")
    in_order = key.orderBy(*EVENT_ORDER)
    before = sf.lag("op").over(in_order)
    begins = op_is(CREATE, READ) | before.isNull() | (before == DELETE)
    begun = events.withColumn("begins", begins.cast("int"))
    numbered = begun.withColumn("number", sf.sum("begins").over(in_order))
    order = sf.struct(*EVENT_ORDER)
    states = [_last_known(name, order).alias(f"s{i}") for i, name in enumerate(hole_columns)]
    older_than_batch = (sf.col("number") == 1) & ~sf.col("start.op").isin(CREATE, READ)
    root = sf.when(older_than_batch, sf.struct("key", sf.lit(PRESENT).alias("at")))
    return with_ends(numbered, states, root)


def with_ends(numbered: DataFrame, states: Sequence[Column], root: Column) -> DataFrame:
    """Return one row per incarnation, as :func:`with_parents` and :func:`inherit` take it.

    :param numbered: events with ``key``, ``op``, ``position``, ``old_key`` and ``number``, the incarnation's.
    :param states: aggregates of an incarnation's events, named ``s0``, ``s1``, ...
    :param root: of an incarnation, by its ``start``, ``end`` and ``number``.
    """
    order = sf.struct(*EVENT_ORDER)
    ended = (
        numbered.withColumn("numbers", sf.max("number").over(Window.partitionBy("key")))
        .groupBy("key", "number", "numbers")
        .agg(
            sf.min_by(sf.struct("op", "position", "old_key"), order).alias("start"),
            sf.max_by(sf.struct("op", "position"), order).alias("end"),
            *states,
        )
    )
    return ended.select(
        sf.struct("key", "number").alias("id"),
        (sf.col("number") == sf.col("numbers")).alias("is_last"),
        root.alias("root"),
        "start",
        "end",
        *(f"s{i}" for i in range(len(states))),
    )


def _last_known(column: str, order: Column) -> Column:
    present = ~is_delete() & sf.map_contains_key("after", column)
    is_known = present & ~sf.array_contains("holes", column)
    value = sf.struct(sf.element_at("after", column).alias("text"), "types")
    return sf.max_by(value, sf.when(is_known, order))


def with_parents(
    incarnations: DataFrame, moved: DataFrame | None, ends: Sequence[str] = (DELETE,), begins: Sequence[str] = (CREATE,)
) -> DataFrame:
    """Add ``parent``: the incarnation that one begun by a key change goes on with.

    Both sides of a key change are one record of the log, so the delete of the old key has the create's place.
    """
    ended = incarnations.filter(sf.col("end.op").isin(*ends)).select("end.position", sf.col("id").alias("parent"))
    born = incarnations.filter(sf.col("start.op").isin(*begins)).select("start.position", "start.old_key", "id")
    same_key = sf.col("old_key").isNull() | (sf.col("old_key") == sf.col("parent.key"))
    pairs = born.join(ended, "position").filter(same_key).groupBy("id").agg(sf.collect_list("parent").alias("parents"))
    # Several deletes at one place tell nothing; the value then stays unknown and is refused.
    parent = sf.when(sf.size("parents") == 1, sf.get("parents", sf.lit(0))).alias("parent")
    related = incarnations.join(pairs.select("id", parent), "id", "left")
    return (related if moved is None else _with_roots(related, moved)).drop("start", "end")


def _with_roots(incarnations: DataFrame, moved: DataFrame) -> DataFrame:
    roots = moved.select(sf.col("position").alias("moved_at"), sf.col("root").alias("old_root"))
    same = sf.col("start.position") == sf.col("moved_at")
    joined = incarnations.join(sf.broadcast(roots), same & (sf.col("start.op") == CREATE), "left")
    old = sf.when(sf.col("parent").isNull(), sf.col("old_root"))
    return joined.withColumn("root", sf.coalesce("root", old)).drop("moved_at", "old_root")


def inherit(incarnations: DataFrame, columns: int, chosen: Callable[[str, str], Column]) -> DataFrame:
    """Take over what the parents know, in rounds that each double how far back a row has looked.

    :param chosen: of a state and the parent's, the one that counts.
    """
    # A round's plan holds the round before twice, so each is cut off: twenty rounds would be a million copies.
    current = incarnations.localCheckpoint()
    for _ in range(_MAX_ROUNDS):
        if current.filter(sf.col("parent").isNotNull()).isEmpty():
            return current
        current = _look_back(current, columns, chosen).localCheckpoint()
    raise BadInputError("the key changes of the batch form a ring: a key comes from itself without any event between")


def _look_back(current: DataFrame, columns: int, chosen: Callable[[str, str], Column]) -> DataFrame:
    states = [f"s{i}" for i in range(columns)]
    parents = current.select(
        sf.col("id").alias("parent"),
        sf.col("parent").alias("parent_parent"),
        sf.col("root").alias("parent_root"),
        *(sf.col(state).alias(f"parent_{state}") for state in states),
    )
    return current.join(parents, "parent", "left").select(
        "id",
        "is_last",
        sf.coalesce("root", "parent_root").alias("root"),
        sf.col("parent_parent").alias("parent"),
        *(chosen(state, f"parent_{state}").alias(state) for state in states),
    )


def with_table_values(
    values: DataFrame,
    rows_at: Mapping[str, DataFrame],
    keys: Sequence[str],
    named: Mapping[str, str],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Add, for each row with a ``root``, the values of that row of the table.

    :param values: of :func:`last_known_values`.
    :param rows_at: by ``root.at``, rows of the target.
    :param keys: key columns, in the order of the struct ``root.key``.
    :param named: ``t0``, ``t1``, ... -> column of the table it is to hold, as a struct of ``value``; NULL where the
        table lacks the column, or the row.
    :param types: type of each column in the batch.
    """
    if not rows_at:
        return values.withColumns(missing_values(named, types)).drop("root")
    is_unknown = reduce(or_, (sf.col(short.replace("t", "s")).isNull() for short in named))
    roots = values.filter(sf.col("root").isNotNull() & is_unknown).select("root").distinct()
    return values.join(values_at(rows_at, roots, keys, named, types), "root", "left").drop("root")


def missing_values(named: Mapping[str, str], types: Mapping[str, DataType]) -> dict[str, Column]:
    """Return the columns of :func:`with_table_values` where the table has no rows."""
    return {short: sf.lit(None).cast(_struct(types[name])) for short, name in named.items()}


def values_at(
    rows_at: Mapping[str, DataFrame],
    roots: DataFrame,
    keys: Sequence[str],
    named: Mapping[str, str],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Return ``root`` and the values of its row, where the table has one row of it; see :func:`with_table_values`.

    :param roots: few, so they are sent to the rows of the table, which are not shuffled.
    """
    wanted = sf.broadcast(roots)
    parts = (_values(rows, at, keys, named, types).join(wanted, "root", "left_semi") for at, rows in rows_at.items())
    values = reduce(DataFrame.unionByName, parts)
    once = values.groupBy("root").agg(sf.count(sf.lit(1)).alias("copies"), *(sf.first(s).alias(s) for s in named))
    return once.filter("copies = 1").drop("copies")


def _values(
    rows: DataFrame, at: str, keys: Sequence[str], named: Mapping[str, str], types: Mapping[str, DataType]
) -> DataFrame:
    existing = {name.lower() for name in rows.columns}
    values = {
        short: sf.struct(quoted(name).cast(types[name]).alias("value"))
        if name.lower() in existing
        else sf.lit(None).cast(_struct(types[name]))
        for short, name in named.items()
    }
    key = sf.struct(*(quoted(name).cast(types[name]).alias(f"k{i}") for i, name in enumerate(keys)))
    root = sf.struct(key.alias("key"), sf.lit(at).alias("at")).alias("root")
    return rows.select(root, *(value.alias(short) for short, value in values.items()))


def _struct(kind: DataType) -> StructType:
    return StructType([StructField("value", kind)])
