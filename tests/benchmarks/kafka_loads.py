"""A topic that is appended, beside Spark's own reader of it, between the same offsets, and ``writeTo().append()``.

Of JSON and of Avro with a registry: the peer knows the one schema, and we look it up. A topic of change events is
applied beside ``MERGE INTO``, see ``event_loads.py``. A ratio is the peer's over ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro, to_avro

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.source_access import KafkaAccess
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.benchmarks import event_loads
from tests.benchmarks.bench_session import open_session
from tests.benchmarks.event_loads import EventLoads
from tests.end_to_end.kafka_broker import KafkaBroker, kafka_broker
from tests.spark.sources.kafka.schema_registry import record, schema_registry
from tests.spark.sources.kafka.topic_writer import connector_jars

PARTITIONS = 4
# Of the rows of the other topics, so that all of it takes some minutes.
SHARE_OF_EVENTS = 10
COLUMNS = "id BIGINT, at BIGINT, name STRING, score DOUBLE, amount INT"
AVRO = record("Event", id="long", at="long", name="string", score="double", amount="int")
_RUNS = count()


@dataclass
class TopicLoads:
    """The same rows in a topic of JSON and in one of Avro.

    :param rows: of each.
    """

    spark: SparkSession
    broker: KafkaBroker
    rows: int

    @property
    def events(self) -> EventLoads:
        """The topic of change events."""
        shares = PARTITIONS * event_loads.ROUNDS
        return EventLoads(self.spark, self.broker.plain, self.rows // SHARE_OF_EVENTS // shares * shares, PARTITIONS)

    def produce(self) -> None:
        """Write both topics, with as many records in each partition."""
        made = self.spark.range(0, self.rows, numPartitions=PARTITIONS).select(
            "id",
            sf.expr("1700000000 + id AS at"),
            sf.expr("concat('user-', xxhash64(id) % 1000000) AS name"),
            sf.expr("cast(xxhash64(id, 1) AS DOUBLE) AS score"),
            sf.expr("cast(xxhash64(id, 2) % 1000 AS INT) AS amount"),
        )
        columns = sf.struct(*made.columns)
        framed = sf.concat(sf.expr("X'0000000001'"), to_avro(columns, json.dumps(AVRO)))
        for topic, value in (("json", sf.to_json(columns).cast("binary")), ("avro", framed)):
            placed = made.select(value.alias("value"), sf.expr(f"cast(id % {PARTITIONS} AS INT)").alias("partition"))
            sent = placed.write.format("kafka").option("kafka.bootstrap.servers", self.broker.plain)
            sent.option("topic", topic).save()

    def ours(self, topic: str, table: str) -> None:
        """Append a topic."""
        values: dict[str, Any] = {"value_format": "avro", "registry": "registry"}
        given = values if topic == "avro" else {"schema": COLUMNS}
        spec = AppendSpec(
            catalog="lake",
            table=table,
            run=RunIdentity.of("bench", str(next(_RUNS)), "t", "-1"),
            source=KafkaTopic("kafka", topic, name="in", **given),
        )
        append_batch(self.spark, spec, Progress())

    def plain(self, topic: str, table: str) -> None:
        """Do the same by the lines that a user writes."""
        ends = json.dumps({topic: {str(number): self.rows // PARTITIONS for number in range(PARTITIONS)}})
        starts = json.dumps({topic: {str(number): 0 for number in range(PARTITIONS)}})
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.broker.plain)
        records = reader.option("subscribe", topic).option("startingOffsets", starts).option("endingOffsets", ends)
        value = sf.from_json(sf.col("value").cast("string"), COLUMNS)
        if topic == "avro":
            value = from_avro(sf.expr("substring(value, 6)"), json.dumps(AVRO))
        records.load().select(value.alias("row")).select("row.*").writeTo(f"lake.{table}").append()

    def table(self) -> str:
        """Make an empty table."""
        name = f"bench.t{next(_RUNS)}"
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        self.spark.sql(f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
        return name


@contextmanager
def topics_to_load(home: Path, rows: int) -> Iterator[TopicLoads]:
    """Start a broker, a registry and a session, and write the topics.

    :param rows: of each, a multiple of the partitions.
    """
    os.environ["AIRFLOW__LAKE__SPARK_JARS"] = str(_all_jars(home))
    with kafka_broker() as broker, schema_registry({1: AVRO}, {"avro-value": 1}) as registry:
        spark = open_session(home)
        access = KafkaAccess({"bootstrap.servers": broker.plain})
        for name, value in {**access.to_settings("kafka"), **registry.to_settings("registry")}.items():
            spark.conf.set(name, value)
        jvm: Any = spark._jvm
        properties = jvm.java.util.Properties()
        properties.setProperty("bootstrap.servers", broker.plain)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        topics = jvm.java.util.ArrayList()
        for topic in ("json", "avro", event_loads.TOPIC):
            topics.add(jvm.org.apache.kafka.clients.admin.NewTopic(topic, PARTITIONS, 1))
        admin.createTopics(topics).all().get()
        admin.close()
        loads = TopicLoads(spark, broker, rows)
        loads.produce()
        loads.events.produce()
        yield loads
        spark.stop()


def _all_jars(home: Path) -> Path:
    folder = home / "jars"
    folder.mkdir()
    for jar in [*Path(os.environ["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar"), *connector_jars()]:
        (folder / jar.name).symlink_to(jar)
    return folder


def compare_topics(loads: TopicLoads, repeats: int, timed: Callable[[Callable[[], Any]], float]) -> dict[str, Any]:
    """Run both sides in turn, and return seconds and ratios."""
    events = loads.events
    # Each with what makes its table, which is not measured.
    sides: dict[str, tuple[Callable[[], str], Callable[[str], None]]] = {
        "json": (loads.table, partial(loads.ours, "json")),
        "plain_json": (loads.table, partial(loads.plain, "json")),
        "avro": (loads.table, partial(loads.ours, "avro")),
        "plain_avro": (loads.table, partial(loads.plain, "avro")),
        "events": (events.table, events.ours),
        "plain_events": (events.table, events.plain),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    tables: dict[str, str] = {}
    for number in range(repeats + 1):
        for name, (make, load) in sides.items():
            tables[name] = make()
            took = timed(partial(load, tables[name]))
            # The first of each warms up.
            seconds[name] += [took] if number else []
    events.refuse_difference(tables["events"], tables["plain_events"])
    middle = {name: median(times) for name, times in seconds.items()}
    sizes = {"rows": loads.rows, "events": events.events, "partitions": PARTITIONS, "repeats": repeats}
    return {
        "settings": {**sizes, "both sides": "local[2]"},
        "seconds": {name: [round(each, 2) for each in times] for name, times in seconds.items()},
        "ratios": {
            "kafka_vs_plain": round(middle["plain_avro"] / middle["avro"], 3),
            "kafka_json_vs_plain": round(middle["plain_json"] / middle["json"], 3),
            "kafka_events_vs_merge": round(middle["plain_events"] / middle["events"], 3),
        },
    }
