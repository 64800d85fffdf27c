"""The seam of envelopes: how a change stream writes its events, and how their texts become values.

An envelope is a subclass of :class:`Envelope`, which a :class:`.ChangeEventsSource` names. It is bound to the lines of
a batch, fills the columns of ``events.event_columns``, and gives each column a type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, DateType, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.contracts.applied.stream_remedies import OF_FILES, StreamRemedies
from airflow_lake_provider.contracts.author.sources import ChangeStream
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sources.arrival_order import describe_first
from airflow_lake_provider.spark_jobs.sources.cdc.event_survey import EventSurvey
from airflow_lake_provider.spark_jobs.sources.cdc.events import OPERATIONS, TRUNCATE
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import Names

_ABOUT_TYPES = "Give the columns in the source's schema a type that holds them, or widen the table's"
_ABOUT_YEARS = (
    ". DATE and TIMESTAMP hold the years 1 to 9999 and no infinity; STRING holds any, BIGINT any number of time"
)


@dataclass(frozen=True, kw_only=True)
class EventColumns(ABC):
    """The typed columns of a batch of events, and how an event's text becomes their values.

    :param types: column -> type, in the order of the result.
    """

    types: dict[str, DataType]

    @abstractmethod
    def value(self, column: str, text: Column, types: Column) -> Column:
        """Return the typed value of a column, NULL where the text does not convert.

        :param text: text of the value, as ``after`` has it.
        :param types: hash of the event's own ``types``, see :func:`types_hash`; NULL without one.
        """

    def lost(self, column: str, text: Column, value: Column) -> Column:  # noqa: ARG002  # by type in others
        """Return whether a text was there and gave no value."""
        return text.isNotNull() & value.isNull()

    def remedy(self, lost: Mapping[str, str]) -> str:
        """Return what to do about texts that gave no value.

        :param lost: column -> one of its texts.
        """
        kinds = [element_type(self.types[name]) for name in lost]
        about_years = any(isinstance(kind, (DateType, TimestampType, TimestampNTZType)) for kind in kinds)
        return f"{_ABOUT_TYPES}{_ABOUT_YEARS if about_years else ''}"

    def key(self, keys: Sequence[str], texts: str) -> Column:
        """Return the typed struct of the key columns.

        :param texts: column with their texts, in the order of ``keys``; the hash of the event's types is in ``types``.
        """
        values = (self.value(name, sf.get(texts, sf.lit(i)), sf.col("types")) for i, name in enumerate(keys))
        return sf.struct(*(value.alias(f"k{i}") for i, value in enumerate(values)))


def types_hash() -> Column:
    """Return what stands for the text ``types`` next to a value that was taken from its event."""
    # The hash of NULL is not NULL.
    return sf.when(sf.col("types").isNotNull(), sf.xxhash64("types"))


def element_type(kind: DataType) -> DataType:
    """Return the type of an array's elements; any other type is its own."""
    return element_type(kind.elementType) if isinstance(kind, ArrayType) else kind


@dataclass(frozen=True, kw_only=True)
class EnvelopeWords:
    """Words for errors over events, as whoever runs the stream knows them.

    :param events: form of a line.
    :param operations: kinds of events that are known; ``truncation``: one that is not applied.
    :param no_truncations: how to be sent none.
    :param place: what tells the order of the events.
    :param no_key: what to do about a table without a key.
    :param remedies: what to do about events that are there and cannot be applied.
    :param key_change: why an update does not change the key that the author gave.
    """

    events: str = "change events"
    operations: str = "inserts, rows of a snapshot, updates and deletes"
    truncation: str = "a truncation"
    no_truncations: str = "Let the stream leave truncations out"
    place: str = "place in the log, which orders them"
    no_key: str = "Give the table a primary key"
    remedies: StreamRemedies = OF_FILES
    key_change: str = "only a change of the primary key is a delete and an insert, so give the primary key as keys"


