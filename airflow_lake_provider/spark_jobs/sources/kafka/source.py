"""Records of a Kafka topic, read once between offsets that the table keeps.

Spark's own reader gets the first and the last offset of each partition. So a range has the same records in each try,
but for those that the broker removes. No consumer group has a say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.kafka_topic import (
    EARLIEST,
    KafkaTopic,
    KeyFormat,
    OnGap,
    ValueFormat,
)
from airflow_lake_provider.contracts.errors import BadInputError, InvalidConnectionError
from airflow_lake_provider.contracts.kafka_access import KafkaAccess, RegistryAccess
from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames
from airflow_lake_provider.spark_jobs.jvm.gateway import settings_of
from airflow_lake_provider.spark_jobs.sources.added_rows import added_rows
from airflow_lake_provider.spark_jobs.sources.base import Listing, RowBatch, SourceLocation, Wanted
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.contracted_columns import contracted_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.kafka.avro_values import AvroValues
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import (
    TopicOffsets,
    kafka_errors,
    last_values,
    topic_offsets,
)
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import (
    TopicListing,
    lost_in_words,
    refuse_unordered_share,
)
from airflow_lake_provider.spark_jobs.sources.kafka.records import read_records
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

# Fewer are read in one task a partition: each task is a consumer of its own.
_MANY_RECORDS = 200_000


class KafkaSource(PlainSource):
    """Records of a topic."""

    source: KafkaTopic

    @cached_property
    def access(self) -> KafkaAccess:
        """Brokers and login, which came with the job's settings.

        :raises InvalidConnectionError: they did not.
        """
        access = KafkaAccess.from_settings(self.source.connection, settings_of(self.spark))
        if access is None:
            raise _not_sent(self.source.connection)
        return access

    @property
    def shape(self) -> Mapping[str, str]:
        """Topic, formats and columns."""
        of = self.source
        return digests(
            topic=of.topic,
            value_format=ValueFormat(of.value_format).value,
            schema=parse_ddl(of.schema).json() if of.value_format == ValueFormat.JSON and of.schema else of.schema,
            key_schema=parse_ddl(of.key_schema).json() if of.key_schema else None,
            key_format=KeyFormat(of.key_format).value if of.key_schema else None,
            metadata_columns=",".join(sorted(of.metadata_columns)),
        )

    def location(self) -> SourceLocation:
        """Return the topic as OpenLineage names it."""
        return SourceLocation(address=f"kafka://{self.access.servers.split(',')[0].strip()}/{self.source.topic}")

    def list(self) -> TopicListing:
        """Ask for the offsets of each partition.

        :raises LakeProviderError: the cluster cannot be asked.
        """
        self.source.refuse_spark(self.spark.version)
        stop = self._at_start.end if self.source.catch_up else None
        return TopicListing.of(self._offsets(), self.source.max_records, self.name, self.shape, stop)

    @cached_property
    def _at_start(self) -> TopicOffsets:
        """Offsets when the run began; it goes on until there."""
        return self._offsets()

    def _offsets(self) -> TopicOffsets:
        of = self.source
        since = None if of.starting == EARLIEST else datetime.fromisoformat(of.starting)
        return topic_offsets(self.spark, self.access, of.topic, since)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read the records of a listing.

        :raises BadInputError: records are gone that no run has read, or the topic is another one.
        """
        return self._read(listing)

    def rows(self, wanted: Wanted, deduplicate_by: Sequence[str] = (), *, takes_replacements: bool = False) -> RowBatch:
        """Read the records in one pass: of Avro, the schemas of the last ones are taken for those of all.

        :param takes_replacements: they were not.
        """
        listing = wanted.listing
        with self.reading(listing):
            raw = self._read(listing, is_sampled=not takes_replacements)
            # Read once: to cache the records would cost more than to parse them.
            release_frames(raw.rows)
            batch = contracted_columns(self.spec, raw, wanted.target.schema()).applied(raw)
        return added_rows(
            self.spec, batch, lambda: self.reading(listing), deduplicate_by, takes_replacements=takes_replacements
        )

    def _read(self, listing: Listing, *, is_sampled: bool = False) -> RawBatch:
        assert isinstance(listing, TopicListing)
        self._refuse_remade(listing)
        self._refuse_gap(listing)
        ranges = self._ranges(listing)
        records = self._records(ranges)
        keys, of_key = getattr(self.spec, "keys", ()), self.source.columns_of_key
        # Records of one key are in one partition, as long as there are no more of them than before.
        is_by_key = bool(of_key) and of_key <= {name.lower() for name in keys} and not listing.new_partitions
        has_order = is_by_key or len(listing.upto) == 1
        decode = None
        if self.source.value_format == ValueFormat.AVRO:
            sample = last_values(self.spark, self.access, self.source.topic, ranges) if is_sampled else None
            decode = self._avro(sample).decode
        batch = read_records(self.source, records, decode, deletes=self.source.tells_deletes(keys), has_order=has_order)
        columns = [name for name in batch.rows.columns if not name.startswith("_lake_")]
        refuse_unfit_columns(columns, f"topic {self.source.topic}")
        if not has_order:
            of_rows = {name.lower() for name in (*keys, *self.spec.exclude_columns)}
            values = [name for name in columns if name.lower() not in of_rows]
            refuse_unordered_share(self.spec, self.source, listing, values)
        return batch

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return the columns of records, and no record."""
        assert isinstance(listing, TopicListing)
        batch = self.raw(replace(listing, since=listing.upto, remade="", waiting=0), None)
        deletes = batch.has_change_type
        return RawBatch(rows=batch.rows.limit(0), has_change_type=deletes, has_bare_deletes=deletes)

    @contextmanager
    def refusing_unreadable(self, listing: Listing) -> Iterator[None]:  # noqa: ARG002  # others ask it
        """Say what an error of Kafka means."""
        with kafka_errors(self.access, self.source.topic):
            yield

    def _ranges(self, listing: TopicListing) -> dict[str, tuple[int, int]]:
        # Those that are gone were refused, or are skipped.
        starts = {name: max(start, listing.topic.earliest[name]) for name, (start, _) in listing.ranges.items()}
        ranges = {name: (start, listing.upto[name]) for name, start in starts.items() if start < listing.upto[name]}
        # Spark's reader takes no topic without a partition.
        return ranges or {name: (end, end) for name, end in list(listing.topic.end.items())[:1]}

    def _records(self, ranges: Mapping[str, tuple[int, int]]) -> DataFrame:
        topic, access = self.source.topic, self.access
        starts, ends = ({name: ends[place] for name, ends in ranges.items()} for place in (0, 1))
        options = {
            **{f"kafka.{name}": value for name, value in {**access.properties, **access.secrets}.items()},
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({topic: sorted(map(int, starts))}),
            "startingOffsets": json.dumps({topic: starts}),
            "endingOffsets": json.dumps({topic: ends}),
            "failOnDataLoss": "true",
            "includeHeaders": str("headers" in self.source.metadata_columns).lower(),
        }
        at_once = self.spark.sparkContext.defaultParallelism
        if sum(ends[name] - start for name, start in starts.items()) > _MANY_RECORDS and at_once > len(starts):
            options["minPartitions"] = str(at_once)
        return self.spark.read.format("kafka").options(**options).load()

    def _avro(self, sample: Sequence[bytes] | None) -> AvroValues:
        conn_id = self.source.registry
        access = RegistryAccess.from_settings(conn_id, settings_of(self.spark)) if conn_id else None
        if conn_id and access is None:
            raise _not_sent(conn_id)
        return AvroValues(self.spark, self.source.topic, access, self.source.schema, sample)

    def _refuse_remade(self, listing: TopicListing) -> None:
        if listing.remade:
            raise BadInputError(
                f"{self.spec.table}: topic {self.source.topic} was made anew, or is of another cluster, since "
                f"the table applied source {self.name}: {listing.remade}. Which of its records were applied is not "
                "known. on_repeat='apply' applies all that are there now, once, and goes on from there. "
                "Before an append, look whether the table has them"
            )

    def _refuse_gap(self, listing: TopicListing) -> None:
        if listing.lost and self.source.on_gap == OnGap.FAIL:
            raise BadInputError(
                f"{self.spec.table}: the broker has removed {lost_in_words(listing)} of topic {self.source.topic}. Its "
                "retention ended before a run came. on_gap='skip' goes on behind them, and reports them; where they "
                "are kept elsewhere, load them from there first"
            )


def _not_sent(conn_id: str) -> InvalidConnectionError:
    return InvalidConnectionError(
        f"connection {conn_id!r} did not come with the job's settings; a lake operator brings it, and a job that "
        "something else submits needs them in its properties file, see docs/how-to/kafka-topics.md"
    )
