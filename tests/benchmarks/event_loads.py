"""Change events of a topic that are applied, beside the lines that a user writes for it: ``from_json``, the last event
of each key, and ``MERGE INTO``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress

TOPIC = "shop.public.items"
COLUMNS = "id BIGINT, at BIGINT, name STRING, score DOUBLE, amount INT"
# Events of each key: it is made or changed, changed, and changed or deleted.
ROUNDS = 3
_PLACES = "db STRING, schema STRING, table STRING, sequence STRING, lsn BIGINT, ts_ms BIGINT, snapshot STRING"
_ENVELOPE = f"before STRUCT<{COLUMNS}>, after STRUCT<{COLUMNS}>, source STRUCT<{_PLACES}>, op STRING, ts_ms BIGINT"
_RUNS = count()


@dataclass
class EventLoads:
    """Events of a table in one topic, each key in one partition, and tables that have every second key.

    :param servers: of the broker.
    :param events: in the topic; a multiple of partitions and rounds.
    """

    spark: SparkSession
    servers: str
    events: int
    partitions: int

    @property
    def keys(self) -> int:
        """How many keys the events are of."""
        return self.events // ROUNDS

    def produce(self) -> None:
        """Write the topic."""
        writer = self.records().write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", TOPIC).save()

    def records(self) -> DataFrame:
        """Return the records of the topic, with the places of the log in the order of each partition."""
        of_partition, keys = self.events // self.partitions, self.keys // self.partitions
        places = self.spark.range(0, self.events, numPartitions=self.partitions).selectExpr(
            f"cast(id div {of_partition} AS INT) AS partition",
            f"id % {of_partition} AS place",
            f"(id % {of_partition}) div {keys} AS round",
            f"((id % {of_partition}) % {keys}) * {self.partitions} + id div {of_partition} AS key",
        )
        op = f"CASE round WHEN 0 THEN if({_IS_THERE}, 'u', 'c') WHEN 1 THEN 'u' ELSE if(key % 10 = 3, 'd', 'u') END"
        row = "named_struct('id', key, 'at', at, 'name', name, 'score', score, 'amount', amount)"
        rows = places.selectExpr("*", f"{op} AS op", *_values("key", "round"))
        old_row = "named_struct('id', key, 'at', null, 'name', null, 'score', null, 'amount', null)"
        lsn = f"1000 + 8 * (place * {self.partitions} + partition)"
        source = (
            "named_struct('version', '3.3.1.Final', 'connector', 'postgresql', 'name', 'shop', "
            "'ts_ms', 1760000000000 + place, 'snapshot', 'false', 'db', 'shop', "
            f"'sequence', concat('[\"', {lsn} - 4, '\",\"', {lsn}, '\"]'), "
            f"'schema', 'public', 'table', 'items', 'txId', place, 'lsn', {lsn}, 'xmin', null)"
        )
        event = (
            f"named_struct('before', if(op = 'd', {old_row}, null), 'after', if(op = 'd', null, {row}), 'source', "
            f"{source}, 'transaction', null, 'op', op, 'ts_ms', 1760000000001 + place)"
        )
        kept = "map('ignoreNullFields', 'false')"
        return rows.selectExpr(
            "partition",
            "CAST(to_json(named_struct('id', key)) AS BINARY) AS key",
            f"CAST(to_json({event}, {kept}) AS BINARY) AS value",
        )

    def table(self) -> str:
        """Make a table that has every second key."""
        name = f"bench.e{next(_RUNS)}"
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        self.spark.sql(f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
        rows = self.spark.range(self.keys).filter(_IS_THERE.replace("key", "id"))
        rows.selectExpr("id", *_values("id", "-1")).writeTo(f"lake.{name}").append()
        return name

    def ours(self, table: str) -> None:
        """Apply the topic."""
        source = DebeziumTopic("kafka", TOPIC, table="public.items", schema=COLUMNS, name="in")
        run = RunIdentity.of("bench", str(next(_RUNS)), "t", "-1")
        spec = UpsertSpec(catalog="lake", table=table, run=run, source=source, keys=("id",))
        upsert_batch(self.spark, spec, Progress())

    def plain(self, table: str) -> None:
        """Do the same by the lines that a user writes: no check of any value, of keys, or of what came before."""
        ends = {str(number): self.events // self.partitions for number in range(self.partitions)}
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", TOPIC).option("endingOffsets", json.dumps({TOPIC: ends}))
        event = sf.from_json(sf.col("value").cast("string"), _ENVELOPE).alias("event")
        events = reader.load().filter("value IS NOT NULL").select(event).filter("event.source.table = 'items'")
        key = sf.expr("coalesce(event.after.id, event.before.id) AS id")
        last = events.groupBy(key).agg(sf.expr("max_by(event, event.source.lsn) AS event"))
        last.selectExpr("id", "event.op", *(f"event.after.{name}" for name in _OTHERS)).createOrReplaceTempView("last")
        self.spark.sql(
            f"MERGE INTO lake.{table} t USING last s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in _OTHERS)} "
            f"WHEN NOT MATCHED AND s.op != 'd' THEN INSERT (id, {', '.join(_OTHERS)}) "
            f"VALUES (s.id, {', '.join(f's.{name}' for name in _OTHERS)})"
        )

    def refuse_difference(self, ours: str, plain: str) -> None:
        """Fail where both did not come to the same rows."""
        one, other = (self.spark.table(f"lake.{table}") for table in (ours, plain))
        left = one.exceptAll(other).count(), other.exceptAll(one).count()
        assert left == (0, 0), f"rows that the other side lacks: {left}"


_OTHERS = ("at", "name", "score", "amount")
_IS_THERE = "key % 2 = 0"


def _values(key: str, number: str) -> list[str]:
    return [
        f"1700000000 + {key} AS at",
        f"concat('user-', xxhash64({key}, {number}) % 1000000) AS name",
        f"cast(xxhash64({key}, {number}, 1) AS DOUBLE) AS score",
        f"cast(xxhash64({key}, {number}, 2) % 1000 AS INT) AS amount",
    ]
