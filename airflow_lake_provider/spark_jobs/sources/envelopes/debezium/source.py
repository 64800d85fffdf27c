"""Debezium's change events as an envelope, and the source of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition, TuplePosition
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope, EnvelopeWords, EventColumns
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeEventsSource
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium import envelope
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.columns import find_columns


class DebeziumEnvelope(Envelope):
    """Lines of Debezium in every form that Kafka sinks write, of the PostgreSQL connector."""

    log: ClassVar[type[TuplePosition]] = PostgresLogPosition
    words: ClassVar[EnvelopeWords] = EnvelopeWords(
        events="Debezium change events, which are JSON with op and source.table",
        operations="c, r, u, d, m and t",
        truncation="a truncation (op 't')",
        no_truncations="Set skipped.operations=t in the connector, so that there are no more",
        place=(
            "source.sequence with two positions, which orders them; the PostgreSQL connector writes it, other "
            "connectors are not supported yet"
        ),
        no_key=(
            "REPLICA IDENTITY FULL does not help. Give the table a primary key, or name columns that are unique in the "
            "connector's message.key.columns"
        ),
        key_change=(
            "the connector splits such an update into a delete and a create only for the primary key, so give the "
            "primary key as keys"
        ),
    )
    source: Debezium

    def events(self, keys: Sequence[str], names: Names) -> DataFrame:
        """Return one row per change event of the source's table, per tombstone with a place, and per bad line."""
        return envelope.read_events(self.spark, self.source, self.files, keys, names)

    def columns(self, surveyed: EventSurvey, table_schema: StructType | None) -> EventColumns:
        """Give each column a type; one that nobody tells is inferred, in a second pass over the text."""
        return find_columns(self.spark, self.source, self.files, surveyed, table_schema)

    def count_tables(self, limit: int) -> dict[str, int]:
        """Return the tables with the most events."""
        return envelope.count_tables(self.spark, self.source, self.files, limit)

    def checked_lines(self, keys: Sequence[str]) -> DataFrame:  # noqa: ARG002  # others need them
        """Return every line's arrival and whether it is ``bad``; no other column is parsed."""
        return envelope.mark_bad(self.spark, self.source, self.files)

    def refuse_other_keys(self, surveyed: EventSurvey, keys: Sequence[str]) -> None:
        """Add what a transform may have done to the records' keys."""
        table = self.source.table
        if self.source.key_field_name in surveyed.columns:
            raise BadInputError(
                f"rows of {table} have a column {self.source.key_field_name}, so it is no field that a transform adds "
                "to the key, as key_field_name says of it; give key_field_name the name of that field, or leave it out"
            )
        others = [names for names in surveyed.record_keys if set(names) != set(keys)]
        added = sorted({name for names in others for name in names} - set(surveyed.columns))
        if added and () not in surveyed.record_keys:
            raise BadInputError(
                f"events of {table} are keyed by {list(others[0])}, and their rows have no {added}. Where a transform "
                f"adds it to the key, such as ByLogicalTableRouter, give the source key_field_name={added[0]!r}. Where "
                "the connector leaves the column out of the rows, let it send the column: the rows have no key without "
                "it"
            )
        super().refuse_other_keys(surveyed, keys)


class DebeziumSource(ChangeEventsSource):
    """Change events of Debezium."""

    envelope: ClassVar[type[Envelope]] = DebeziumEnvelope
    source: Debezium
