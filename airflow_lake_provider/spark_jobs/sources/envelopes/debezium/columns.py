"""The typed columns of change events, and how an event's text becomes their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from airflow_lake_provider.contracts.author.sources import BinaryHandling, Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows, java_session, jvm_of
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.envelope import read_images
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.values import (
    ConnectType,
    common_type,
    convert,
    inferred_type,
    not_converted,
)
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types


@dataclass(frozen=True, kw_only=True)
class EventColumns:
    """Types of the columns of a batch of events.

    :param types: column -> type, in the order of the result.
    :param connect_types: by text of the connect schema, each column's connect type.
    :param schemaless: some events carry no connect schema.
    :param binary: how bytes are written as text, where the author says it.
    """

    types: dict[str, DataType]
    connect_types: dict[str, dict[str, ConnectType]]
    schemaless: bool
    binary: BinaryHandling | None = None

    def value(self, column: str, text: Column, types: Column) -> Column:
        """Return the typed value of a column, NULL where the text does not convert.

        :param text: JSON text of the value.
        :param types: hash of the event's connect schema, see :func:`types_hash`; NULL without one.
        """
        # None first: events without a schema have no hash to be told by.
        texts: dict[ConnectType | None, list[str]] = {None: []} if self.schemaless else {}
        for schema_text, fields in self.connect_types.items():
            texts.setdefault(fields.get(column), []).append(schema_text)
        kinds = list(texts)
        result = convert(text, self.types[column], kinds[-1], self.binary)
        for kind in kinds[:-1]:
            hashes = [sf.xxhash64(sf.lit(schema_text)) for schema_text in texts[kind]]
            is_kind = sf.coalesce(types.isin(*hashes), sf.lit(kind is None))
            result = sf.when(is_kind, convert(text, self.types[column], kind, self.binary)).otherwise(result)
        return result

    def lost(self, column: str, text: Column, value: Column) -> Column:
        """Tell whether a text was there and gave no value."""
        return not_converted(text, value, self.types[column])

    def key(self, keys: Sequence[str], texts: str) -> Column:
        """Return the typed struct of the key columns.

        :param texts: column with their texts, in the order of ``keys``; the connect schema's hash is in ``types``.
        """
        values = (self.value(name, sf.get(texts, sf.lit(i)), sf.col("types")) for i, name in enumerate(keys))
        return sf.struct(*(value.alias(f"k{i}") for i, value in enumerate(values)))


def types_hash() -> Column:
    """Return what stands for the text of a connect schema next to a value that was taken from its event."""
    # The hash of NULL is not NULL.
    return sf.when(sf.col("types").isNotNull(), sf.xxhash64("types"))


def find_columns(
    spark: SparkSession,
    source: Debezium,
    files: tuple[InputFile, ...],
    surveyed: EventSurvey,
    table_schema: StructType | None,
) -> EventColumns:
    """Give each column of the events a type: declared, else the table's, else the connect schema's, else inferred.

    Inferring takes a second pass over the text.

    :param files: the files that the events are in.
    :raises BadInputError: a column whose connect types have nothing in common.
    """
    declared = declared_types(source.schema, table_schema)
    rank = {name: place for place, name in enumerate(declared)}
    columns = sorted(surveyed.columns, key=lambda name: rank.get(name.lower(), len(rank)))
    types = {name: declared.get(name.lower()) or _connect_type(surveyed, name) for name in columns}
    if None in types.values():
        inferred = _inferred(spark, read_images(spark, source, files))
        types = {name: kind or inferred[name] for name, kind in types.items()}
    return EventColumns(
        types={name: kind for name, kind in types.items() if kind is not None},
        connect_types=surveyed.connect_types,
        schemaless=surveyed.schemaless > 0 or not surveyed.connect_types,
        binary=BinaryHandling(source.binary_handling_mode) if source.binary_handling_mode else None,
    )


def spelled_keys(keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the keys after seeing that events have them.

    :raises BadInputError: an event column of that exact name does not exist.
    """
    missing = [name for name in keys if name not in columns]
    if missing:
        raise BadInputError(
            f"keys {list(keys)} name columns that the events lack: {missing}; they have {list(columns)}"
        )
    return list(keys)


def _connect_type(surveyed: EventSurvey, column: str) -> DataType | None:
    kinds = [fields[column] for fields in surveyed.connect_types.values() if column in fields]
    return common_type(column, kinds) if kinds else None


def _inferred(spark: SparkSession, images: DataFrame) -> dict[str, DataType]:
    # PySpark's json() takes text only as a Python RDD, which would send every line through Python.
    texts = getattr(java_rows(images), "as")(jvm_of(spark).org.apache.spark.sql.Encoders.STRING())
    schema = DataFrame(java_session(spark).read().json(texts), spark).schema
    return {field.name: inferred_type(field.dataType) for field in schema.fields}
