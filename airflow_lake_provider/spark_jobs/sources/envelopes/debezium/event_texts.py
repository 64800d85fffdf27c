"""Texts of a batch in which Debezium's events are: lines of files, or records of a topic.

Forms of a line: a bare envelope; ``{"schema", "payload"}``; a Kafka record ``{"topic", "key", "value"[, "headers"]}``
whose value is either of them, or null, which is a tombstone. A record of a topic has one of the first two as its value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.faulty_lines import HAS_JSON

DebeziumStream = Debezium | DebeziumTopic
CORRUPT = "_lake_corrupt"
_CONNECT_TYPE = "type: STRING, name: STRING, parameters: MAP<STRING, STRING>"
_SCHEMA = (
    "STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, "
    f"{_CONNECT_TYPE}, items: STRUCT<{_CONNECT_TYPE}>>>>>>"
)
# Fields of a record that a sink may write; it has those that its author has named.
_OF_RECORD = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_OLD_KEY, _NEW_KEY = "__debezium.oldkey", "__debezium.newkey"


def envelope_fields(image: str) -> str:
    """Return the fields of an envelope, with or without its schema, as text of Spark's types.

    :param image: type of ``before`` and ``after``.
    """
    places = ", ".join(f"`{name}`: STRING" for name in ("db", "schema", "table", "sequence", "ts_ms", "snapshot"))
    envelope = f"before: {image}, after: {image}, op: STRING, source: STRUCT<{places}>"
    return f"{envelope}, `schema`: {_SCHEMA}, payload: STRUCT<{envelope}>"


def row_fields() -> Column:
    """Return the fields of the row in the connect schema, which is in the column ``schema``."""
    return sf.get(sf.filter("schema.fields", lambda field: field["field"] == "after"), sf.lit(0))["fields"]


class EventTexts(ABC):
    """Texts of a batch, parsed into ``line``, and what stands beside them."""

    # Places in ``line`` where an envelope may be, and those where the schema beside it may be.
    forms: ClassVar[Sequence[str]]
    with_schema: ClassVar[Sequence[str]]

    @abstractmethod
    def read(self, fields: str, where: Column | None) -> DataFrame:
        """Return ``_lake_arrival``, the text ``value``, and ``line``.

        :param fields: of an envelope, see :func:`envelope_fields`.
        :param where: what is kept of the texts.
        """

    @abstractmethod
    def record_columns(self) -> list[Column]:
        """Return the record that the event is in: its place, key and headers, and what tells a tombstone."""


def _parsed(fields: str) -> Column:
    return sf.from_json("value", f"STRUCT<{fields}, {CORRUPT}: STRING>", {"columnNameOfCorruptRecord": CORRUPT})


@dataclass(frozen=True)
class LinesOfFiles(EventTexts):
    """Lines of files.

    :param source: its options go to Spark's text reader (``lineSep``).
    """

    forms: ClassVar[Sequence[str]] = ("line.value.payload", "line.value", "line.payload", "line")
    with_schema: ClassVar[Sequence[str]] = ("line.value", "line")
    spark: SparkSession
    source: Debezium
    files: tuple[InputFile, ...]

    def read(self, fields: str, where: Column | None) -> DataFrame:
        """Read the files."""
        lines = self.spark.read.options(**self.source.options).text(literal_paths(self.files))
        lines = lines.filter(HAS_JSON)
        record = "topic: STRING, `partition`: STRING, `offset`: STRING, `key`: STRING, headers: STRING"
        line = _parsed(f"{fields}, {record}, `value`: STRUCT<{fields}>").alias("line")
        # Parsed where arrival is told: elsewhere Spark would move filters below, and parse a line once per field they
        # use.
        scan = Scan(rows=lines if where is None else lines.filter(where), columns=("value", line))
        return with_arrival(self.spark, self.files, scan)

    def record_columns(self) -> list[Column]:
        """Return those of the line, NULL where it is no record."""
        return [
            *(sf.col(f"line.{name}").alias(name) for name in ("topic", "partition", "offset")),
            sf.col("line.key").alias("key_text"),
            _header_of_line(_OLD_KEY).alias("old_key"),
            _header_of_line(_NEW_KEY).alias("new_key"),
            sf.coalesce("line.value.payload.op", "line.value.op").isNotNull().alias("of_record"),
            (sf.col("line.topic").isNotNull() | sf.col("line.key").isNotNull() | _is_bare_record()).alias("is_record"),
            sf.col("line.value").isNull().alias("no_value"),
            sf.array_contains(sf.json_object_keys("value"), "key").alias("tells_key"),
        ]


@dataclass(frozen=True)
class RecordsOfTopic(EventTexts):
    """Records of a topic. Tombstones tell nothing: offsets say what was read.

    :param records: of Spark's reader, with keys and values as text.
    """

    forms: ClassVar[Sequence[str]] = ("line.payload", "line")
    with_schema: ClassVar[Sequence[str]] = ("line",)
    records: DataFrame

    def read(self, fields: str, where: Column | None) -> DataFrame:
        """Read the records."""
        kept = self.records.filter("value IS NOT NULL")
        # The last number has no meaning: with it no filter moves below, see the lines of files.
        numbers = {"file": sf.col("partition"), "block": sf.col("offset"), "row": sf.monotonically_increasing_id()}
        arrival = sf.struct(*(number.alias(name) for name, number in numbers.items())).alias(ARRIVAL)
        beside = ("topic", "partition", "offset", "key", "headers")
        return (kept if where is None else kept.filter(where)).select(
            "value", *(sf.col(name).alias(f"record_{name}") for name in beside), _parsed(fields).alias("line"), arrival
        )

    def record_columns(self) -> list[Column]:
        """Return those of Kafka."""
        return [
            *(sf.col(f"record_{name}").alias(name) for name in ("topic", "partition", "offset")),
            sf.col("record_key").alias("key_text"),
            _header(_OLD_KEY).alias("old_key"),
            _header(_NEW_KEY).alias("new_key"),
            sf.lit(True).alias("of_record"),
            sf.lit(True).alias("is_record"),
            sf.lit(False).alias("no_value"),
            sf.lit(True).alias("tells_key"),
        ]


def _is_bare_record() -> Column:
    others = sf.array_except(sf.json_object_keys("value"), sf.array(*map(sf.lit, _OF_RECORD)))
    return sf.coalesce(sf.size(others) == 0, sf.lit(False))


def _header(name: str) -> Column:
    # A name may be there twice, which a map refuses.
    return _listed("record_headers", name).cast("string")


def _header_of_line(name: str) -> Column:
    """Return a header of a mapping, or of a list of keys and values, as Aiven's sinks write them."""
    mapped = sf.from_json("line.headers", f"STRUCT<`{name}`: STRING>")[name]
    return sf.coalesce(mapped, _listed(sf.from_json("line.headers", "ARRAY<STRUCT<key: STRING, value: STRING>>"), name))


def _listed(headers: str | Column, name: str) -> Column:
    return sf.get(sf.filter(headers, lambda header: header["key"] == name), sf.lit(0))["value"]