@dataclass(frozen=True)
class Envelope(ABC):
    """Lines of a batch as change events of one table.

    :param source: the author's arguments.
    :param files: files of lines, see ``list_input_files``; none of a topic.
    """

    # The places of the stream's log: how many numbers, and how long. A table keeps them by their code.
    log: ClassVar[type[TuplePosition]]
    words: ClassVar[EnvelopeWords] = EnvelopeWords()
    spark: SparkSession
    source: ChangeStream
    files: tuple[InputFile, ...]

    @property
    def offsets(self) -> Mapping[str, tuple[int, int]]:
        """First and last offset that were read, of each partition; empty where the lines alone tell."""
        return {}

    @abstractmethod
    def events(self, keys: Sequence[str], names: Names) -> DataFrame:
        """Return one row with ``event_columns`` for each event of the source's table, and for each line that is none.

        Events of other tables are left out. A change of the key is two rows: a delete and a create at one place.

        :param keys: key columns.
        :param names: what the name of each file tells of its lines' place in Kafka, see ``partition_label``.
        """

    @abstractmethod
    def columns(self, surveyed: EventSurvey, table_schema: StructType | None) -> EventColumns:
        """Give each of ``surveyed.columns`` a type: declared, else the table's, else what the events tell.

        :raises BadInputError: a column has none that fits.
        """

    @abstractmethod
    def count_tables(self, limit: int) -> dict[str, int]:
        """Return how many events of which tables the lines hold, whatever table is read; those with the most."""

    def checked_lines(self, keys: Sequence[str]) -> DataFrame:
        """Return every line's arrival and whether it is ``bad``."""
        return self.events(keys, ()).select(ARRIVAL, "bad")

    def first_bad(self, keys: Sequence[str]) -> str:
        """Return where the first bad line is, for a message."""
        return describe_first(self.checked_lines(keys), sf.col("bad"), self.files)

    def remedy_of_bad(self, keys: Sequence[str]) -> str:  # noqa: ARG002  # others need them
        """Return what to do about the first bad line; empty where it does not tell what it is."""
        return ""

    def refuse(self, surveyed: EventSurvey, keys: Sequence[str]) -> None:
        """Refuse what cannot be applied.

        :raises BadInputError: lines that are no change events, events of several tables, events without an order, keys
            that are not the stream's, updates that change a key.
        :raises UnsupportedError: truncations.
        """
        table, words = self.source.table, self.words
        if surveyed.bad_lines:
            remedy = self.remedy_of_bad(keys)
            raise BadInputError(
                f"{surveyed.bad_lines} lines are no {words.events}: {self.first_bad(keys)}{remedy and f'. {remedy}'}"
            )
        if len(surveyed.tables) > 1:
            raise BadInputError(
                f"events of {table} are of several tables, {', '.join(surveyed.tables)}: the rows of one would replace "
                "those of another with the same key. Give table as one of these. Where the table has moved, give the "
                "old name for one run, and then the new one"
            )
        if TRUNCATE in surveyed.operations:
            raise UnsupportedError(
                f"the events of {table} hold {words.truncation}, which an upsert cannot apply. {words.no_truncations}. "
                f"To go on, delete the table's rows. {words.remedies.start_anew}"
            )
        if unknown := sorted(surveyed.operations - {*OPERATIONS}):
            raise BadInputError(f"events of {table} have the operations {unknown}; known ones are {words.operations}")
        if surveyed.unsequenced:
            raise BadInputError(f"{surveyed.unsequenced} of {surveyed.events} events of {table} have no {words.place}")
        self.refuse_other_keys(surveyed, keys)
        if surveyed.keys_changed:
            raise BadInputError(
                f"{surveyed.keys_changed} updates of {table} change the key columns; {words.key_change}"
            )

    def refuse_other_keys(self, surveyed: EventSurvey, keys: Sequence[str]) -> None:
        """Refuse keys that do not tell the rows of the source apart, where the events say which columns do.

        :raises BadInputError: with the keys of the stream.
        """
        table = self.source.table
        if () in surveyed.record_keys:
            raise BadInputError(
                f"events of {table} have no key: the source table has no primary key, so several of its rows may be "
                f"equal in {list(keys)}, and an upsert would make one of them. {self.words.no_key}"
            )
        others = [names for names in surveyed.record_keys if set(names) != set(keys)]
        if others:
            raise BadInputError(
                f"events of {table} are keyed by {list(others[0])}, and keys are {list(keys)}, which would make one "
                f"row of several, or several of one; give keys={list(others[0])}"
            )
