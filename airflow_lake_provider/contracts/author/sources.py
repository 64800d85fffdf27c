"""Sources of a batch: files, Debezium's change events, and the base of lake tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import THIRTY_DAYS
from airflow_lake_provider.contracts.applied.source_position import source_name
from airflow_lake_provider.contracts.argument_validation import choice_of, label, names, optional, options, text
from airflow_lake_provider.contracts.author.debezium_connector import DebeziumConnector
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.reader_options import (
    check_reader_options,
    column_list,
    file_age,
    file_format,
    file_path,
    format_of_path,
    partition_names,
)
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate
from airflow_lake_provider.contracts.table_name import table_name

_RENDERED_LATER = "rendered-later.parquet"
ONE_YEAR = timedelta(days=365)
DRIVERS_SIDE = "airflow_lake_provider.spark_jobs.sources"


class OnSourceChange(str, Enum):
    """Action to take when what shapes the rows of a source has changed since its last commit.

    ``continue`` reads new files with the change, ``replay`` applies all files again once, ``fail`` refuses the run.
    """

    CONTINUE = "continue"
    REPLAY = "replay"
    FAIL = "fail"


def _named(value: object, name: str) -> str:
    return source_name(label(value, name))


def chosen_columns(value: object, name: str) -> tuple[str, ...]:
    """Return one or more different columns."""
    if not (columns := names(value, name)) or len({each.lower() for each in columns}) != len(columns):
        raise InvalidSpecError(f"{name} must be one or more different columns, got {value!r}")
    return columns


def _ordering(value: object, name: str) -> EventOrdering:
    if value not in (asked := EventOrdering.asked()):
        names = ", ".join(repr(ordering.value) for ordering in asked)
        raise InvalidSpecError(f"{name} must be one of {names}, or left out, got {value!r}")
    return EventOrdering(value)


@dataclass(frozen=True)
class Source(ArgumentObject):
    """Base of all sources. A new one is a subclass with its ``reader``, see docs/explanation/sources.md.

    :param name: identity of the source, at most 64 letters, digits, ``_``, ``-`` and ``.``; longer ones become a prefix
        and a digest. The table keeps under it what it has consumed, wherever the source points. Default
        ``<dag id>.<task id>``, with a digest where an id has a dot; mapped tasks have to give it.
    :param on_source_change: what to do when format, options, schema or query are not those of the last commit.
        ``"continue"`` reads new files with the change, ``"replay"`` applies all files again once, ``"fail"`` refuses
        the run.
    """

    # ``package.module:Class`` of the driver's side, a ``spark_jobs.sources.base.BatchSource``: the one registration.
    reader: ClassVar[str] = ""
    # ``package.module:function`` by which a worker asks where a source ends: of the source, its position there or None.
    end: ClassVar[str] = ""
    # Rows and nothing else: keys of rows to delete can be taken from them.
    has_plain_rows: ClassVar[bool] = False
    # Changes of rows, which a key has to find.
    is_change_stream: ClassVar[bool] = False
    # A query can be over it.
    is_queryable: ClassVar[bool] = False
    takes_dead_letter: ClassVar[bool] = False
    # Rows are made of what is read, and are not those that are there.
    is_made: ClassVar[bool] = False
    # Whether one run reads all that was there at its start, in several commits. An annotation would be an argument.
    catch_up = False
    # Table of dead letters that it reads: what was consumed of them is remembered for ever.
    letters: ClassVar[str | None] = None
    # What a column that the batch lacks becomes where nobody says.
    missing_columns: ClassVar[MissingColumns | None] = None
    name: str | None = field(default=None, kw_only=True, metadata=reads(optional(_named)))
    on_source_change: OnSourceChange | str = field(
        default=OnSourceChange.CONTINUE, kw_only=True, metadata=reads(choice_of(OnSourceChange))
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" not in cls.__dict__:
            # Where the driver imports it from.
            cls.kind = f"{cls.__module__}:{cls.__qualname__}"

    @property
    def files(self) -> Files | ChangeEvents | None:
        """The files that are read; None for a table."""
        return None

    @property
    def inputs(self) -> Mapping[str, Source]:
        """Sources that are read, by the name of their view; a single one under the empty name."""
        return {"": self}

    @property
    def lake_tables(self) -> Mapping[str, TableSource]:
        """The tables among it."""
        return {}

    @property
    def connections(self) -> Mapping[str, str]:
        """Connections of what it reads, by id, and what each is to: ``database``, ``kafka`` or ``registry``."""
        return {}

    def address(self, access: Mapping[str, Any]) -> str | None:  # noqa: ARG002  # others ask it
        """Return what it reads by its connections, as OpenLineage names it; None for what has no such name.

        :param access: address and login by id of the connection.
        """
        return None

    @property
    def query(self) -> str | None:
        """SQL over the view ``source``; None to take the rows as they are."""
        return None

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format of the lake's tables has to have for it."""
        return ("kept-values",) if self.looks_at_rows else ()

    @property
    def code(self) -> Mapping[str, str | None]:
        """The query."""
        return {"Query.sql": self.query}

    @property
    def looks_at_rows(self) -> bool:
        """Tell whether what is read is compared with the table's rows of its keys."""
        return False

    def tells_deletes(self, keys: Sequence[str]) -> bool:  # noqa: ARG002  # others have rows without values
        """Tell whether, in a load by these keys, a row may delete and have nothing but its key."""
        return False

    def with_code(self, code_of: Callable[[str], str | None]) -> Self:  # noqa: ARG002  # others run code
        """Return the source with the text of the module whose code it runs, by ``package.module:function``."""
        return self

    def refuse_reading(self, spec: Any) -> None:
        """Refuse what cannot be read for a spec, also below a query."""

    def without_policy(self) -> Self:
        """Return what is read, without what may be done about it when it has changed."""
        return replace(self, on_source_change=OnSourceChange.CONTINUE)


