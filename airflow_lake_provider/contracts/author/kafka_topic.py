"""A Kafka topic as a source: in each run the records up to those that are there now, which no run has applied yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import choice, choice_of, names, nearest, optional, text
from airflow_lake_provider.contracts.author.file_arguments import column_list
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.reader_options import column_names
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE
from airflow_lake_provider.contracts.author.topic import Topic
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

METADATA_PREFIX = "kafka_"
_METADATA = ("headers", "key", "offset", "partition", "timestamp")


class ValueFormat(str, Enum):
    """Form of the values of a topic's records; ``binary`` takes the bytes as they are."""

    JSON = "json"
    AVRO = "avro"
    BINARY = "binary"


class KeyFormat(str, Enum):
    """Form of the keys of a topic's records: the text of one column, or an object."""

    TEXT = "text"
    JSON = "json"


class Tombstones(str, Enum):
    """Action to take with records without a value: delete the row of their key, or leave them out."""

    DELETE = "delete"
    SKIP = "skip"


def _form_of_values(value: Any, name: str) -> ValueFormat:
    if value == "protobuf":
        raise UnsupportedError(
            f"{name}='protobuf' is not supported yet; take 'binary', and decode it by a PySparkFunction over the "
            "topic, see docs/how-to/protobuf-topics.md"
        )
    if value == "debezium":
        raise InvalidSpecError(
            f"{name}='debezium' has changes of rows, and no rows; DebeziumTopic(...) applies them in an upsert"
        )
    form: ValueFormat = choice(ValueFormat, value, name)
    return form


def _metadata(value: object, name: str) -> tuple[str, ...]:
    chosen = names(() if value is None else value, name)
    for each in chosen:
        if each not in _METADATA:
            raise InvalidSpecError(f"{name} takes {', '.join(_METADATA)}, got {each!r}{nearest(each, _METADATA)}")
    if len(set(chosen)) < len(chosen):
        raise InvalidSpecError(f"{name} has a column twice, got {value!r}")
    return chosen


@dataclass(frozen=True)
class KafkaTopic(Topic):
    """The records of a Kafka topic that no run has applied yet, up to those that are there when the run looks.

    Offsets are kept by the table, in the commit of the rows. No consumer group is used. Only committed transactions are
    read.

    :param connection: id of an Airflow connection of type ``kafka``. Its secrets go to the driver in the file of
        settings, as those of the catalog do.
    :param topic: name.
    :param value_format: ``"json"``, ``"avro"``, or ``"binary"`` for a column ``value`` with the bytes.
    :param schema: of JSON the fields to read as DDL, ``"id BIGINT, total DECIMAL(12,2)"``; of Avro without a registry
        the writer's schema as JSON.
    :param registry: id of an Airflow connection of type ``http`` to a schema registry with Confluent's API. Each value
        begins with the id of its writer's schema, and is read as the latest version of ``<topic>-value``.
    :param key_schema: DDL of the columns that keys have. They stand in for columns of the value with these names.
    :param key_format: ``"text"`` for keys that are the text of one column, ``"json"`` for objects.
    :param metadata_columns: of ``key`` (as text), ``partition``, ``offset``, ``timestamp`` and ``headers``; each is a
        column such as ``kafka_offset``.
    :param tombstones: ``"delete"``: a record without a value deletes the row of its key, in an upsert with
        ``key_schema``; elsewhere it is refused. ``"skip"`` leaves them out.
    :param starting: where a table begins that has applied nothing of the topic: ``"earliest"``, or a time with a zone.
    :param on_gap: what to do when records are gone that no run has applied: ``"fail"``, or ``"skip"``, which reports
        how many.
    :param max_records: most records of one commit, shared among partitions by what waits in each.
    :param catch_up: go on in the same run, with a commit for each ``max_records``, until what was there at its start is
        read. Left out, a run makes one commit, and others wait.
    """

    kind: ClassVar[str] = "kafka-topic"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.kafka.source:KafkaSource"
    is_queryable: ClassVar[bool] = True
    value_format: ValueFormat | str = field(default=ValueFormat.JSON, kw_only=True, metadata=reads(_form_of_values))
    schema: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), "id BIGINT"))
    key_schema: str | None = field(default=None, kw_only=True, metadata=reads(optional(column_list)))
    key_format: KeyFormat | str = field(default=KeyFormat.TEXT, kw_only=True, metadata=reads(choice_of(KeyFormat)))
    metadata_columns: Sequence[str] = field(default=(), kw_only=True, metadata=reads(_metadata))
    tombstones: Tombstones | str = field(default=Tombstones.DELETE, kw_only=True, metadata=reads(choice_of(Tombstones)))

    def complete(self) -> None:
        """Refuse formats without what says their columns, or with what says nothing of them."""
        super().complete()
        match self.value_format:
            case ValueFormat.JSON:
                if self.schema is None or self.registry is not None:
                    raise InvalidSpecError(
                        "KafkaTopic of JSON takes schema, the fields to read as DDL such as 'id BIGINT, note STRING', "
                        f"and no registry, got schema={self.schema!r}, registry={self.registry!r}"
                    )
                column_list(self.schema, "KafkaTopic.schema")
            case ValueFormat.AVRO:
                if (self.schema is None) == (self.registry is None):
                    raise InvalidSpecError(
                        "KafkaTopic of Avro takes either registry, or schema, the writer's schema as JSON, got "
                        f"schema={self.schema!r}, registry={self.registry!r}"
                    )
                if self.schema is not None:
                    _refuse_no_record(self.schema)
            case ValueFormat.BINARY:
                if self.schema is not None or self.registry is not None:
                    raise InvalidSpecError("KafkaTopic of bytes has one column, value; it takes no schema and registry")

    @property
    def columns_of_key(self) -> frozenset[str]:
        """Columns that are made of the records' keys, in lower case."""
        return frozenset(name.lower() for name in column_names(self.key_schema or ""))

    def tells_deletes(self, keys: Sequence[str]) -> bool:
        """Tell whether a record without a value deletes the row of its key."""
        of_rows = {name.lower() for name in keys}
        return bool(of_rows) and of_rows <= self.columns_of_key and self.tombstones == Tombstones.DELETE

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse what cannot be read, and an order in which each delete would be the oldest."""
        self.refuse_reading(spec)
        order_by = getattr(spec, "order_by", ())
        if not order_by or not self.tells_deletes(spec.keys) or spec.merge_engine.deletes is Deletes.IGNORE:
            return
        always_there = {*self.columns_of_key, *(f"{METADATA_PREFIX}{name}" for name in self.metadata_columns)}
        if of_values := [name for name in order_by if name.lower() not in always_there]:
            raise InvalidSpecError(
                f"{spec.table}: a record without a value deletes a row of topic {self.topic}, and has NULL in "
                f"{of_values} of order_by, which is older than any value, so that no delete would count. Order by "
                "columns of key_schema and metadata_columns, such as metadata_columns=['timestamp'] with "
                "order_by=['kafka_timestamp'], or give tombstones='skip'"
            )


def _refuse_no_record(schema: str) -> None:
    try:
        plain = json.loads(schema)
    except ValueError as error:
        raise InvalidSpecError(f"KafkaTopic.schema is no schema of Avro: {error}, got {schema[:200]!r}") from None
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise InvalidSpecError(f"KafkaTopic.schema must be a record of Avro, got {schema[:200]!r}")
