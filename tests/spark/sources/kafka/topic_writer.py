"""Topics of a broker that a test makes, writes, grows, compacts and makes anew, by Java's own client."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.source_access import KafkaAccess
from airflow_lake_provider.hooks.topic_end import end_of_topic
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import topic_offsets
from tests.end_to_end.kafka_broker import USER, KafkaBroker, jars_of
from tests.spark.sources.session_settings import add_jars

SCHEMA = "id BIGINT, name STRING"
_LOCK = Path(__file__).with_name("connector.lock")
_ROOTS = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1", "org.apache.spark:spark-avro_2.13:4.1.1")
_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"


def connector_jars() -> list[Path]:
    """Bring the packages of a job that reads topics."""
    return jars_of(_LOCK, "kafka-connector", *_ROOTS)


def add_connector(spark: SparkSession) -> None:
    """Bring them into the JVM of a session that runs."""
    add_jars(spark, connector_jars())


def jaas_of(password: str) -> str:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{USER}" password="{escaped}";'


@dataclass
class Cluster:
    """A broker, with the clients of a test.

    :param broker: of :func:`kafka_broker`.
    """

    spark: SparkSession
    broker: KafkaBroker
    admin: Any
    producer: Any

    @classmethod
    def of(cls, spark: SparkSession, broker: KafkaBroker) -> Cluster:
        """Connect."""
        jvm: Any = spark._jvm
        made = cls(spark, broker, None, None)
        made.admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(made._properties())
        made.producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(made._properties())
        return made

    def _properties(self, **more: str) -> Any:
        jvm: Any = self.spark._jvm
        properties = jvm.java.util.Properties()
        given = {"bootstrap.servers": self.broker.plain, "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}
        # A batch is sent at once.
        for name, value in {**given, "acks": "all", "linger.ms": "0", **more}.items():
            properties.setProperty(name, value)
        return properties

    def close(self) -> None:
        self.admin.close()
        self.producer.close()

    def make(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Make a topic; names of its configuration have ``_`` for a dot."""
        jvm: Any = self.spark._jvm
        made = jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1)
        settings = jvm.java.util.HashMap()
        for name, value in config.items():
            settings.put(name.replace("_", "."), value)
        made = made.configs(settings)
        topics = jvm.java.util.ArrayList()
        topics.add(made)
        self.admin.createTopics(topics).all().get()
        self._wait_for(topic)

    def remove(self, topic: str) -> None:
        jvm: Any = self.spark._jvm
        topics = jvm.java.util.ArrayList()
        topics.add(topic)
        self.admin.deleteTopics(topics).all().get()
        # One that knew the topic goes on with its id for minutes, where another of that name is made.
        self.producer.close()
        self.producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(self._properties())

    def grow(self, topic: str, partitions: int) -> None:
        jvm: Any = self.spark._jvm
        more = jvm.java.util.HashMap()
        more.put(topic, jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions))
        self.admin.createPartitions(more).all().get()
        self._wait_for(topic)

    def _wait_for(self, topic: str) -> None:
        """Wait until each partition answers: a record that came before was kept for two minutes and then given up.

        A topic that was made may not be there for a moment yet, to those who ask for it.
        """
        access, until = KafkaAccess({"bootstrap.servers": self.broker.plain}), time.monotonic() + 30
        while True:
            try:
                topic_offsets(self.spark, access, topic, None)
                return
            except MissingTableError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def cut(self, topic: str, partition: int, before: int) -> None:
        """Remove the records before an offset, as retention does."""
        jvm: Any = self.spark._jvm
        gone = jvm.java.util.HashMap()
        of = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        # A static method, and one of objects, have this name: py4j finds neither.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        kind = jvm.java.lang.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete", True, loader)
        gateway: Any = self.spark.sparkContext._gateway
        types = gateway.new_array(jvm.java.lang.Class, 1)
        types[0] = jvm.java.lang.Long.TYPE
        given = gateway.new_array(jvm.java.lang.Object, 1)
        given[0] = jvm.java.lang.Long(before)
        gone.put(of, kind.getMethod("beforeOffset", types).invoke(None, given))
        self.admin.deleteRecords(gone).all().get()

    def send(self, topic: str, *records: tuple[Any, ...], producer: Any = None) -> None:
        """Write (partition, key, value[, headers]); keys and values are bytes, texts, or made JSON."""
        jvm: Any = self.spark._jvm
        kind = jvm.org.apache.kafka.clients.producer.ProducerRecord
        sent = []
        for partition, key, value, *headers in records:
            record = kind(topic, partition, _bytes(key), _bytes(value))
            for name, text in (headers[0] if headers else {}).items():
                record.headers().add(name, text)
            sent.append((producer or self.producer).send(record))
        (producer or self.producer).flush()
        for each in sent:
            each.get()

    def transaction(self, topic: str, *records: tuple[Any, ...], commits: bool) -> None:
        """Write in a transaction, which is committed or aborted."""
        jvm: Any = self.spark._jvm
        properties = self._properties(**{"transactional.id": f"tx-{topic}-{commits}"})
        producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)
        try:
            producer.initTransactions()
            producer.beginTransaction()
            self.send(topic, *records, producer=producer)
            self.assert_a_worker_sees_the_same_end(topic)
            if commits:
                producer.commitTransaction()
            else:
                producer.abortTransaction()
        finally:
            producer.close()

    def offsets_there(self, topic: str) -> list[int]:
        """Return the offsets of the records of partition 0 that a consumer sees."""
        rows = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.broker.plain)
        found = rows.option("subscribe", topic).load().filter("partition = 0").select("offset").collect()
        return sorted(row["offset"] for row in found)

    def assert_a_worker_sees_the_same_end(self, topic: str) -> None:
        """Ask for the end of a topic by the clients of both sides."""
        servers = {"bootstrap.servers": self.broker.plain}
        connection = json.dumps({"conn_type": "kafka", "extra": servers})
        with patch.dict(os.environ, {"AIRFLOW_CONN_KAFKA": connection}):
            end = end_of_topic(KafkaTopic("kafka", topic, value_format="binary"))
        of_driver = topic_offsets(self.spark, KafkaAccess(servers), topic, None)
        assert end == OffsetsPosition(of_driver.end, of_driver.id)

    def wait_until_compacted(self, topic: str, records: int) -> None:
        """Wait until so many records of partition 0 are left at most."""
        deadline = time.monotonic() + 20
        while len(self.offsets_there(topic)) > records:
            assert time.monotonic() < deadline, "the topic was not compacted"
            time.sleep(0.3)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def orders(*rows: Mapping[str, Any], partitions: int = 1) -> Sequence[tuple[int, str, Mapping[str, Any]]]:
    """Return records with the key of their id, each key in a partition of its own."""
    return [(row["id"] % partitions, str(row["id"]), row) for row in rows]


def topic(name: str, **arguments: Any) -> KafkaTopic:
    """A topic whose records have the columns of ``SCHEMA``."""
    return KafkaTopic("kafka", name, **{"schema": SCHEMA, **arguments})


def rows(flow: Any) -> list[tuple[Any, ...]]:
    """The rows of a flow's table, sorted."""
    return sorted(tuple(row.values()) for row in flow.records())
