"""One pass over the events of a batch: what is wrong with them, and which columns they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.source_position import InputFile
from airflow_lake_provider.spark_jobs.sources.arrival import describe_first
from airflow_lake_provider.spark_jobs.sources.debezium_lines import mark_bad
from airflow_lake_provider.spark_jobs.sources.debezium_types import ConnectType, parse_types


@dataclass(frozen=True, kw_only=True)
class EventSurvey:
    """What one pass over the events found.

    :param events: change events of the table.
    :param columns: names in their images, in the events' order.
    :param hole_columns: those of them that have an unavailable value somewhere.
    :param connect_types: by text of the connect schema, each column's connect type.
    """

    events: int
    bad_lines: int
    unsequenced: int
    operations: frozenset[str]
    keys_changed: int
    columns: tuple[str, ...]
    hole_columns: tuple[str, ...]
    connect_types: dict[str, dict[str, ConnectType]]
    schemaless: int

    def without(self, excluded: Sequence[str]) -> EventSurvey:
        """Return the same without these columns; names are compared without case."""
        gone = {name.lower() for name in excluded}
        return replace(
            self,
            columns=tuple(name for name in self.columns if name.lower() not in gone),
            hole_columns=tuple(name for name in self.hole_columns if name.lower() not in gone),
        )


def survey(events: DataFrame) -> EventSurvey:
    """Look through all events in one job, which fills the cache of ``events``.

    :param events: see ``debezium_lines.read_events``.
    """
    moved = (
        (sf.col("op") == "u")
        & ~sf.exists("key_before", lambda text: text.isNull())
        & (sf.col("key_before") != sf.col("key"))
    )
    found = events.agg(
        sf.count_if(~sf.col("bad")).alias("events"),
        sf.count_if("bad").alias("bad_lines"),
        sf.count_if(~sf.col("bad") & _unsequenced()).alias("unsequenced"),
        sf.collect_set("op").alias("operations"),
        sf.count_if(moved).alias("keys_changed"),
        sf.collect_set("image").alias("images"),
        sf.array_distinct(sf.flatten(sf.collect_set("holes"))).alias("hole_columns"),
        sf.collect_set("types").alias("types"),
        sf.count_if(~sf.col("bad") & sf.col("types").isNull()).alias("schemaless"),
    ).collect()[0]
    return _survey(found.asDict())


def _unsequenced() -> Column:
    return sf.col("first").isNull() | sf.col("second").isNull()


def _survey(found: dict[str, Any]) -> EventSurvey:
    images = sorted(found.pop("images"), key=lambda names: (-len(names), names))
    types = {text: parse_types(text) for text in found.pop("types")}
    return EventSurvey(
        operations=frozenset(found.pop("operations")),
        columns=tuple(dict.fromkeys(name for names in images for name in names)),
        hole_columns=tuple(sorted(found.pop("hole_columns"))),
        connect_types=types,
        **found,
    )


def refuse_bad_events(spark: SparkSession, found: EventSurvey, source: Source, files: tuple[InputFile, ...]) -> None:
    """Refuse what cannot be applied.

    :param files: the files that were read, to say where a bad line stands.
    :raises BadInputError: lines that are no change events, events without an order, updates that move a key.
    :raises UnsupportedError: truncations, and operations this package does not know.
    """
    table = source.envelope_table or ""
    if found.bad_lines:
        place = describe_first(mark_bad(spark, source, files), sf.col("bad"), files)
        raise BadInputError(f"{found.bad_lines} lines are no Debezium change events: {place}")
    if "t" in found.operations:
        raise UnsupportedError(
            f"the events of {table} hold a truncation (op 't'), which an upsert cannot apply; "
            "leave skipped.operations=t in the connector, and empty the table by hand"
        )
    unknown = sorted(found.operations - set("crud"))
    if unknown:
        raise BadInputError(f"events of {table} have the operations {unknown}; known ones are c, r, u, d, m and t")
    if found.unsequenced:
        raise BadInputError(
            f"{found.unsequenced} of {found.events} events of {table} have no source.sequence with two positions, "
            "which orders them; the PostgreSQL connector writes it, other connectors are not supported yet"
        )
    if found.keys_changed:
        raise BadInputError(
            f"{found.keys_changed} updates of {table} change the key columns; the connector splits such an update into "
            "a delete and a create only for the primary key, so give the primary key as keys"
        )
