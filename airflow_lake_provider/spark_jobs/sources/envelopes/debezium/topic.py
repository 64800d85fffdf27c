"""Debezium's change events in a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.topic import OnGap
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch, Listing, Wanted
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeStreamSource
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.avro_events import AvroEvents
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.compaction import CompactedRange
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.event_texts import RecordsOfTopic
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.source import DebeziumEnvelope
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import may_be_compacted
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing
from airflow_lake_provider.spark_jobs.sources.kafka.registry import SchemaRegistry
from airflow_lake_provider.spark_jobs.sources.kafka.topic_source import TopicSource
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted


@dataclass(frozen=True)
class DebeziumTopicEnvelope(DebeziumEnvelope):
    """Records of a topic, of the PostgreSQL connector.

    :param records: with keys and values as text.
    :param ranges: first offset, and the one behind the last, by partition.
    """

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
            if not may_be_compacted(self.spark, self.access, self.source.topic):
                return
            ranges = self.ranges_of(listing)
            records = self.records(ranges, with_headers=True)
            engine = self.upsert.merge_engine
            live = rows.filter(~quoted(engine.deleted_column)) if engine.deletes is Deletes.SOFT else rows
            CompactedRange(source=self.source, records=records, ranges=ranges, texts=self._texts).refuse(
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
