"""A Kafka topic as a source: in each run the records up to those that are there now, which no run has applied yet.

What all sources of a topic have is in their base: the connection, and how far each run reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import (
    choice,
    choice_of,
    flag,
    names,
    nearest,
    optional,
    positive,
    text,
)
from airflow_lake_provider.contracts.as_of import as_of
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.reader_options import column_list, column_names, file_path
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, OnSourceChange, Source
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

METADATA_PREFIX = "kafka_"
_METADATA = ("headers", "key", "offset", "partition", "timestamp")
EARLIEST = "earliest"


class OnGap(str, Enum):
    """Action to take when the broker has removed records that no run has applied: refuse the run, or go on behind."""

    FAIL = "fail"
    SKIP = "skip"


def _starting(value: object, name: str) -> str:
    if value == EARLIEST:
        return EARLIEST
    moment = as_of(value, name)
    if "T" not in moment or "+" not in moment:
        raise InvalidSpecError(
            f"{name} must be 'earliest' or a time with a zone, such as 2026-11-27T06:00:00+00:00, got {value!r}. "
            "'latest' would be another place for each try of a run"
        )
    return moment


@dataclass(frozen=True)
class Topic(Source):
    """Base of what reads a topic; arguments as of :class:`.KafkaTopic`."""

    kind: ClassVar[str] = ""
    end: ClassVar[str] = "airflow_lake_provider.hooks.topic_end:end_of_topic"
    connection: str = field(metadata=reads(text, "kafka"))
    topic: str = field(metadata=reads(text, "topic"))
    registry: str | None = field(default=None, kw_only=True, metadata=reads(optional(text)))
    starting: str = field(default=EARLIEST, kw_only=True, metadata=reads(_starting))
    on_gap: OnGap | str = field(default=OnGap.FAIL, kw_only=True, metadata=reads(choice_of(OnGap)))
    max_records: int | None = field(default=None, kw_only=True, metadata=reads(optional(positive)))
    catch_up: bool = field(default=False, kw_only=True, metadata=reads(flag))

    def complete(self) -> None:
        """Refuse to go on without a bound after which it does."""
        if self.catch_up and self.max_records is None and self.is_final("max_records"):
            raise InvalidSpecError(f"{type(self).__name__}.catch_up goes on after each max_records; give that, too")

    @property
    def connections(self) -> Mapping[str, str]:
        """The cluster, and the registry."""
        registry = {self.registry: "registry"} if self.registry is not None else {}
        return {self.connection: "kafka", **registry}

    def address(self, access: Mapping[str, Any]) -> str | None:
        """Return the topic."""
        return str(access[self.connection].address_of(self.topic))

    def refuse_reading(self, spec: Any) -> None:
        """Refuse what would lose records, or add them twice."""
        what = f"{spec.table}: topic {self.topic} of connection {self.connection!r}"
        if getattr(spec, "is_complete", False):
            raise InvalidSpecError(f"{what} has changes of rows, and complete=True takes a source that has all of them")
        if not getattr(spec, "keeps_position", True):
            raise InvalidSpecError(
                f"{what} forgets records, and an overwrite of partitions reads all of a source each time. Append the "
                "topic to a table of its own, and overwrite from that one"
            )
        if getattr(spec, "branch", None) is not None:
            raise InvalidSpecError(
                f"{what} does not go with branch: how far it was read is kept for main, so each run would read all of "
                "it. Leave branch out; audits keep a batch on a branch until they find nothing"
            )
        on_repeat = getattr(spec, "on_repeat", None)
        if self.max_records is not None and on_repeat == "apply":
            raise InvalidSpecError(f"{what}: on_repeat='apply' applies all records at once; leave max_records out")
        if self.catch_up and on_repeat == "fail":
            raise InvalidSpecError(f"{what}: catch_up goes on where a try has ended, which on_repeat='fail' refuses")
        if self.catch_up and len(spec.source.inputs) > 1:
            raise InvalidSpecError(f"{what}: catch_up goes with one input, and the others would be read once a commit")

    def refuse_spark(self, version: str) -> None:
        """Refuse Spark 3.5, on which nobody has run it."""
        if version.startswith("3."):
            raise UnsupportedError(f"topic {self.topic}: Kafka is read by Spark 4.1, and not by Spark {version} yet")

    def without_policy(self) -> Self:
        """Return what is read, without how much at a time, and what is done about gaps."""
        return replace(
            self,
            on_source_change=OnSourceChange.CONTINUE,
            on_gap=OnGap.FAIL,
            max_records=None,
            catch_up=False,
            starting=EARLIEST,
        )


class ValueFormat(str, Enum):
    """Form of the values of a topic's records; ``binary`` takes the bytes as they are."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
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
    :param value_format: ``"json"``, ``"avro"``, ``"protobuf"``, or ``"binary"`` for a column ``value`` with the bytes.
    :param schema: of JSON the fields to read as DDL, ``"id BIGINT, total DECIMAL(12,2)"``; of Avro without a registry
        the writer's schema as JSON.
    :param registry: id of an Airflow connection of type ``http`` to a schema registry with Confluent's API. Each value
        begins with the id of its writer's schema, and is read as the latest version of ``subject``.
    :param subject: name in the registry, where it is not ``<topic>-value``: ``"shop.Order"`` of RecordNameStrategy.
    :param descriptors: of Protobuf, the path or address of a file that the driver reads, as ``protoc --include_imports
        --descriptor_set_out`` writes it.
    :param message: of Protobuf, the full name of the message, ``"shop.Order"``.
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
    takes_dead_letter: ClassVar[bool] = True
    is_queryable: ClassVar[bool] = True
    value_format: ValueFormat | str = field(default=ValueFormat.JSON, kw_only=True, metadata=reads(_form_of_values))
    schema: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), "id BIGINT"))
    subject: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), is_later=True))
    descriptors: str | None = field(default=None, kw_only=True, metadata=reads(optional(file_path), is_later=True))
    message: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), is_later=True))
    key_schema: str | None = field(default=None, kw_only=True, metadata=reads(optional(column_list)))
    key_format: KeyFormat | str = field(default=KeyFormat.TEXT, kw_only=True, metadata=reads(choice_of(KeyFormat)))
    metadata_columns: Sequence[str] = field(default=(), kw_only=True, metadata=reads(_metadata))
    tombstones: Tombstones | str = field(default=Tombstones.DELETE, kw_only=True, metadata=reads(choice_of(Tombstones)))

    def complete(self) -> None:
        """Refuse formats without what says their columns, or with what says nothing of them."""
        super().complete()
        if self.subject is not None and self.registry is None and self.is_final("registry"):
            raise InvalidSpecError(f"KafkaTopic.subject is a name in a registry; give registry, got {self.subject!r}")
        self._refuse_other_message()
        match self.value_format if self.is_final("value_format") else None:
            case ValueFormat.JSON:
                if self.schema is None or self.registry is not None:
                    raise InvalidSpecError(
                        "KafkaTopic of JSON takes schema, the fields to read as DDL such as 'id BIGINT, note STRING', "
                        f"and no registry, got schema={self.schema!r}, registry={self.registry!r}"
                    )
                column_list(self.schema, "KafkaTopic.schema")
            case ValueFormat.AVRO if self.is_final("schema", "registry"):
                if (self.schema is None) == (self.registry is None):
                    raise InvalidSpecError(
                        "KafkaTopic of Avro takes either registry, or schema, the writer's schema as JSON, got "
                        f"schema={self.schema!r}, registry={self.registry!r}"
                    )
                if self.schema is not None:
                    _refuse_no_record(self.schema)
            case ValueFormat.BINARY if self.is_final("schema"):
                if self.schema is not None or self.registry is not None:
                    raise InvalidSpecError("KafkaTopic of bytes has one column, value; it takes no schema and registry")

    def _refuse_other_message(self) -> None:
        if not self.is_final("value_format", "descriptors", "message", "schema", "registry"):
            return
        of_message = (self.descriptors, self.message)
        if self.value_format != ValueFormat.PROTOBUF:
            if any(of_message):
                raise InvalidSpecError(
                    f"KafkaTopic takes descriptors and message with value_format='protobuf' only, got {of_message}"
                )
        elif not all(of_message) or self.schema is not None or self.registry is not None:
            raise InvalidSpecError(
                "KafkaTopic of Protobuf takes descriptors, a file of protoc's, and message, a name such as "
                "'shop.Order', and no schema and registry, got "
                f"descriptors={self.descriptors!r}, message={self.message!r}, schema={self.schema!r}, "
                f"registry={self.registry!r}"
            )

    @property
    def subject_of_values(self) -> str:
        """Name in the registry of the schema that values are read as."""
        return self.subject or self._subject_of_topic

    @property
    def names_subject_by_topic(self) -> bool:
        """True where that name is the topic's own, as by TopicNameStrategy; else it is that of a record."""
        return self.subject_of_values == self._subject_of_topic

    @property
    def _subject_of_topic(self) -> str:
        return f"{self.topic}-value"

    @property
    def columns_of_key(self) -> frozenset[str]:
        """Columns that are made of the records' keys, in lower case."""
        return frozenset(name.lower() for name in column_names(self.key_schema or ""))

    def tells_deletes(self, keys: Sequence[str]) -> bool:
        """Tell whether a record without a value deletes the row of its key."""
        of_rows = {name.lower() for name in keys}
        is_told = self.tombstones == Tombstones.DELETE and self.is_final("tombstones")
        return bool(of_rows) and of_rows <= self.columns_of_key and is_told

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse what cannot be read, and an order in which each delete would be the oldest."""
        self.refuse_reading(spec)
        order_by = getattr(spec, "order_by", ())
        if not order_by or not self.tells_deletes(spec.keys) or spec.merge_engine.deletes is Deletes.IGNORE:
            return
        is_final = spec.is_final("merge_engine") and spec.merge_engine.is_final("deletes")
        if not is_final or not self.is_final("metadata_columns"):
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
