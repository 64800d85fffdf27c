"""Order the events of a key by where the source's log has them, and a snapshot's rows among them.

Of one key, the place where an event was written decides: a second transaction writes a row after the first has
committed. The rows of a snapshot are read at a place where other transactions may be open. What these wrote is below
that place, and newer. So an event is newer than a snapshot's row when it was committed after it: the event itself or
the end of a commit before its own is not below the snapshot's place, or the clock of the server says so. Two numbers
of ``source.sequence`` compared as a pair do not tell: the first is null until a commit was seen, and a connector that
starts again may send the same event with another one.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.position_column import PLACE_FIELDS, PLACE_TYPE
from airflow_lake_provider.contracts.applied.redelivery import LATE_TOLERANCE_MS
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.events import READ, op_is

# Oldest first, of events of one log.
EVENT_ORDER = ("first", "second", ARRIVAL)
# Before every event, and after every event: positions of other epochs.
FIRST, LAST = -1, 2**63 - 1
_LINE_TYPE = "STRUCT<since: BIGINT, older: MAP<STRING, BIGINT>>"
_ENTRIES_TYPE = f"ARRAY<STRUCT<key: STRING, value: {PLACE_TYPE}>>"
_OWN, _SINCE, _KNOWN, _OLDER = "own", "since", "known", "older:"
_EVENT = ("key", "op", "at", "second")


def place_at(lsn: int) -> Column:
    """Return a place without anything that could compare it with a snapshot."""
    null = sf.lit(None)
    values = (sf.lit(lsn), null, null, sf.lit(False))
    return sf.struct(*(value.alias(name) for value, name in zip(values, PLACE_FIELDS, strict=True))).cast(PLACE_TYPE)


def place_of(position: Column) -> Column:
    """Return the place that a position of a row or of a deleted key has."""
    return sf.struct(*(position[name].alias(name) for name in PLACE_FIELDS)).cast(PLACE_TYPE)


def is_later(place: Column, other: Column) -> Column:
    """Return whether an event, or a snapshot's row, comes after another of the same row of the source."""
    after_other = (_reached(place) >= other["lsn"]) | _told_later(place, other)
    before_other = (_reached(other) >= place["lsn"]) | _told_later(other, place)
    same_kind = place["snapshot"] == other["snapshot"]
    later = sf.when(same_kind, place["lsn"] > other["lsn"]).when(other["snapshot"], after_other)
    return later.otherwise(~before_other)


def refuse_below_snapshots(events: DataFrame, table: str) -> None:
    """Refuse changes that are newer than a snapshot's row of their key, and have a lower position than it.

    :param events: ``key``, ``op``, ``first``, ``second``, ``last_commit`` and ``ts_ms``, with rows of a snapshot.
    :raises BadInputError: with how many.
    """
    is_row = op_is(READ)
    at = sf.struct("first", "second")
    ends = events.agg(sf.max(sf.when(is_row, at)) > sf.min(sf.when(~is_row, at))).collect()[0]
    if not ends[0]:
        return
    key = Window.partitionBy("key")
    place = sf.struct("second", "last_commit", "ts_ms", is_row).cast(PLACE_TYPE)
    placed = events.select("key", is_row.alias("is_row"), at.alias("at"), place.alias("place"))
    row_at = sf.when(sf.col("is_row"), sf.col("at"))
    placed = placed.withColumns({"row_at": sf.max(row_at).over(key), "row": sf.max_by("place", row_at).over(key)})
    loses = ~sf.col("is_row") & (sf.col("at") < sf.col("row_at")) & is_later(sf.col("place"), sf.col("row"))
    if count := placed.filter(loses).count():
        raise BadInputError(
            f"{count} changes of {table} were committed after a snapshot had read their rows, and have lower positions "
            "than it: their transaction was open at that time. By position the older rows of the snapshot would win. "
            "Use ordering='key', which compares them by their commits; or apply the files of the snapshot first, and "
            "the files with these changes alone, with on_repeat='apply'. Nothing was applied"
        )


