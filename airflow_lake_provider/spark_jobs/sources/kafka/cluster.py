"""The driver's questions to a Kafka cluster: partitions of a topic, their offsets, and some of its last values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.positions import topic_id
from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.source_access import KafkaAccess
from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, has_class, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import list_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError, java_causes

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_ADMIN = "org.apache.kafka.clients.admin"
_CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"
_PARTITION = "org.apache.kafka.common.TopicPartition"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
# An answer that takes longer is no answer; the client would wait for a minute. So long for one, and for all of a call.
_REQUEST_MS, _CALL_MS = 15_000, 30_000
_REQUEST, _CALL = "request.timeout.ms", "default.api.timeout.ms"
# Records whose values are looked at, milliseconds of one poll, and seconds of all.
_SAMPLE, _POLL, _SAMPLE_SECONDS = 50, 1000, 10
_NO_ACCESS = ("TopicAuthorizationException", "ClusterAuthorizationException", "GroupAuthorizationException")
_NO_LOGIN = ("SaslAuthenticationException", "SslAuthenticationException", "IllegalSaslStateException")
_GONE = ("OffsetOutOfRangeException", "OffsetNotAvailableException")


@dataclass(frozen=True, kw_only=True)
class TopicOffsets:
    """Offsets of a topic at one moment, by partition.

    :param id: of the topic; another one that is made under its name has another. Empty where the broker tells none.
    :param earliest: the first that is still there.
    :param beginning: where a table begins that has applied nothing.
    :param end: behind the last one of committed transactions.
    """

    id: str
    earliest: Mapping[str, int]
    beginning: Mapping[str, int]
    end: Mapping[str, int]


def topic_offsets(spark: SparkSession, access: KafkaAccess, topic: str, since: datetime | None) -> TopicOffsets:
    """Ask for the offsets of a topic.

    :param since: moment of the first record that is wanted; None for all.
    :raises UnsupportedError: the connector is none of the job's jars.
    :raises LakeProviderError: there is no such topic, or the cluster does not answer.
    """
    if not has_class(spark, CONNECTOR):
        raise UnsupportedError(
            f"{CONNECTOR}, which reads topics, is in none of the job's jars; add "
            "org.apache.spark:spark-sql-kafka-0-10_2.13 in the release of your Spark, and what it needs, to the jars "
            "of [lake] spark_jars, or to the operator's packages"
        )
    with kafka_errors(access, topic), _admin(spark, access) as admin:
        described = admin.describeTopics(list_of(spark, [topic])).allTopicNames().get().get(topic)
        kind = class_named(spark, _PARTITION)
        numbers = [int(part.partition()) for part in described.partitions()]
        partitions = {str(number): kind(topic, number) for number in sorted(numbers)}
        spec = class_named(spark, f"{_ADMIN}.OffsetSpec")

        def offsets(of: Any) -> dict[str, int]:
            asked = jvm_of(spark).java.util.HashMap()
            for partition in partitions.values():
                asked.put(partition, of)
            isolation = class_named(spark, "org.apache.kafka.common.IsolationLevel").READ_COMMITTED
            options = class_named(spark, f"{_ADMIN}.ListOffsetsOptions")(isolation)
            answered = admin.listOffsets(asked, options).all().get()
            return {name: int(answered.get(partition).offset()) for name, partition in partitions.items()}

        earliest, end = offsets(spec.earliest()), offsets(spec.latest())
        # A partition without a record since then begins at its end.
        since_then = offsets(spec.forTimestamp(epoch_millis(since))) if since is not None else earliest
        beginning = {name: end[name] if offset < 0 else offset for name, offset in since_then.items()}
        id_ = topic_id(str(described.topicId().toString()))
        return TopicOffsets(id=id_, earliest=earliest, beginning=beginning, end=end)


def is_compacted(spark: SparkSession, access: KafkaAccess, topic: str) -> bool | None:
    """Return whether the broker removes records of a topic behind which their key has another.

    :return: None where the user may not see the configuration of the topic.
    """
    resource = class_named(spark, "org.apache.kafka.common.config.ConfigResource")
    of_topic = class_named(spark, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
    asked = resource(of_topic, topic)
    try:
        with kafka_errors(access, topic), _admin(spark, access) as admin:
            config = admin.describeConfigs(list_of(spark, [asked])).all().get().get(asked)
            return "compact" in str(config.get("cleanup.policy").value())
    except AccessDeniedError:
        return None


def last_values(
    spark: SparkSession, access: KafkaAccess, topic: str, ranges: Mapping[str, tuple[int, int]]
) -> list[bytes] | None:
    """Return some of the last values of a topic, read by the driver; a job of Spark takes ten times as long.

    :param ranges: first offset and the one behind the last, by partition; few of each are read.
    :return: values of every partition that has some; None where they did not come in time.
    """
    kind = class_named(spark, _PARTITION)
    ends = {name: end for name, (start, end) in ranges.items() if start < end}
    partitions = {name: kind(topic, int(name)) for name in ends}
    few = max(1, _SAMPLE // max(1, len(ends)))
    values: list[bytes] = []
    with _consumer(spark, access) as consumer:
        consumer.assign(list_of(spark, list(partitions.values())))
        for name, partition in partitions.items():
            consumer.seek(partition, max(ranges[name][0], ends[name] - few))
        pause, give_up_at = jvm_of(spark).java.time.Duration.ofMillis(_POLL), time.monotonic() + _SAMPLE_SECONDS
        while any(int(consumer.position(partitions[name])) < end for name, end in ends.items()):
            if time.monotonic() > give_up_at:
                return None
            read = (record.value() for record in consumer.poll(pause).iterator())
            values += [bytes(value) for value in read if value is not None]
    return values


@contextmanager
def _consumer(spark: SparkSession, access: KafkaAccess) -> Iterator[Any]:
    """Open a consumer that is of no group and commits no offsets."""
    # A consumer that is closed waits for the answer to its next fetch: half a second where nothing is new.
    of_ours = {"isolation.level": "read_committed", "enable.auto.commit": "false", "fetch.max.wait.ms": "20"}
    properties = _properties(spark, access, of_ours)
    of_bytes = class_named(spark, _BYTES)
    consumer = class_named(spark, _CONSUMER)(properties, of_bytes(), of_bytes())
    try:
        yield consumer
    finally:
        with suppress(JavaError):
            consumer.close()


@contextmanager
def _admin(spark: SparkSession, access: KafkaAccess) -> Iterator[Any]:
    admin = class_named(spark, f"{_ADMIN}.AdminClient").create(_properties(spark, access, {}))
    try:
        yield admin
    finally:
        with suppress(JavaError):
            admin.close()


def _properties(spark: SparkSession, access: KafkaAccess, of_ours: Mapping[str, str]) -> Any:
    properties = jvm_of(spark).java.util.Properties()
    of_connection = {**access.properties, **access.secrets}
    for name, value in {**_waits(of_connection), **of_connection, **of_ours}.items():
        properties.setProperty(name, value)
    return properties


def reader_properties(access: KafkaAccess) -> dict[str, str]:
    """Return the client's properties for Spark's reader, which waits as Kafka does where the connection says nothing.

    Kafka refuses one wait that the connection gives beside the other one's default, so the reader gets both.
    """
    of_connection = {**access.properties, **access.secrets}
    both = _waits(of_connection) if {_REQUEST, _CALL} & of_connection.keys() else {}
    return {**both, **of_connection}


def _waits(of_connection: Mapping[str, str]) -> dict[str, str]:
    """Return how long the client waits for an answer, and for a call: Kafka takes no call shorter than an answer.

    :param of_connection: properties, of which those that are given stay as they are.
    """
    # Kafka refuses what is no number.
    given = {name: int(value) for name, value in of_connection.items() if value.strip().isdecimal()}
    call = given.get(_CALL, max(_CALL_MS, 2 * given.get(_REQUEST, 0)))
    request = given.get(_REQUEST, min(_REQUEST_MS, call))
    return {_REQUEST: str(request), _CALL: str(call)}


@contextmanager
def kafka_errors(access: KafkaAccess, topic: str) -> Iterator[None]:
    """Turn an error of Kafka into one that says what to do; no other error is touched.

    :raises LakeProviderError: of the cause's type.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        translated = _translated(access, topic, error)
        if translated is None:
            raise
        raise translated from error


def _translated(access: KafkaAccess, topic: str, error: Exception) -> LakeProviderError | None:
    causes = [(name, " ".join(text.split())) for name, text in java_causes(error)]
    what = f"topic {topic} of {access.servers}"

    def caused_by(*names: str) -> str | None:
        return next((text for name, text in causes if name in names), None)

    made: tuple[tuple[tuple[str, ...], Callable[[str], LakeProviderError], str], ...] = (
        (("UnknownTopicOrPartitionException",), MissingTableError, "does not exist, or may not be seen"),
        (("InvalidTopicException",), BadInputError, "cannot be the name of a topic"),
        (_NO_ACCESS, AccessDeniedError, "may not be read by this user; it needs to describe and to read the topic"),
        (_NO_LOGIN, InvalidConnectionError, "cannot be logged in to"),
        (("ConfigException",), InvalidConnectionError, "has a property that Kafka does not take"),
        (_GONE, JobFailedError, "has lost records while they were read; the next try says how many"),
        (("TimeoutException", "DisconnectException"), JobFailedError, "did not answer; is bootstrap.servers right?"),
    )
    for names, kind, sentence in made:
        if (message := caused_by(*names)) is not None:
            return kind(f"{what} {sentence}: {message[:500]}")
    return None