@dataclass(frozen=True)
class Files(Source):
    """Files of rows.

    :param path: path or glob.
    :param format: ``parquet | orc | json | csv | avro | xml``; default by the path's ending. JSON means JSON lines.
    :param schema: DDL of the columns, ``"id BIGINT, total DECIMAL(12,2)"``, without defaults.
    :param options: options of Spark's reader that leave out nothing; texts, numbers and booleans.
    :param max_file_age: timedelta or ISO-8601 text: how long a consumed file is remembered that is not in the source
        any more. With ``Aggregation`` and by appends it is for ever.
    :param partition_columns: columns that are names of folders, ``["day", "region"]`` for
        ``/landing/day=2026-01-01/region=eu/a.csv``. Their types are those of ``schema``, else of the table, else text.
    """

    kind: ClassVar[str] = "files"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.files:FilesSource"
    has_plain_rows: ClassVar[bool] = True
    takes_dead_letter: ClassVar[bool] = True
    is_queryable: ClassVar[bool] = True
    path: str = field(metadata=reads(file_path, _RENDERED_LATER))
    format: str | None = field(default=None, metadata=reads(optional(file_format)))
    schema: str | None = field(default=None, metadata=reads(optional(column_list)))
    options: Mapping[str, Any] = field(default_factory=dict, metadata=reads(options))
    max_file_age: timedelta | str = field(default=ONE_YEAR, metadata=reads(file_age))
    partition_columns: Sequence[str] = field(default=(), metadata=reads(partition_names))

    @property
    def files(self) -> Files:
        """These."""
        return self

    def complete(self) -> None:
        """Take the format from the path where it is not given, and refuse options that lose rows or files."""
        # Of a path that is a template, the format may not be known yet.
        if self.format is None and self.is_final("path", "format"):
            object.__setattr__(self, "format", format_of_path(self.path))
        if self.is_final("options"):
            check_reader_options(self.options, self.format, "Files.options")

    def refuse_spark(self, version: str) -> None:
        """Refuse XML before Spark 4."""
        if self.format == "xml" and version.startswith("3."):
            raise UnsupportedError(
                f"{self.path!r} is XML, which Spark {version} does not read; run it on Spark 4.1, or write the records "
                "as JSON lines"
            )

    def without_policy(self) -> Self:
        """Return the files, without how long they are remembered."""
        return replace(self, on_source_change=OnSourceChange.CONTINUE, max_file_age=ONE_YEAR)