def in_lines(events: DataFrame) -> DataFrame:
    """Give the events of each key numbers in one line: where they were written, snapshots below what came after them.

    :param events: ``second``, where it was written, of one key and kind each once; ``place``, ``held``, ``known``.
    :return: the same with the numbers in ``second`` and ``first``, of ``known``, and in ``line`` of what ``held`` has.
    """
    parts = events.withColumn("part", sf.explode(_parts())).select("*", sf.col("part.place").alias("_place"))
    place, key = sf.col("_place"), Window.partitionBy("key")
    streamed = sf.when(~place["snapshot"], place["lsn"])
    by_place = key.orderBy(sf.col("_reached").desc()).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    by_time = key.orderBy(sf.col("_told").desc()).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = parts.withColumns({"_reached": _reached(place), "_told": _told(place)})
    next_by_time = sf.when(sf.col("_told").isNotNull(), sf.min(streamed).over(by_time))
    numbered = numbered.withColumn("_next", sf.least(sf.min(streamed).over(by_place), next_by_time))
    # Records of the log are eight bytes apart at least, so a few snapshots fit between two.
    nearest = sf.dense_rank().over(Window.partitionBy("key", "_next").orderBy(place["lsn"].desc()))
    is_below = place["snapshot"] & (sf.col("_next") <= place["lsn"])
    number = sf.when(is_below, sf.col("_next") - nearest).otherwise(place["lsn"])
    return _gathered(numbered.withColumn("_number", number)).drop("part", "_place", "_reached", "_told", "_next")


def _parts() -> Column:
    def part(name: Column | str, place: Column) -> Column:
        return sf.struct((sf.lit(name) if isinstance(name, str) else name).alias("name"), place.alias("place"))

    held = sf.col("held")
    optional = {_SINCE: held["since"], _KNOWN: sf.col("known")}
    named = [sf.when(place.isNotNull(), part(name, place)) for name, place in optional.items()]
    older = sf.coalesce(sf.map_entries(held["older"]), sf.array().cast(_ENTRIES_TYPE))
    others = sf.transform(older, lambda entry: part(sf.concat(sf.lit(_OLDER), entry["key"]), entry["value"]))
    return sf.concat(sf.array_compact(sf.array(part(_OWN, sf.col("place")), *named)), others)


def _gathered(numbered: DataFrame) -> DataFrame:
    """Put the numbers of each event's own parts beside it."""
    parts = sf.collect_list(sf.struct("part.name", "_number")).over(Window.partitionBy(*_EVENT))
    numbered = numbered.withColumn("_numbers", sf.map_from_entries(parts)).filter(sf.col("part.name") == _OWN)
    numbers = sf.col("_numbers")
    older = sf.transform_values("held.older", lambda name, _: numbers[sf.concat(sf.lit(_OLDER), name)])
    line = sf.struct(numbers[_SINCE].alias("since"), older.alias("older")).cast(_LINE_TYPE)
    own = sf.col("_number")
    put = {"first": own, "second": own, "known": numbers[_KNOWN], "line": line}
    return numbered.withColumns(put).drop("_number", "_numbers")


def _reached(place: Column) -> Column:
    """A place that the log had reached before the event was committed; of a snapshot, where it was read."""
    return sf.when(place["snapshot"], place["lsn"]).otherwise(sf.greatest(place["lsn"], place["last_commit"]))


def _told(place: Column) -> Column:
    """Time of a commit; of a snapshot, the first one after it."""
    # The first transaction after a snapshot: it may have ended before the clock was read for the snapshot.
    tolerance = sf.when(place["last_commit"].isNull(), LATE_TOLERANCE_MS).otherwise(0)
    return place["ts_ms"] + sf.when(place["snapshot"], 1).otherwise(tolerance)


def _told_later(event: Column, snapshot: Column) -> Column:
    return sf.coalesce(_told(event) >= _told(snapshot), sf.lit(False))
