"""A topic on the driver, whatever is in its records: offsets of a run, and the records between them.

Spark's own reader gets the first and the last offset of each partition. So a range has the same records in each try,
but for those that the broker removes. No consumer group has a say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.author.kafka_topic import EARLIEST, OnGap, Topic
from airflow_lake_provider.contracts.errors import BadInputError, InvalidConnectionError
from airflow_lake_provider.contracts.source_access import KafkaAccess, RegistryAccess
from airflow_lake_provider.spark_jobs.jvm.gateway import settings_of
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, Listing, SourceLocation
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import (
    TopicOffsets,
    kafka_errors,
    reader_properties,
    topic_offsets,
)
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing, lost_in_words

# Fewer are read in one task a partition: each task is a consumer of its own.
_MANY_RECORDS = 200_000


class TopicSource(BatchSource):
    """Records of a topic, whatever is in them."""

    source: Topic

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
    def registry_access(self) -> RegistryAccess | None:
        """Address and login of the registry; None without one.

        :raises InvalidConnectionError: they did not come with the job's settings.
        """
        conn_id = self.source.registry
        access = RegistryAccess.from_settings(conn_id, settings_of(self.spark)) if conn_id else None
        if conn_id and access is None:
            raise _not_sent(conn_id)
        return access

    def location(self) -> SourceLocation:
        """Return the topic as OpenLineage names it."""
        return SourceLocation(address=self.source.address({self.source.connection: self.access}))

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

    @contextmanager
    def refusing_unreadable(self, listing: Listing) -> Iterator[None]:  # noqa: ARG002  # others ask it
        """Say what an error of Kafka means."""
        with kafka_errors(self.access, self.source.topic):
            yield

    def ranges_of(self, listing: TopicListing) -> dict[str, tuple[int, int]]:
        """Return the first offset, and the one behind the last, of each partition that is read.

        :raises BadInputError: records are gone that no run has read, or the topic is another one.
        """
        self._refuse_remade(listing)
        self._refuse_gap(listing)
        # Those that are gone were refused, or are skipped.
        starts = {name: max(start, listing.topic.earliest[name]) for name, (start, _) in listing.ranges.items()}
        ranges = {name: (start, listing.upto[name]) for name, start in starts.items() if start < listing.upto[name]}
        # Spark's reader takes no topic without a partition.
        return ranges or {name: (end, end) for name, end in list(listing.topic.end.items())[:1]}

    def records(self, ranges: Mapping[str, tuple[int, int]], *, with_headers: bool) -> DataFrame:
        """Return the records of Spark's reader."""
        topic, access = self.source.topic, self.access
        starts, ends = ({name: ends[place] for name, ends in ranges.items()} for place in (0, 1))
        options = {
            **{f"kafka.{name}": value for name, value in reader_properties(access).items()},
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({topic: sorted(map(int, starts))}),
            "startingOffsets": json.dumps({topic: starts}),
            "endingOffsets": json.dumps({topic: ends}),
            "failOnDataLoss": "true",
            "includeHeaders": str(with_headers).lower(),
        }
        at_once = self.spark.sparkContext.defaultParallelism
        if sum(ends[name] - start for name, start in starts.items()) > _MANY_RECORDS and at_once > len(starts):
            options["minPartitions"] = str(at_once)
        return self.spark.read.format("kafka").options(**options).load()

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
