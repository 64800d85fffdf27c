"""Ask a Kafka cluster from the worker where a topic ends, by Airflow's Kafka provider, where that is installed.

The answer only saves a start of Spark: without one the driver asks for itself, and says what is the matter.
"""

from __future__ import annotations

import base64
import logging
from typing import Any

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition, topic_id
from airflow_lake_provider.contracts.author.kafka_topic import Topic

_log = logging.getLogger(__name__)
# Of each of the two requests, with the search for a broker. Spark starts in less time than a second try would take.
_SECONDS = 10.0


def end_of_topic(source: Topic) -> OffsetsPosition | None:
    """Return the offsets behind the last committed records of a topic; None where the worker cannot tell.

    :param source: whose connection is valid.
    """
    try:
        from airflow.providers.apache.kafka.hooks.client import KafkaAdminClientHook

        end = _asked(KafkaAdminClientHook(source.connection).get_conn, source.topic)
    except ModuleNotFoundError:
        return None
    # The hook, other providers that it asks for a login, and the client have errors of their own.
    except Exception as error:  # noqa: BLE001  # the answer saves a start of Spark, and no more
        _log.info("The worker cannot tell where topic %s ends, so Spark asks: %s", source.topic, error)
        # It holds the client, which would go on to look for brokers.
        error.__traceback__ = None
        return None
    # Of brokers that know no ids, a topic that is made anew could not be told.
    return end if end.topic else None


def _asked(client: Any, topic: str) -> OffsetsPosition:
    from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # it is documented

    def answer(future: Any) -> Any:
        # Of itself it waits for ever.
        return future.result(timeout=2 * _SECONDS)

    described = answer(client.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)[topic])
    last = {TopicPartition(topic, each.id): OffsetSpec.latest() for each in described.partitions}  # type: ignore[no-untyped-call]  # confluent
    ends = client.list_offsets(last, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_SECONDS)
    return OffsetsPosition({str(of.partition): answer(end).offset for of, end in ends.items()}, _id(described.topic_id))


def _id(uuid: Any) -> str:
    """Return the id of a topic as Java's client writes it; that of librdkafka has other letters for two of 64."""
    halves = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    number = b"".join(half.to_bytes(8, "big", signed=True) for half in halves)
    return topic_id(base64.urlsafe_b64encode(number).decode().rstrip("="))
