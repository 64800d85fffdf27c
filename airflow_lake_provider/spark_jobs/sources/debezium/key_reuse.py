"""Key changes that come so late that values may have gone to another row, or have nowhere to go yet: refused.

A row's values go on under its new key. Where it turns out that the old key had been used for two rows, those that
went on may have been the other row's.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.debezium.operations import BEGUN, REMOVED
from airflow_lake_provider.spark_jobs.sources.debezium.redelivered_events import EVENT_ORDER


def refuse_reused(timeline: DataFrame) -> None:
    """Refuse begins and ends of a key between what was known of it and its end, and changes of a key used again since.

    :param timeline: of ``KeyTimeline``.
    """
    ends = _known_changes(timeline).filter("known IS NOT NULL")
    borders = timeline.filter("is_new AND op IN ('c', 'r', 'd') AND NOT was_known").select("key", "second")
    # A create that comes again begins a life that is known, as its old key's delete tells it.
    begun = timeline.filter("op = 'begun'").select("key", "second")
    borders = borders.join(begun, ["key", "second"], "left_anti")
    between = borders.join(ends, "key").filter("second > known AND second < end").select("key")
    creates = timeline.filter("is_new AND op = 'c'").select("second", sf.lit(True).alias("created")).distinct()
    moved = timeline.filter("is_new AND op = 'd' AND NOT was_known").join(creates, "second", "left")
    moved = moved.filter("new_key IS NOT NULL OR created").select("key", "second")
    later = timeline.filter("was_known OR (op = 'held' AND at = '')").select("key", sf.col("second").alias("newer"))
    since = moved.join(later, "key").filter("newer > second").select("key")
    if count := between.union(since).distinct().count():
        raise BadInputError(
            f"{count} keys were used again before the events of their key change came, so values that they leave out "
            "are not in the events, nor surely in the table. Nothing was applied; apply all files again with "
            "on_repeat='apply', or take a new snapshot of these rows"
        )


def refuse_pending(timeline: DataFrame) -> None:
    """Refuse late events of rows whose key has changed while an event with a new key has not come."""
    after = Window.partitionBy("key").orderBy(*EVENT_ORDER).rowsBetween(1, Window.unboundedFollowing)
    following = sf.struct("op", "known")
    ahead = sf.first(sf.when(sf.col("op") != BEGUN, following), ignorenulls=True).over(after)
    begun = timeline.withColumn("ahead", ahead).filter("op = 'begun' AND old_key IS NOT NULL")
    # Ended before any event of it was seen, or not even ended.
    unseen = sf.col("ahead.op").isin("d", REMOVED) & sf.col("ahead.known").isNull()
    open_ends = begun.filter(sf.col("ahead").isNull() | unseen)
    late = timeline.filter("is_new AND op IN ('c', 'r', 'u')").select("key", "second")
    joined = late.join(_known_changes(timeline), "key")
    new_events = joined.filter("second < end AND second > coalesce(known, -1)")
    if not open_ends.isEmpty() and (count := new_events.count()):
        raise BadInputError(
            f"{count} late events are of rows whose key has changed, and the event with the new key has not come. "
            "Nothing was applied; run again when the file with it is there"
        )


def _known_changes(timeline: DataFrame) -> DataFrame:
    """Return ``key``, ``end`` and ``known`` of key changes that were applied before."""
    ends = timeline.filter("op IN ('d', 'removed') AND was_known AND new_key IS NOT NULL")
    return ends.select("key", sf.col("second").alias("end"), "known")
