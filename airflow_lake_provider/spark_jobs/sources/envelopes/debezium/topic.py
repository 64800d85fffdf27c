"""Debezium's change events in a Kafka topic, of which its compaction may have removed some before a run came.

Compaction keeps the last record of each key. Behind a delete that is its tombstone, which has no place in the
database's log. An update that leaves a large value out replaces the event that had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.stream_remedies import OF_TOPIC
from airflow_lake_provider.contracts.author.debezium_connector import BinaryHandling
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.kafka_topic import OnGap
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch, Listing, Wanted
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope, EnvelopeWords
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeStreamSource
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.avro_events import AvroEvents
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import key_texts, read_events
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import RecordsOfTopic
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.source import DebeziumEnvelope
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import convert
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import is_compacted
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry
from airflow_lake_provider.spark_jobs.sources.kafka.topic_source import TopicSource
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_SHOWN = 3
_TO_GO_ON = "give on_gap='skip' for this run"
_TO_BEGIN_ANEW = (
    "Or delete all rows of the table, and give the source a new name: it reads the topic from its first record, which "
    "has the last event of each key"
)


@dataclass(frozen=True)
class DebeziumTopicEnvelope(DebeziumEnvelope):
    """Records of a topic, of the PostgreSQL connector.

    :param records: with keys and values as text.
    :param ranges: first offset, and the one behind the last, by partition.
    """

    words: ClassVar[EnvelopeWords] = replace(DebeziumEnvelope.words, remedies=OF_TOPIC)
    source: DebeziumTopic
    records: RecordsOfTopic
    ranges: Mapping[str, tuple[int, int]]

    @property
    def offsets(self) -> Mapping[str, tuple[int, int]]:
        """All between both ends: tombstones and events of other tables are read, too."""
        return {f"{self.source.topic}-{name}": (start, end - 1) for name, (start, end) in self.ranges.items()}

    @property
    def texts(self) -> RecordsOfTopic:
        """The records."""
        return self.records

    def first_bad(self, keys: Sequence[str]) -> str:
        """Return partition and offset of the first bad record."""
        bad = self.checked_lines(keys).filter("bad").agg(sf.min(ARRIVAL)).collect()[0][0]
        return f"the first is offset {bad['block']} of partition {bad['file']} of topic {self.source.topic}"


class DebeziumTopicSource(TopicSource, ChangeStreamSource):
    """Change events of Debezium in a topic."""

    envelope: ClassVar[type[Envelope]] = DebeziumTopicEnvelope
    source: DebeziumTopic

    @property
    def shape(self) -> Mapping[str, str]:
        """Topic, schema, and whose events they are."""
        of = self.source
        own = digests(topic=of.topic, schema=parse_ddl(of.schema).json() if of.schema else None)
        return {**super().shape, **own}

    def read(self, wanted: Wanted) -> ChangeBatch:
        """Read the events.

        :raises BadInputError: also where compaction has removed some that the table needs.
        """
        self._refuse_compacted(wanted)
        return super().read(wanted)

    @contextmanager
    def opened(self, listing: Listing) -> Iterator[Envelope]:
        """Open the records, and say what an error of Kafka means.

        :raises BadInputError: events are gone that no run has read, the topic is another one, or a later run could
            apply an older event of a key.
        """
        assert isinstance(listing, TopicListing)
        self._refuse_unordered_share(listing)
        with self.refusing_unreadable(listing):
            ranges = self.ranges_of(listing)
            records = RecordsOfTopic(self._texts(self.records(ranges, with_headers=True)))
            yield DebeziumTopicEnvelope(self.spark, self.source, (), records, ranges)

    def _texts(self, records: DataFrame) -> DataFrame:
        if (access := self.registry_access) is not None:
            return AvroEvents(self.spark, self.source.topic, SchemaRegistry(access)).texts(records)
        texts = {name: sf.col(name).cast("string") for name in ("key", "value")}
        return records.withColumns(texts)

    def _refuse_compacted(self, wanted: Wanted) -> None:
        rows = wanted.target.current_rows(wanted.applied_state.base)
        if rows is None or self.source.on_gap == OnGap.SKIP:
            return
        listing: TopicListing = wanted.listing
        with self.refusing_unreadable(listing):
            compacted = is_compacted(self.spark, self.access, self.source.topic)
            if compacted is False:
                return
            ranges = self.ranges_of(listing)
            records = self.records(ranges, with_headers=True)
            engine = self.upsert.merge_engine
            live = rows.filter(~quoted(engine.deleted_column)) if engine.deletes is Deletes.SOFT else rows
            compacted_range = CompactedRange(
                source=self.source, records=records, ranges=ranges, texts=self._texts, is_told=compacted is True
            )
            compacted_range.refuse(
                live,
                self.upsert.keys,
                self.upsert.schema_contract.exclude_columns,
                takes_deletes=engine.deletes is not Deletes.IGNORE,
            )

    def _refuse_unordered_share(self, listing: TopicListing) -> None:
        if not (listing.is_share and listing.new_partitions) or self.source.is_by_key:
            return
        raise BadInputError(
            f"{self.spec.table}: max_records={self.source.max_records} leaves {listing.waiting} records of topic "
            f"{self.source.topic} to others, and partitions {', '.join(listing.new_partitions)} are new, which moves "
            "keys from one partition to another, so that an older event of a key may come after a newer one. Leave "
            "max_records and catch_up out for this run, or use ordering='key' from the beginning of the topic"
        )


@dataclass(frozen=True, kw_only=True)
class CompactedRange:
    """Records of a compacted topic, from one offset of each partition to another.

    :param records: of Spark's reader.
    :param ranges: first offset, and the one behind the last, by partition.
    :param texts: makes text of keys and values.
    :param is_told: whether the broker says that it compacts the topic; else nothing says whether it does.
    """

    source: DebeziumTopic
    records: DataFrame
    ranges: Mapping[str, tuple[int, int]]
    texts: Callable[[DataFrame], DataFrame]
    is_told: bool

    @property
    def what(self) -> str:
        """The topic, for messages."""
        what = f"topic {self.source.topic}"
        if self.is_told:
            return f"{what} is compacted"
        return f"{what} may be compacted (this user may not see its configuration, without DESCRIBE_CONFIGS)"

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
            f"{self.what}, and the broker has removed the deletes of {count} rows of the "
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
                f"{self.what}, and the broker has removed records before a run came. "
                f"{count} keys begin behind that with an event that leaves out values as unchanged, so the event that "
                "had them may be gone, and the table would keep older ones. Take a new snapshot of the source table "
                f"with the connector, and {_TO_GO_ON}. A min.compaction.lag.ms of the topic above the longest pause "
                "between two runs keeps all events"
            )
