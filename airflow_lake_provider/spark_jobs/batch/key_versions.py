"""Versions of keys, each a row of the table with the time for which it is valid, and what a batch makes of them.

Rows of the table are turned back into the events that they came from: a row began, it was seen again, it ended. Those
of the batch join them. What all of them make together is compared with the rows that are there. Rows that are no
history show in the same order of events, so that the table's rows are moved and sorted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructField, StructType

from airflow_lake_provider.contracts.author.merge_engines import History, MergeEngine
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.batch.table_differences import fitted_column
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

# Of an event: its time, the rest of its order where that is known, and who wins where both are equal.
_TIME, _ORDER, _RANK = "_lake_time", "_lake_order", "_lake_rank"
# What a row of the table says: a delete ended it, it began, it was seen again. Any event of a batch wins over it.
_END, _START, _SEEN, _OF_BATCH = range(4)
_SAME_TIME, _BEGINS, _BEGUN, _NEXT, _IS_LAST = (
    *("_lake_same_time", "_lake_begins", "_lake_begun"),
    *("_lake_next", "_lake_is_last"),
)
# Of a row of the table, at its begin: when it ends, and the row of its key that begins before it.
_UNTIL, _EARLIER = "_lake_until", "_lake_earlier"
# Digests of rows, that of the rows of the table which begin at a time, and how many these are.
_NEW, _OLD, _OLD_OF_TIME, _COPIES = "_lake_new", "_lake_old", "_lake_old_of_time", "_lake_copies"
# What becomes of an event: a row to write, a row to delete, and a row of the table that is no version of a history.
_KIND = "_lake_kind"
_WRITTEN, _GONE, _FAULTY = range(3)
_KEYS_OF_TASK = 16_000

# Bits of a row of the table that is no version of a history, else 0.
FAULTS = "_lake_faults"


def unversioned(schema: StructType, engine: MergeEngine) -> StructType:
    """Return the columns of a table without those that its history adds."""
    added = {name.lower() for name in engine.history_columns}
    return StructType([field for field in schema if field.name.lower() not in added])


def current_versions(rows: DataFrame, engine: MergeEngine) -> DataFrame:
    """Return the rows of a table that are valid now, without the columns of its history."""
    if not isinstance(engine, History):
        return rows
    names = unversioned(rows.schema, engine).names
    return rows.filter(quoted(engine.valid_to).isNull()).select(*map(quoted, names))


def with_history_columns(rows: DataFrame, engine: MergeEngine, time: DataType) -> DataFrame:
    """Add the columns of a history, with nothing in them.

    :param time: type of the times.
    """
    if not isinstance(engine, History):
        return rows
    kinds = {engine.valid_from: time, engine.valid_to: time}
    return rows.withColumns({name: sf.lit(None).cast(kinds.get(name, "boolean")) for name in engine.history_columns})


@dataclass(frozen=True, kw_only=True)
class KeyVersions:
    """Makes rows to write, and rows to delete, of the events of a batch.

    :param schema: of the table, which the columns of the batch fit.
    :param keys: key columns.
    :param order_by: of the rows of a key. Unless the batch has one time, the first is the time of a row.
    """

    engine: History
    schema: StructType
    keys: Sequence[str]
    order_by: Sequence[str]

    def changes(self, batch: DataFrame, rows: DataFrame | None, keys: int, faults: Sequence[Column] = ()) -> DataFrame:
        """Return the rows that are new or differ, and those that are none any more with ``_lake_deleted``.

        Where a row of the table is at fault, it comes out with ``_lake_faults``, and the others mean nothing.

        :param batch: one row for each key and time, with ``_lake_deleted``.
        :param rows: all rows of the table with one of the keys; None where it has none.
        :param keys: about how many there are.
        :param faults: conditions that no row of a history satisfies; each has the bit of its place. The first bit is
            also that of rows that begin while another one of their key is valid.
        """
        every = self._events_of_batch(batch)
        if rows is not None:
            every = every.unionByName(self._events_of_table(rows, faults))
        # Versions of a key are counted by no job, so that few keys with many of them need all cores, too.
        cores = batch.sparkSession.sparkContext.defaultParallelism
        tasks = max(1 + keys // _KEYS_OF_TASK, min(cores, keys))
        # All that follows is in one order of one partitioning: nothing is moved or sorted again.
        return self._differences(every.repartition(tasks, *map(quoted, self._keys)))

    @cached_property
    def _fields(self) -> dict[str, StructField]:
        return {field.name.lower(): field for field in self.schema}

    @cached_property
    def _keys(self) -> list[str]:
        return [self._fields[key.lower()].name for key in self.keys]

    @cached_property
    def _values(self) -> list[StructField]:
        keys = {key.lower() for key in self.keys}
        return [field for field in unversioned(self.schema, self.engine) if field.name.lower() not in keys]

    @cached_property
    def _tracked(self) -> list[StructField]:
        if self.engine.track is not None:
            return [self._fields[name.lower()] for name in self.engine.track]
        ordering = {name.lower() for name in self.order_by}
        return [field for field in self._values if field.name.lower() not in ordering]

    @cached_property
    def _time(self) -> StructField | None:
        """Column of the time of a row; None where the batch has one."""
        return None if self.engine.at else self._fields[self.order_by[0].lower()]

    @property
    def _time_type(self) -> DataType:
        return self._fields[self.engine.valid_from.lower()].dataType

    @property
    def _order(self) -> Column:
        names = () if self.engine.at else self.order_by[1:]
        # Fields named alike on both sides; without any, all are equal.
        ordered = [quoted(self._fields[name.lower()].name).alias(f"o{place}") for place, name in enumerate(names)]
        return sf.struct(*ordered) if ordered else sf.lit(0)

    @property
    def _identity(self) -> list[str]:
        return [*self._keys, self._fields[self.engine.valid_from.lower()].name]

    def _events_of_batch(self, batch: DataFrame) -> DataFrame:
        given = {field.name.lower(): field for field in batch.schema}
        fields = [*(self._fields[key.lower()] for key in self.keys), *self._values]
        fitted = batch.select(*(sf.expr(fitted_column(given, each)).alias(each.name) for each in fields), DELETED)
        time = sf.lit(self.engine.at) if self._time is None else quoted(self._time.name)
        nothing = sf.lit(None)
        return fitted.withColumns(
            {
                _TIME: time.cast(self._time_type),
                _ORDER: self._order,
                _RANK: sf.lit(_OF_BATCH),
                _OLD: nothing.cast("bigint"),
                _UNTIL: nothing.cast(self._time_type),
                FAULTS: sf.lit(0),
            }
        )

    def _events_of_table(self, rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
        start, end = quoted(self.engine.valid_from), quoted(self.engine.valid_to).cast(self._time_type)
        seen = sf.lit(None) if self._time is None else quoted(self._time.name)
        seen = seen.cast(self._time_type)
        is_seen = sf.coalesce((seen > start) & (end.isNull() | (seen < end)), sf.lit(False))
        parts = sf.array_compact(
            sf.array(sf.lit(_START), sf.when(is_seen, sf.lit(_SEEN)), sf.when(end.isNotNull(), sf.lit(_END)))
        )
        compared = [each for each in self.schema if each.name not in self._identity]
        events = rows.withColumn(_OLD, _digest(compared)).withColumn(_RANK, sf.explode(parts))
        is_start = sf.col(_RANK) == _START
        is_known = (sf.col(_RANK) == _SEEN) | (is_start & ~is_seen)
        events = events.withColumns(
            {
                _TIME: sf.when(sf.col(_RANK) == _END, end).when(sf.col(_RANK) == _SEEN, seen).otherwise(start),
                _ORDER: sf.when(is_known, self._order),
                DELETED: sf.col(_RANK) == _END,
            }
        )
        values = {each.name: quoted(each.name) for each in self._values}
        if self._time is not None:
            # Where another version comes in between, this is all that is known of when the first part was seen.
            began = start.cast(self._time.dataType)
            values[self._time.name] = sf.when(is_start & is_seen, began).otherwise(quoted(self._time.name))
        named = [value.alias(name) for name, value in values.items()]
        bits = sum((sf.when(fault, 1 << bit).otherwise(0) for bit, fault in enumerate(faults)), sf.lit(0))
        at_start = {_OLD: sf.col(_OLD), _UNTIL: end, FAULTS: bits}
        begun = [sf.when(is_start, value).alias(name) for name, value in at_start.items()]
        return events.select(*map(quoted, self._keys), *named, DELETED, _TIME, _ORDER, _RANK, *begun)

    def _differences(self, events: DataFrame) -> DataFrame:
        key = Window.partitionBy(*map(quoted, self._keys))
        last_first = key.orderBy(_TIME, sf.col(_ORDER).desc_nulls_last(), sf.col(_RANK).desc())
        of_time = Window.partitionBy(*map(quoted, self._keys), _TIME)
        begin = sf.when(sf.col(_RANK) == _START, sf.struct(_TIME, _UNTIL, _OLD))
        events = events.withColumns(
            {
                _SAME_TIME: sf.lag(_TIME).over(last_first).eqNullSafe(sf.col(_TIME)),
                _EARLIER: sf.last(begin, ignorenulls=True).over(last_first.rowsBetween(Window.unboundedPreceding, -1)),
                _COPIES: sf.count(_OLD).over(of_time),
                _OLD_OF_TIME: sf.max(_OLD).over(of_time),
            }
        )
        events = events.withColumn(FAULTS, _faults())
        # Of each time the event that wins, with the digest of the row that begins there.
        events = events.filter(~sf.col(_SAME_TIME) | (sf.col(FAULTS) != 0)).withColumn(_NEW, _digest(self._tracked))
        in_time = key.orderBy(_TIME)
        differs = sf.lag(_NEW).over(in_time) != sf.col(_NEW)
        was_deleted = sf.lag(DELETED).over(in_time)
        begins = was_deleted.isNull() | (was_deleted != sf.col(DELETED)) | (~sf.col(DELETED) & differs)
        events = events.withColumn(_BEGINS, begins)
        so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        begun = sf.when(sf.col(_BEGINS), sf.struct(_TIME, _COPIES, _OLD_OF_TIME))
        events = events.withColumns(
            {
                _BEGUN: sf.last(begun, ignorenulls=True).over(so_far),
                _NEXT: sf.lead(_TIME).over(in_time),
                _IS_LAST: sf.coalesce(sf.lead(_BEGINS).over(in_time), sf.lit(True)) & ~sf.col(DELETED),
            }
        )
        return self._unlike(events)

    def _unlike(self, events: DataFrame) -> DataFrame:
        """Return the versions that the table has otherwise or not, and its rows that are none any more.

        :param events: the last event of a version has its newest values, and ``_lake_begun`` of its first.
        """
        added = {self.engine.valid_from: sf.col(_BEGUN)[_TIME], self.engine.valid_to: sf.col(_NEXT)}
        if self.engine.current:
            added[self.engine.current] = sf.col(_NEXT).isNull()
        events = events.withColumns(
            {name: value.cast(self._fields[name.lower()].dataType) for name, value in added.items()}
        )
        compared = [each for each in self.schema if each.name not in self._identity]
        events = events.withColumn(_NEW, _digest(compared))
        begun, kind = sf.col(_BEGUN), sf.col(_KIND)
        # A row that others wrote twice is replaced by one.
        same = sf.coalesce((begun[_COPIES] == 1) & (begun[_OLD_OF_TIME] == sf.col(_NEW)), sf.lit(False))
        gone = (sf.col(_COPIES) > 0) & ~(sf.col(_BEGINS) & ~sf.col(DELETED))
        kinds = {_WRITTEN: sf.col(_IS_LAST) & ~same, _GONE: gone, _FAULTY: sf.col(FAULTS) != 0}
        named = [sf.when(condition, sf.lit(kind)) for kind, condition in kinds.items()]
        events = events.withColumn(_KIND, sf.explode(sf.array_compact(sf.array(*named))))
        start = self._identity[-1]
        here = sf.col(_TIME).cast(self._fields[start.lower()].dataType)
        since = sf.when(kind == _GONE, here).otherwise(quoted(start))
        columns = [since.alias(start) if each.name == start else quoted(each.name) for each in self.schema]
        faults = sf.when(kind == _FAULTY, sf.col(FAULTS)).otherwise(0).alias(FAULTS)
        return events.select(*columns, (kind == _GONE).alias(DELETED), faults)


def _faults() -> Column:
    """Return the bits of a row with that of one that begins while another is valid, or beside one that differs."""
    earlier = sf.col(_EARLIER)
    is_open = (earlier[_TIME] < sf.col(_TIME)) & (earlier[_UNTIL].isNull() | (earlier[_UNTIL] > sf.col(_TIME)))
    # A row that others wrote twice is one.
    is_another = (earlier[_TIME] == sf.col(_TIME)) & (earlier[_OLD] != sf.col(_OLD))
    overlaps = (sf.col(_RANK) == _START) & (is_open | is_another)
    bits = sf.coalesce(sf.col(FAULTS), sf.lit(0))
    return bits.bitwiseOR(sf.when(overlaps, 1).otherwise(0))


def _digest(fields: Sequence[StructField]) -> Column:
    return content_digest([(quoted_name(each.name), each.dataType) for each in fields])
