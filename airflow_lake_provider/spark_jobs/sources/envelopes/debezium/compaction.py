"""Deletes and values that the compaction of a topic has removed before a run came, where the table misses them.

Compaction keeps the last record of each key. Behind a delete that is its tombstone, which has no place in the
database's log. An update that leaves a large value out replaces the event that had it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.debezium_connector import BinaryHandling
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import key_texts, read_events
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import RecordsOfTopic
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import convert
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_SHOWN = 3
_TO_GO_ON = "give on_gap='skip' for this run"
_TO_BEGIN_ANEW = (
    "Or delete all rows of the table, and give the source a new name: it reads the topic from its first record, which "
    "has the last event of each key"
)


@dataclass(frozen=True, kw_only=True)
class CompactedRange:
    """Records of a compacted topic, from one offset of each partition to another.

    :param records: of Spark's reader.
    :param ranges: first offset, and the one behind the last, by partition.
    :param texts: makes text of keys and values.
    """

    source: DebeziumTopic
    records: DataFrame
    ranges: Mapping[str, tuple[int, int]]
    texts: Callable[[DataFrame], DataFrame]

    def refuse(self, rows: DataFrame, keys: Sequence[str], excluded: Sequence[str], *, takes_deletes: bool) -> None:
        """Refuse records from which events are gone that rows of the table need.

        :param rows: live rows of the table.
        :param excluded: columns that are not stored.
        :param takes_deletes: whether a delete changes the table.
        :raises BadInputError: it says how many, and what to do.
        """
        gaps = self._partitions_with_gaps()
        if not gaps:
            return
        by_key = self._by_key(gaps)
        if takes_deletes:
            self._refuse_lost_deletes(by_key.filter("first IS NULL AND NOT is_start"), rows, keys)
        self._refuse_lost_values(by_key.filter("first IS NOT NULL"), keys, excluded)

    def _partitions_with_gaps(self) -> list[int]:
        counted = self.records.groupBy("partition").count().collect()
        counts = {str(row["partition"]): row["count"] for row in counted}
        return [int(name) for name, (start, end) in self.ranges.items() if counts.get(name, 0) < end - start]

    def _by_key(self, gaps: Sequence[int]) -> DataFrame:
        """Return ``key``, ``first``, its first record with a value, and ``is_start``: it begins where the run does."""
        # The delete before a tombstone that is the first record of a run was read by the last one.
        starts = [
            (sf.col("partition") == number) & (sf.col("offset") == self.ranges[str(number)][0]) for number in gaps
        ]
        record = sf.struct("topic", "partition", "offset", "key", "headers", "value")
        return (
            self.records.filter(sf.col("partition").isin(*gaps) & sf.col("key").isNotNull())
            .groupBy("key")
            .agg(
                sf.min_by(record, sf.when(sf.col("value").isNotNull(), sf.col("offset"))).alias("first"),
                sf.max(reduce(or_, starts)).alias("is_start"),
            )
        )

    def _refuse_lost_deletes(self, lone: DataFrame, rows: DataFrame, keys: Sequence[str]) -> None:
        tombstones = self.texts(lone.select("key", sf.lit(None).cast("binary").alias("value")))
        texts = tombstones.select(key_texts("key", keys).alias("texts")).filter("texts IS NOT NULL")
        mode = self.source.binary_handling_mode
        binary = BinaryHandling(mode) if mode else None
        types = StructType(rows.select(*map(quoted, keys)).schema.fields)
        typed = texts.select(
            *(
                convert(sf.get("texts", sf.lit(n)), kind.dataType, None, binary).alias(f"k{n}")
                for n, kind in enumerate(types)
            )
        )
        names = [f"k{number}" for number in range(len(keys))]
        live = rows.select(*(quoted(key).alias(name) for key, name in zip(keys, names, strict=True)))
        missed = live.join(sf.broadcast(typed.distinct()), names, "left_semi")
        if not (count := missed.count()):
            return
        shown = [dict(zip(keys, row, strict=True)) for row in missed.limit(_SHOWN).collect()]
        raise BadInputError(
            f"topic {self.source.topic} is compacted, and the broker has removed the deletes of {count} rows of the "
            f"table before a run came, such as {shown}: tombstones alone are left, which have no place in the "
            f"database's log. Delete these rows by LakeDeleteRowsOperator, and {_TO_GO_ON}. {_TO_BEGIN_ANEW}. With "
            "tombstones.on.delete=false in the connector, compaction keeps deletes"
        )

    def _refuse_lost_values(self, first: DataFrame, keys: Sequence[str], excluded: Sequence[str]) -> None:
        events = read_events(RecordsOfTopic(self.texts(first.select("first.*"))), self.source, keys)
        left_out = sf.array(*map(sf.lit, excluded)).cast("ARRAY<STRING>")
        count = events.filter((sf.size(sf.array_except("holes", left_out)) > 0) & sf.expr("NOT bad")).count()
        if count:
            raise BadInputError(
                f"topic {self.source.topic} is compacted, and the broker has removed records before a run came. "
                f"{count} keys begin behind that with an event that leaves out values as unchanged, so the event that "
                "had them may be gone, and the table would keep older ones. Take a new snapshot of the source table "
                f"with the connector, and {_TO_GO_ON}. A min.compaction.lag.ms of the topic above the longest pause "
                "between two runs keeps all events"
            )
