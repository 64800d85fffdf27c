"""One pass over the timelines of a batch: which steps they need, and which events nobody can put in their order."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.redelivery import LATE_TOLERANCE_MS
from airflow_lake_provider.contracts.applied.stream_remedies import StreamRemedies
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.cdc.event_order import EVENT_ORDER
from airflow_lake_provider.spark_jobs.sources.cdc.events import CREATE, DELETE, READ, UPSERTS, op_is
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import BEGUN, ENDS, REMOVED, ROW
from airflow_lake_provider.spark_jobs.sources.cdc.unavailable_values import PRESENT

# Of Spark's bitmaps.
_BITS = 8 * 4096


@dataclass(frozen=True, kw_only=True)
class TimelineSurvey:
    """Findings of one pass over the timelines.

    :param older: columns with a value that is older than its row.
    :param dropped: events that are not newer than their row; ``restarted``: those of them with a newer time.
    :param begun: begins of keys that a key change has put there; ``deletes``: new ones.
    :param below_key_changes: new events before the end of their key by a key change that was applied.
    :param overtaken_deletes: new deletes that something applied of their key comes after.
    :param may_change_keys: False where no key begins at the place at which another one ends.
    :param may_be_cut: whether a delete may be half of a key change whose other half is not there.
    """

    older: tuple[str, ...]
    dropped: int
    restarted: int
    begun: int
    deletes: int
    below_key_changes: int
    overtaken_deletes: int
    may_change_keys: bool
    may_be_cut: bool

    def refuse(self, timeline: DataFrame, remedies: StreamRemedies) -> None:
        """Refuse late events of keys that have changed, where the values that they leave out are nowhere.

        Most batches have no late event of such a key, and nothing is looked at again.

        :param timeline: the one that was surveyed.
        :param remedies: in the words of where the events are.
        :raises BadInputError: with how many.
        """
        if self.below_key_changes or self.overtaken_deletes:
            _refuse_reused(timeline, remedies)
        if self.begun and self.below_key_changes:
            _refuse_pending(timeline, remedies)


def survey_timeline(timeline: DataFrame, *, again: bool) -> TimelineSurvey:
    """Look through all timelines in one job, which also keeps them.

    :param timeline: of ``KeyTimeline``.
    :param again: whether a snapshot's rows tell that positions have started again.
    """
    key = Window.partitionBy("key")
    is_applied = (op_is(ROW, REMOVED) | sf.col("was_applied")) & (sf.col("at") == PRESENT)
    place = sf.when(is_applied, sf.col("ordinal"))
    lines = timeline.withColumns(
        {
            "floor": sf.max(place).over(key),
            "floor_ts": sf.max_by("ts_ms", place).over(key),
            "changed_at": sf.max(sf.when(_is_applied_key_change(), sf.col("ordinal"))).over(key),
            "applied_at": sf.max(sf.when(_is_applied_line(), sf.col("ordinal"))).over(key),
        }
    )
    sent = sf.col("is_new") & (sf.col(f"{ARRIVAL}.file") >= 0)
    # A snapshot's clock is read after its place in the log. One that comes late is dropped, as older events are.
    is_snapshot = op_is(READ)
    latest_ts = sf.col("floor_ts") + sf.when(is_snapshot, LATE_TOLERANCE_MS).otherwise(0)
    restarted = (sf.col("ordinal") < sf.col("floor")) & (sf.col("ts_ms") > latest_ts) & (~is_snapshot | sf.lit(again))
    new_delete = is_new(DELETE) & ~sf.col("was_applied")
    row = lines.agg(
        sf.array_distinct(sf.flatten(sf.collect_set(sf.map_keys("row_ordinals.older")))).alias("older"),
        sf.count_if(sent & (sf.col("ordinal") <= sf.col("floor"))).alias("dropped"),
        sf.count_if(sent & restarted).alias("restarted"),
        sf.count_if(op_is(BEGUN) & sf.col("old_key").isNotNull()).alias("begun"),
        sf.count_if(is_new(DELETE)).alias("deletes"),
        sf.count_if(is_new(*UPSERTS, DELETE) & (sf.col("ordinal") < sf.col("changed_at"))).alias("below_key_changes"),
        sf.count_if(new_delete & (sf.col("ordinal") < sf.col("applied_at"))).alias("overtaken_deletes"),
        _places(op_is(*ENDS)).alias("ends"),
        _places(op_is(CREATE, BEGUN)).alias("begins"),
        _may_be_cut().alias("may_be_cut"),
    ).collect()[0]
    counts = {**row.asDict(), "older": tuple(row["older"])}
    ends, begins = (int.from_bytes(counts.pop(name)) for name in ("ends", "begins"))
    return TimelineSurvey(**counts, may_change_keys=ends & begins > 0)


def _may_be_cut() -> Column:
    """Return whether ``cut_deletes`` may have any: a delete that tells a new key, or one at the end where none does."""
    tells = sf.col("is_new") & sf.coalesce("new_key", "old_key").isNotNull()
    newest, delete, create = (
        sf.max(sf.when(kind, sf.col("ordinal"))) for kind in (sf.col("is_new"), is_new(DELETE), is_new(CREATE))
    )
    ends_with_delete = sf.coalesce(delete == newest, sf.lit(False)) & ~create.eqNullSafe(newest)
    moves = sf.count_if(sf.col("is_new") & sf.col("new_key").isNotNull()) > 0
    return sf.when(sf.count_if(tells) > 0, moves).otherwise(ends_with_delete)


def _places(wanted: Column) -> Column:
    """Return a bitmap of the places of some events: where two have no bit in common, they have no place in common."""
    return sf.bitmap_construct_agg(sf.when(wanted, sf.pmod(sf.xxhash64("ordinal"), sf.lit(_BITS))))


def _refuse_reused(timeline: DataFrame, remedies: StreamRemedies) -> None:
    """Refuse begins and ends of a key between what was known of it and its end, and changes of a key used again since.

    :param timeline: of ``KeyTimeline``.
    """
    ends = _applied_key_changes(timeline).filter("values_up_to IS NOT NULL")
    borders = timeline.filter(is_new(CREATE, READ, DELETE) & ~sf.col("was_applied")).select("key", "ordinal")
    # A create that comes again begins an incarnation that was applied, as its old key's delete tells it.
    begun = timeline.filter(op_is(BEGUN)).select("key", "ordinal")
    borders = borders.join(begun, ["key", "ordinal"], "left_anti")
    between = borders.join(ends, "key").filter("ordinal > values_up_to AND ordinal < end").select("key")
    creates = timeline.filter(is_new(CREATE)).select("ordinal", sf.lit(True).alias("created")).distinct()
    moved = timeline.filter(is_new(DELETE) & ~sf.col("was_applied")).join(creates, "ordinal", "left")
    moved = moved.filter("new_key IS NOT NULL OR created").select("key", "ordinal")
    later = timeline.filter(_is_applied_line()).select("key", sf.col("ordinal").alias("newer"))
    since = moved.join(later, "key").filter("newer > ordinal").select("key")
    if count := between.union(since).distinct().count():
        raise BadInputError(
            f"{count} keys were used again before the events of their key change came, so values that they leave out "
            f"are not in the events, nor surely in the table. Nothing was applied. {remedies.all_again}, or "
            "take a new snapshot of these rows"
        )


def _refuse_pending(timeline: DataFrame, remedies: StreamRemedies) -> None:
    """Refuse late events of rows whose key has changed while an event with a new key has not come."""
    after = Window.partitionBy("key").orderBy(*EVENT_ORDER).rowsBetween(1, Window.unboundedFollowing)
    following = sf.struct("op", "values_up_to")
    ahead = sf.first(sf.when(~op_is(BEGUN), following), ignorenulls=True).over(after)
    begun = timeline.withColumn("ahead", ahead).filter(op_is(BEGUN) & sf.col("old_key").isNotNull())
    # Ended before any event of it was seen, or not even ended.
    unseen = sf.col("ahead.op").isin(DELETE, REMOVED) & sf.col("ahead.values_up_to").isNull()
    open_ends = begun.filter(sf.col("ahead").isNull() | unseen)
    late = timeline.filter(is_new(*UPSERTS)).select("key", "ordinal")
    joined = late.join(_applied_key_changes(timeline), "key")
    new_events = joined.filter("ordinal < end AND ordinal > coalesce(values_up_to, -1)")
    if not open_ends.isEmpty() and (count := new_events.count()):
        raise BadInputError(
            f"{count} late events are of rows whose key has changed, and the event with the new key has not come. "
            f"It may be {remedies.may_come}"
        )


def is_new(*kinds: str) -> Column:
    """Return whether an event is of the batch, and of one of some kinds."""
    return sf.col("is_new") & op_is(*kinds)


def _is_applied_line() -> Column:
    return sf.col("was_applied") | (op_is(ROW) & (sf.col("at") == PRESENT))


def _is_applied_key_change() -> Column:
    return sf.col("was_applied") & op_is(*ENDS) & sf.col("new_key").isNotNull()


def _applied_key_changes(timeline: DataFrame) -> DataFrame:
    """Return ``key``, ``end`` and ``values_up_to`` of key changes that were applied before."""
    ends = timeline.filter(_is_applied_key_change())
    return ends.select("key", sf.col("ordinal").alias("end"), "values_up_to")
