"""Order the events of a key by where the source's log has them, and a snapshot's rows among them.

Of one key, the place where an event was written decides: a second transaction writes a row after the first has
committed. The rows of a snapshot are read at a place where other transactions may be open. What these wrote is below
that place, and newer. So an event is newer than a snapshot's row when it was committed after it: the event itself or
the end of a commit before its own is not below the snapshot's place, or the clock of the server says so. The place
of the last commit beside the event's own does not tell: none is known until a commit was seen, and a stream that starts
again may send the same event with another one.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.position_column import PLACE_FIELDS, PlaceTypes
from airflow_lake_provider.contracts.applied.redelivery import LATE_TOLERANCE_MS
from airflow_lake_provider.contracts.applied.stream_remedies import StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.events import READ, op_is

# Oldest first, of events of one log.
EVENT_ORDER = ("position", ARRIVAL)
# Before every event: the ordinal of positions of earlier epochs, and of values of no event.
FIRST = -1
_OWN, _SINCE, _VALUES, _OLDER = "own", "since", "values", "older:"
_EVENT = ("key", "op", "at", "ordinal")


def last(types: PlaceTypes) -> Column:
    """Return an ordinal after every event: that of positions of later epochs."""
    return sf.lit(str(10**38 - 1) if types.number.startswith("DECIMAL") else str(2**63 - 1)).cast(types.number)


def place_at(ordinal: int | Column, types: PlaceTypes) -> Column:
    """Return a place without anything that could compare it with a snapshot."""
    null = sf.lit(None)
    values = (sf.lit(ordinal), null, null, sf.lit(False))
    return sf.struct(*(value.alias(name) for value, name in zip(values, PLACE_FIELDS, strict=True))).cast(types.place)


def place_of(position: Column, types: PlaceTypes) -> Column:
    """Return the place that a position of a row or of a deleted key has."""
    return sf.struct(*(position[name].alias(name) for name in PLACE_FIELDS)).cast(types.place)


def is_later(place: Column, other: Column) -> Column:
    """Return whether an event, or a snapshot's row, comes after another of the same row of the source."""
    after_other = (_reached(place) >= other["lsn"]) | _committed_later(place, other)
    before_other = (_reached(other) >= place["lsn"]) | _committed_later(other, place)
    same_kind = place["snapshot"] == other["snapshot"]
    later = sf.when(same_kind, place["lsn"] > other["lsn"]).when(other["snapshot"], after_other)
    return later.otherwise(~before_other)


def refuse_below_snapshots(events: DataFrame, table: str, types: PlaceTypes, remedies: StreamRemedies) -> None:
    """Refuse changes that are newer than a snapshot's row of their key, and have a lower position than it.

    :param events: ``key``, ``op``, ``position``, ``ordinal``, ``last_commit`` and ``ts_ms``, with rows of a snapshot.
    :raises BadInputError: with how many.
    """
    is_row = op_is(READ)
    at = sf.col("position")
    ends = events.agg(sf.max(sf.when(is_row, at)) > sf.min(sf.when(~is_row, at))).collect()[0]
    if not ends[0]:
        return
    key = Window.partitionBy("key")
    place = sf.struct("ordinal", "last_commit", "ts_ms", is_row).cast(types.place)
    placed = events.select("key", is_row.alias("is_row"), at.alias("at"), place.alias("place"))
    row_at = sf.when(sf.col("is_row"), sf.col("at"))
    placed = placed.withColumns({"row_at": sf.max(row_at).over(key), "row": sf.max_by("place", row_at).over(key)})
    loses = ~sf.col("is_row") & (sf.col("at") < sf.col("row_at")) & is_later(sf.col("place"), sf.col("row"))
    if count := placed.filter(loses).count():
        raise BadInputError(
            f"{count} changes of {table} were committed after a snapshot had read their rows, and have lower positions "
            "than it: their transaction was open at that time. By position the older rows of the snapshot would win. "
            f"Use ordering='key', which compares them by their commits{remedies.of_open_transaction}. Nothing was "
            "applied"
        )