@dataclass(frozen=True)
class TableSource(Source):
    """Base of the lake tables.

    :param where: only rows that satisfy a predicate, by the rules of ``where`` of ``read_changes``.
    :param columns: only these columns; None for all.
    """

    kind: ClassVar[str] = ""
    is_queryable: ClassVar[bool] = True
    # Capability that the table has to have.
    capability: ClassVar[str] = ""
    # Whether it goes on from the snapshot that was applied last.
    tells_changes: ClassVar[bool] = False
    table: str = field(metadata=reads(table_name, "namespace.table"))
    where: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), is_later=True))
    columns: Sequence[str] | None = field(
        default=None, kw_only=True, metadata=reads(optional(chosen_columns), is_later=True)
    )

    @property
    def lake_tables(self) -> Mapping[str, TableSource]:
        """This one."""
        return {"": self}

    @property
    def moment(self) -> str | None:
        """Moment at which it is read; None for now."""
        return None

    def key_columns(self, spec: Any) -> tuple[str, ...] | None:  # noqa: ARG002  # others tell deletes
        """Return the columns that tell which rows are gone: None where none is told, empty for identifier fields."""
        return None

    @property
    def needs(self) -> tuple[str, ...]:
        """Capability that the format has to have."""
        return (self.capability, *super().needs)

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse columns without those that the job names, and what cannot be read at all."""
        asked = (each for each in ("keys", "order_by", "deduplicate_by") if spec.is_final(each))
        given = {each: named for each in asked if (named := getattr(spec, each, ()))}
        needed = [column for columns in given.values() for column in columns]
        chosen = {name.lower() for name in self.columns or needed}
        if left := [name for name in needed if name.lower() not in chosen]:
            raise InvalidSpecError(
                f"{spec.table}: columns of {type(self).__name__} must have those of {' and '.join(given)}, and lack "
                f"{left}"
            )
        self.refuse_reading(spec)

    def refuse_reading(self, spec: Any) -> None:
        """Refuse a predicate that needs ``allow_sql``."""
        if self.where is not None and not spec.allow_sql and (fault := unfit_for_predicate(self.where)) is not None:
            raise InvalidSpecError(
                f"{spec.table}: where of {self.table} was refused for {fault}, got where={shown(str(self.where))}. "
                f"{PREDICATE}"
            )


class ChangeStream(Source):
    """Base of change events of one table, wherever they are: in files, or in a topic. A subclass has the arguments."""

    kind: ClassVar[str] = ""
    is_change_stream: ClassVar[bool] = True
    missing_columns: ClassVar[MissingColumns] = MissingColumns.NULL
    table: str
    schema: str | None
    ordering: EventOrdering | str | None
    tombstone_retention: timedelta | str

    @property
    def needs(self) -> tuple[str, ...]:
        """Change events need a table that remembers keys."""
        return ("change-events", *super().needs)

    @property
    def is_by_key(self) -> bool:
        """Tell whether each row keeps the position of its newest event."""
        return self.ordering is EventOrdering.KEY

    @property
    def looks_at_rows(self) -> bool:
        """Tell whether an event is compared with the table's row."""
        return self.is_by_key

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse what events bring themselves, or what their ordering cannot do."""
        engine, events = spec.merge_engine, f"{spec.table}: {type(self).__name__}'s events"
        if spec.is_complete:
            raise InvalidSpecError(f"{events} are a part of the rows, and complete=True takes a source that has all")
        if spec.order_by or spec.delete_when:
            raise InvalidSpecError(f"{events} bring their own order and deletes; leave out order_by, delete_when")
        if engine.combines_rows or engine.ignore_stale:
            raise InvalidSpecError(
                f"{events} carry whole rows and their own order; "
                "merge_engine may only be a Deduplicate without ignore_stale"
            )
        keeps = spec.missing_columns is MissingColumns.KEEP
        clashes = {
            "branch, because deleted keys are remembered for main": spec.branch is not None,
            "deletes='ignore', because a delete ends what a key's values are": engine.deletes is Deletes.IGNORE,
            "missing_columns='keep', because an event writes the whole row": keeps,
        }
        if self.is_by_key and (named := [name for name, given in clashes.items() if given]):
            raise InvalidSpecError(f"{spec.table}: ordering='key' does not go with {'; nor with '.join(named)}")


@dataclass(frozen=True)
class ChangeEvents(ChangeStream):
    """Base of the envelopes: files with the change events of one table; arguments as of :class:`Debezium`."""

    kind: ClassVar[str] = ""
    format: ClassVar[str] = "json"
    path: str = field(metadata=reads(file_path, "events.json"))
    table: str = field(metadata=reads(text, "table"))
    schema: str | None = field(default=None, metadata=reads(optional(column_list)))
    options: Mapping[str, Any] = field(default_factory=dict, metadata=reads(options))
    ordering: EventOrdering | str | None = field(default=None, metadata=reads(optional(_ordering)))
    tombstone_retention: timedelta | str = field(default=timedelta(seconds=THIRTY_DAYS), metadata=reads(duration))
    max_file_age: timedelta | str = field(default=ONE_YEAR, metadata=reads(file_age))

    @property
    def files(self) -> ChangeEvents:
        """These."""
        return self

    def complete(self) -> None:
        """Refuse options that lose events or files."""
        check_reader_options(self.options, self.kind, f"{type(self).__name__}.options")

    def without_policy(self) -> Self:
        """Return the events, without how long their files are remembered."""
        return replace(self, on_source_change=OnSourceChange.CONTINUE, max_file_age=ONE_YEAR)


@dataclass(frozen=True)
class Debezium(ChangeEvents, DebeziumConnector):
    """Change events of one table in JSON lines, each with or without its schema.

    :param path: path or glob of files.
    :param table: source table whose events are taken, ``orders``, ``public.orders`` or ``shop.public.orders``.
    :param schema: DDL of the columns, ``"order_id STRING, total DECIMAL(12,2)"``.
    :param options: of Spark's reader of text: ``lineSep``.
    :param ordering: what is known of the order of the events, so that none is applied over a newer one.
        ``"partition"``: each partition of the topic is in order. ``"stream"``: all events of the table are. ``"key"``:
        nothing is, so each row keeps its position. Default: ``"partition"`` where every event tells its partition and
        offset, else events older than what was applied are refused.
    :param tombstone_retention: how long ``ordering="key"`` remembers deleted keys; timedelta or ISO-8601 text.
    :param max_file_age: how long a consumed file is remembered that is not in the source any more.
    :param binary_handling_mode: the connector's: ``"bytes"``, ``"base64"``, ``"base64-url-safe"`` or ``"hex"``. Needed
        for bytes in a BINARY column where the events do not tell how they are written.
    :param decimal_handling_mode: the connector's: ``"precise"``, ``"double"`` or ``"string"``. Needed for whole numbers
        in quotes where events carry no schema.
    :param key_field_name: the field that ``ByLogicalTableRouter`` adds to the records' keys, its ``key.field.name``.
    :param unavailable_value_placeholder: the connector's ``unavailable.value.placeholder``, ``"hex:..."`` included.
    """

    kind: ClassVar[str] = "debezium"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.envelopes.debezium.source:DebeziumSource"


def source(value: object, name: str = "source") -> Source:
    """Return a source of what an author gives for one.

    :param value: a source, a mapping of its fields with ``type``, or the path of files.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, Source):
        return value
    if isinstance(value, Mapping):
        return Source.from_mapping(value, name)
    if isinstance(value, str):
        return Files(text(value, name))
    names = ", ".join(kind.__name__ for kind in Source.kinds().values())
    raise InvalidSpecError(f"{name} must be a path, a mapping with type, or one of {names}, got {value!r}")
