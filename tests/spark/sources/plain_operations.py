"""A second envelope, which only tests have: one file and one registration. Shown on the page on envelopes.

Each line is one operation, much as Maxwell writes it: ``{"table": "items", "type": "update", "position":
"binlog.000003:120", "ts": 1760000000, "data": {"id": 1, "n": 2}, "old": {"n": 1}, "primary_key_columns": ["id"]}``. A
column that an update's ``data`` lacks did not change, as with MySQL's ``binlog_row_image=MINIMAL``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import or_
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.contracts.author.sources import ChangeEvents
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, literal_paths, with_arrival
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope, EnvelopeWords, EventColumns
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.events import (
    CREATE,
    DELETE,
    READ,
    TRUNCATE,
    UPDATE,
    event_columns,
    position_of,
)
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeEventsSource
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types, parse_ddl
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

_LINE = (
    "table STRING, type STRING, position STRING, ts BIGINT, data MAP<STRING, STRING>, old MAP<STRING, STRING>, "
    "primary_key_columns ARRAY<STRING>"
)
_KINDS = {"insert": CREATE, "bootstrap-insert": READ, "update": UPDATE, "delete": DELETE, "truncate": TRUNCATE}
_FILE_AND_OFFSET = r"\.(\d+):(\d+)$"


# [START arguments]
@dataclass(frozen=True)
class PlainOperations(ChangeEvents):
    """Operations on one table; ``schema`` names all of its columns."""

    reader: ClassVar[str] = "tests.spark.sources.plain_operations:PlainOperationsSource"


# [END arguments]
# [START log]
@dataclass(frozen=True)
class BinlogPosition(TuplePosition):
    """Number of a file of MySQL's log, and the offset in it."""

    kind: ClassVar[str] = "binlog"
    code: ClassVar[int] = 201
    file: int
    offset: int


# [END log]
# [START columns]
class TextColumns(EventColumns):
    """Columns whose texts Spark can cast."""

    def value(self, column: str, text: Column, types: Column) -> Column:
        return try_cast(text, self.types[column])


# [END columns]
# [START envelope]
class PlainOperationsEnvelope(Envelope):
    """Lines of operations as change events of one table."""

    log: ClassVar[type[TuplePosition]] = BinlogPosition
    words: ClassVar[EnvelopeWords] = EnvelopeWords(events="operations, which are JSON with table, type and data")
    source: PlainOperations

    def events(self, keys: Sequence[str], names: Names) -> DataFrame:
        read = self._read().filter(sf.col("bad") | (sf.col("table") == self.source.table))
        key, key_before = self._key(keys), self._key(keys, "old")
        # A change of the key becomes a delete and an insert at one place.
        moves = sf.coalesce((sf.col("type") == "update") & (key != key_before), sf.lit(False))
        parts = sf.when(moves, sf.array(sf.lit("delete"), sf.lit("insert"))).otherwise(sf.array("type"))
        split = read.withColumns({"moves": moves, "part": sf.explode(parts)})
        is_delete = sf.col("part") == "delete"
        after, left_out = self._after(), self._left_out()
        filled = {
            ARRIVAL: sf.col(ARRIVAL),
            "bad": sf.col("bad"),
            "op": _kind(),
            **self._place(),
            "record_key": sf.array_sort("primary_key_columns"),
            "after": sf.when(~is_delete, after),
            "image": sf.map_keys(after),
            "holes": sf.when(~is_delete, left_out).otherwise(_none()),
            "key": sf.when(is_delete, key_before).otherwise(key),
            "old_key": sf.when(sf.col("moves") & ~is_delete, key_before),
            "new_key": sf.when(sf.col("moves") & is_delete, key),
        }
        columns = event_columns(self.log).items()
        return split.select(*(filled.get(name, sf.lit(None)).cast(kind).alias(name) for name, kind in columns))

    def columns(self, surveyed: EventSurvey, table_schema: StructType | None) -> EventColumns:
        declared = declared_types(self.source.schema, table_schema)
        return TextColumns(types={name: declared.get(name.lower(), StringType()) for name in surveyed.columns})

    def count_tables(self, limit: int) -> dict[str, int]:
        counts = self._read().filter(~sf.col("bad")).groupBy("table").count().orderBy(sf.desc("count")).limit(limit)
        return {row["table"]: row["count"] for row in counts.collect()}

    def _place(self) -> dict[str, Column]:
        file, offset = (try_cast(sf.regexp_extract("position", _FILE_AND_OFFSET, part), "bigint") for part in (1, 2))
        # One number for both, which orders the events of one key.
        ordinal = file * sf.lit(2**32) + offset
        # MySQL writes a transaction to its log when it commits, so the place says what was committed before.
        placed = {"position": position_of(self.log, file=file, offset=offset), "ordinal": ordinal}
        return {**placed, "last_commit": ordinal, "ts_ms": sf.col("ts") * 1000}

    # [END envelope]

    def _read(self) -> DataFrame:
        lines = self.spark.read.options(**self.source.options).text(literal_paths(self.files))
        scan = Scan(rows=lines.filter("value != ''"), columns=(sf.from_json("value", _LINE).alias("line"),))
        read = with_arrival(self.spark, self.files, scan).select(ARRIVAL, "line.*")
        return read.withColumn("bad", reduce(or_, (sf.col(name).isNull() for name in ("table", "type", "data"))))

    def _key(self, keys: Sequence[str], image: str = "data") -> Column:
        texts = (sf.coalesce(sf.element_at(image, name), sf.element_at("data", name)) for name in keys)
        return sf.array(*texts)

    def _left_out(self) -> Column:
        names = [field.name for field in parse_ddl(self.source.schema or "").fields]
        left_out = sf.array_except(sf.array(*map(sf.lit, names)), sf.map_keys("data"))
        return sf.when(sf.col("type") == "update", left_out).otherwise(_none())

    def _after(self) -> Column:
        left_out = self._left_out()
        nulls = sf.array_repeat(sf.lit(None).cast("string"), sf.size(left_out))
        return sf.map_concat("data", sf.map_from_arrays(left_out, nulls))


# [START source]
class PlainOperationsSource(ChangeEventsSource):
    """The registration: the author's class names this one, which names the envelope."""

    envelope: ClassVar[type[Envelope]] = PlainOperationsEnvelope


# [END source]
def _none() -> Column:
    return sf.array().cast("ARRAY<STRING>")


def _kind() -> Column:
    kinds = sf.create_map(*map(sf.lit, chain.from_iterable(_KINDS.items())))
    # An operation that is not known keeps its name, and is refused by it.
    return sf.coalesce(sf.element_at(kinds, sf.col("part")), sf.col("part"))