def with_ordinals(events: DataFrame, types: PlaceTypes) -> DataFrame:
    """Number the events of each key: by where they were written, rows of a snapshot below what came after them.

    :param events: ``ordinal``, where it was written, of one key and kind each once; ``place``, ``row_state``,
        ``values_up_to``, a place.
    :return: the same with the numbers in ``ordinal``, in ``values_up_to``, and in ``row_ordinals`` those of what
        ``row_state`` has; ``position``, a struct of ``ordinal``.
    """
    parts = events.select("*", sf.explode(_parts(types)).alias("part"))
    place, key = sf.col("part.place"), Window.partitionBy("key")
    reached, committed, streamed = _reached(place), _commit_time(place), sf.when(~place["snapshot"], place["lsn"])
    by_place = key.orderBy(reached.desc()).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    by_time = key.orderBy(committed.desc()).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    next_by_time = sf.when(committed.isNotNull(), sf.min(streamed).over(by_time))
    following = parts.select("*", sf.least(sf.min(streamed).over(by_place), next_by_time).alias("_next"))
    # Records of the log are eight bytes apart at least, so a few snapshots fit between two.
    nearest = sf.dense_rank().over(Window.partitionBy("key", "_next").orderBy(place["lsn"].desc()))
    is_below = place["snapshot"] & (sf.col("_next") <= place["lsn"])
    number = sf.when(is_below, sf.col("_next") - nearest).otherwise(place["lsn"])
    return _gathered(following.select("*", number.cast(types.number).alias("_number")), types)


def _parts(types: PlaceTypes) -> Column:
    def part(name: Column | str, place: Column) -> Column:
        return sf.struct((sf.lit(name) if isinstance(name, str) else name).alias("name"), place.alias("place"))

    row = sf.col("row_state")
    optional = {_SINCE: row["since"], _VALUES: sf.col("values_up_to")}
    named = [sf.when(place.isNotNull(), part(name, place)) for name, place in optional.items()]
    older = sf.coalesce(
        sf.map_entries(row["older"]), sf.array().cast(f"ARRAY<STRUCT<key: STRING, value: {types.place}>>")
    )
    others = sf.transform(older, lambda entry: part(sf.concat(sf.lit(_OLDER), entry["key"]), entry["value"]))
    return sf.concat(sf.array_compact(sf.array(part(_OWN, sf.col("place")), *named)), others)


def _gathered(numbered: DataFrame, types: PlaceTypes) -> DataFrame:
    """Put the numbers of each event's own parts beside it."""
    parts = sf.collect_list(sf.struct("part.name", "_number")).over(Window.partitionBy(*_EVENT))
    gathered = numbered.select("*", sf.map_from_entries(parts).alias("_numbers")).filter(sf.col("part.name") == _OWN)
    numbers = sf.col("_numbers")
    older = sf.transform_values("row_state.older", lambda name, _: numbers[sf.concat(sf.lit(_OLDER), name)])
    kind = f"STRUCT<since: {types.number}, older: MAP<STRING, {types.number}>>"
    own = sf.col("_number")
    put = {
        "position": sf.struct(own.alias("ordinal")),
        "ordinal": own,
        "values_up_to": numbers[_VALUES],
        "row_ordinals": sf.struct(numbers[_SINCE].alias("since"), older.alias("older")).cast(kind),
    }
    return gathered.withColumns(put).drop("part", "_next", "_number", "_numbers")


def _reached(place: Column) -> Column:
    """A place that the log had reached before the event was committed; of a snapshot, where it was read."""
    return sf.when(place["snapshot"], place["lsn"]).otherwise(sf.greatest(place["lsn"], place["last_commit"]))


def _commit_time(place: Column) -> Column:
    """Time of a commit; of a snapshot, the first one after it."""
    # The first transaction after a snapshot: it may have ended before the clock was read for the snapshot.
    tolerance = sf.when(place["last_commit"].isNull(), LATE_TOLERANCE_MS).otherwise(0)
    return place["ts_ms"] + sf.when(place["snapshot"], 1).otherwise(tolerance)


def _committed_later(event: Column, snapshot: Column) -> Column:
    return sf.coalesce(_commit_time(event) >= _commit_time(snapshot), sf.lit(False))
