"""A Kafka topic of Debezium's change events as a source."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import THIRTY_DAYS
from airflow_lake_provider.contracts.argument_validation import optional, text
from airflow_lake_provider.contracts.author.debezium_connector import DebeziumConnector
from airflow_lake_provider.contracts.author.kafka_topic import Topic
from airflow_lake_provider.contracts.author.reader_options import column_list
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, ChangeStream
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError

_ORDERINGS = (EventOrdering.PARTITION, EventOrdering.KEY)


def _ordering(value: object, name: str) -> EventOrdering:
    if value not in _ORDERINGS:
        raise InvalidSpecError(
            f"{name} must be 'partition', where all events of a key are in one partition, or 'key', got {value!r}. "
            "Kafka orders the records of one partition, and offsets tell which were read"
        )
    return EventOrdering(value)


@dataclass(frozen=True)
class DebeziumTopic(Topic, ChangeStream, DebeziumConnector):
    """Change events of one table in a Kafka topic, up to those that are there when the run looks.

    Offsets are kept by the table, in the commit of the rows. No consumer group is used. Only committed transactions are
    read.

    :param connection: id of an Airflow connection of type ``kafka``, as of :class:`.KafkaTopic`.
    :param topic: name.
    :param table: source table whose events are taken, ``orders``, ``public.orders`` or ``shop.public.orders``.
    :param registry: id of an Airflow connection of type ``http`` to a schema registry with Confluent's API: keys and
        values are Avro. Left out, they are JSON, each with or without its schema.
    :param schema: DDL of the columns, ``"order_id STRING, total DECIMAL(12,2)"``.
    :param ordering: ``"partition"``: all events of a key are in one partition. ``"key"``: they are not, or more
        partitions may come, so each row keeps its position.
    :param tombstone_retention: how long ``ordering="key"`` remembers deleted keys; timedelta or ISO-8601 text.
    :param binary_handling_mode: as of :class:`.Debezium`, as are the next three.
    :param decimal_handling_mode: the connector's ``decimal.handling.mode``.
    :param key_field_name: the field that a transform adds to the records' keys.
    :param unavailable_value_placeholder: the connector's.
    :param starting: where a table begins that has applied nothing of the topic: ``"earliest"``, or a time with a zone.
    :param on_gap: what to do when events are gone that no run has applied: ``"fail"``, or ``"skip"``.
    :param max_records: most records of one commit, shared among partitions by what waits in each.
    :param catch_up: go on in the same run, with a commit for each ``max_records``.
    """

    kind: ClassVar[str] = "debezium-topic"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.envelopes.debezium.topic:DebeziumTopicSource"
    table: str = field(kw_only=True, metadata=reads(text, "table"))
    schema: str | None = field(default=None, kw_only=True, metadata=reads(optional(column_list)))
    ordering: EventOrdering | str = field(default=EventOrdering.PARTITION, kw_only=True, metadata=reads(_ordering))
    tombstone_retention: timedelta | str = field(
        default=timedelta(seconds=THIRTY_DAYS), kw_only=True, metadata=reads(duration)
    )

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse what would lose events, what they bring themselves, and what their ordering cannot do."""
        self.refuse_reading(spec)
        super().refuse_arguments(spec)
