"""Rows of a Kafka topic, read once between offsets that the table keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic, KeyFormat, ValueFormat
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames
from airflow_lake_provider.spark_jobs.sources.added_rows import added_rows
from airflow_lake_provider.spark_jobs.sources.base import Listing, RowBatch, Wanted
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.contracted_columns import contracted_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.kafka.avro_values import AvroValues
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import last_values
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing, refuse_unordered_share
from airflow_lake_provider.spark_jobs.sources.kafka.records import Decode, read_records
from airflow_lake_provider.spark_jobs.sources.kafka.topic_source import TopicSource
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.spelled_fields import json_values, refuse_other_names
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

if TYPE_CHECKING:
    from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_values import ProtobufValues


class KafkaSource(TopicSource, PlainSource):
    """Records of a topic."""

    source: KafkaTopic

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
            message=of.message,
        )

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Read the records of a listing.

        :raises BadInputError: records are gone that no run has read, or the topic is another one.
        """
        return self._read(listing)

    def rows(self, wanted: Wanted, deduplicate_by: Sequence[str] = (), *, takes_replacements: bool = False) -> RowBatch:
        """Read the records in one pass: of Avro, the schemas of the last ones are taken for those of all.

        :param takes_replacements: they were not.
        """
        if self._keeps_records:
            return super().rows(wanted, deduplicate_by, takes_replacements=takes_replacements)
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
        ranges = self.ranges_of(listing)
        records = self.records(ranges, with_headers="headers" in self.source.metadata_columns)
        keys, of_key = getattr(self.spec, "keys", ()), self.source.columns_of_key
        # Records of one key are in one partition, as long as there are no more of them than before.
        is_by_key = bool(of_key) and of_key <= {name.lower() for name in keys} and not listing.new_partitions
        has_order = is_by_key or len(listing.upto) == 1
        decode: Decode | None = None
        if self.source.value_format == ValueFormat.AVRO:
            sample = last_values(self.spark, self.access, self.source.topic, ranges) if is_sampled else None
            decode = self._avro(sample).decode
        elif self.source.value_format == ValueFormat.PROTOBUF:
            decode = self._protobuf().decode
        elif self.source.value_format == ValueFormat.JSON and not listing.is_empty:
            fields = [field for field in parse_ddl(str(self.source.schema)) if field.name.lower() not in of_key]
            read = last_values(self.spark, self.access, self.source.topic, ranges)
            what, may_be_left_out = f"topic {self.source.topic}", bool(self.spec.source.is_made)
            values = json_values(read or ())
            if self._keeps_records:
                values = _declared_alone(values, {field.name for field in fields})
            refuse_other_names(values, StructType(fields), what, may_be_left_out=may_be_left_out)
        batch = read_records(
            self.source,
            records,
            decode,
            deletes=self.source.tells_deletes(keys),
            has_order=has_order,
            topic_id=listing.topic.id,
            keeps_records=self._keeps_records,
        )
        columns = [name for name in batch.rows.columns if not name.startswith("_lake_")]
        refuse_unfit_columns(columns, f"topic {self.source.topic}")
        if not has_order:
            of_rows = {name.lower() for name in (*keys, *self.spec.exclude_columns)}
            others = [name for name in columns if name.lower() not in of_rows]
            refuse_unordered_share(self.spec, self.source, listing, others)
        return batch

    @property
    def _keeps_records(self) -> bool:
        return self.spec.dead_letter is not None

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return the columns of records, and no record."""
        assert isinstance(listing, TopicListing)
        batch = self.raw(replace(listing, since=listing.upto, remade="", waiting=0), None)
        deletes = batch.has_change_type
        return RawBatch(rows=batch.rows.limit(0), has_change_type=deletes, has_bare_deletes=deletes)

    def _avro(self, sample: Sequence[bytes] | None) -> AvroValues:
        return AvroValues(self.spark, self.source, self.registry_access, sample, self._keeps_records)

    def _protobuf(self) -> ProtobufValues:
        try:
            # Google's library is an extra: topics of other values are read without it.
            from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_values import ProtobufValues
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("google"):
                raise
            raise UnsupportedError(
                f"topic {self.source.topic}: the driver's Python does not load Google's protobuf ({error}); install "
                "airflow-lake-provider[protobuf] in the Python of driver and executors"
            ) from error
        return ProtobufValues(self.spark, str(self.source.descriptors), str(self.source.message))


def _declared_alone(values: Iterable[Any], names: Set[str]) -> Iterator[Any]:
    """Yield objects without names that are not declared: for these, each record is looked at."""
    for value in values:
        if isinstance(value, dict):
            yield {name: inner for name, inner in value.items() if name in names}
