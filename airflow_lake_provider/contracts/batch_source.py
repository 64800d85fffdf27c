"""Source of a batch: files, a lake table, or a query over either."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import ClassVar

from airflow_lake_provider.contracts.column_list import check_column_list
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.event_marks import EventOrdering
from airflow_lake_provider.contracts.row_position import THIRTY_DAYS
from airflow_lake_provider.contracts.source_name import source_name
from airflow_lake_provider.contracts.table_name import TableName

_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
    ".avro": "avro",
}


_LONGEST_MEMORY = 36_500


def format_of_path(path: str) -> str | None:
    """Return the format that a path's ending tells, also before ``.gz``; None when it tells none."""
    suffixes = reversed(PurePosixPath(path).suffixes)
    return next((_FORMAT_OF_SUFFIX[suffix] for suffix in suffixes if suffix in _FORMAT_OF_SUFFIX), None)


class OnSourceChange(str, Enum):
    """What to do when what shapes the rows of a source has changed since its last commit.

    ``continue`` reads new files with the change, ``replay`` applies all files again once, ``fail`` refuses the run.
    """

    CONTINUE = "continue"
    REPLAY = "replay"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a batch comes from: files, a lake table, or a query over either, in which it is the view ``source``.

    :param path: path or glob of files; None for a table.
    :param format: ``parquet | orc | json | csv | avro``; for an envelope always ``json``.
    :param options: options of Spark's reader, for example ``{"header": "true"}``.
    :param schema: DDL of the columns (``id BIGINT, total DECIMAL(12,2)``), without defaults; None to take the files' or
        the table's.
    :param table: ``namespace.table`` to read instead of files.
    :param query: SQL over the view ``source``.
    :param envelope: ``debezium`` when each line is a change event; None for plain rows.
    :param envelope_table: the event's ``source.table``, or ``schema.table``, whose events are taken.
    :param ordering: what is known of the order of an envelope's events; None to take what the input itself tells.
    :param tombstone_retention: with ``ordering="key"``, seconds for which deleted keys are remembered.
    :param name: identity of the source, under which a table keeps what it has consumed of it, wherever ``path`` points
        and whatever shapes the rows; None where no table keeps it, as for keys of rows to delete.
    :param on_source_change: when format, options, schema, query or envelope are not those of the last commit.
    :param max_file_age_days: how long a consumed file is remembered that is not in the source any more.
    """

    path: str | None = None
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None
    table: str | None = None
    query: str | None = None
    envelope: str | None = None
    envelope_table: str | None = None
    ordering: EventOrdering | None = None
    tombstone_retention: int = THIRTY_DAYS
    name: str | None = None
    on_source_change: OnSourceChange = OnSourceChange.CONTINUE
    max_file_age_days: int = 365

    FORMATS: ClassVar[tuple[str, ...]] = ("parquet", "orc", "json", "csv", "avro")

    def __post_init__(self) -> None:
        if self.name is not None:
            object.__setattr__(self, "name", source_name(self.name))
        if not 1 <= self.max_file_age_days <= _LONGEST_MEMORY:
            raise InvalidSpecError(
                f"max_file_age must be 1 to {_LONGEST_MEMORY:,} days, got {self.max_file_age_days}; "
                "merge_engine='aggregation' forgets no file"
            )
        if (self.path is None) == (self.table is None):
            raise InvalidSpecError(f"give either files or a table as the source, got {self.path!r} and {self.table!r}")
        if self.table is not None:
            TableName.parse(self.table)
        if self.path is not None and self.format not in self.FORMATS:
            raise InvalidSpecError(
                f"source format {self.format!r} is not one of {', '.join(self.FORMATS)}; the path {self.path!r} does "
                "not tell it, so give source_format, or keys_format where it holds keys to delete"
            )
        if self.schema:
            check_column_list(self.schema, "schema")
        if self.envelope not in (None, "debezium"):
            raise InvalidSpecError(f"envelope {self.envelope!r} is not known; the known one is 'debezium'")
        if self.envelope and (self.table or self.query or self.format != "json" or not self.envelope_table):
            raise InvalidSpecError(
                "a debezium envelope is read from JSON files and needs envelope_table, the source table whose events "
                "are taken; it takes no query"
            )
        self._check_ordering()

    def _check_ordering(self) -> None:
        if self.tombstone_retention <= 0:
            raise InvalidSpecError(f"tombstone_retention must be above 0 seconds, got {self.tombstone_retention}")
        if self.ordering is None:
            return
        if self.ordering not in EventOrdering.asked():
            known = ", ".join(repr(ordering.value) for ordering in EventOrdering.asked())
            raise InvalidSpecError(f"ordering {self.ordering!r} is not known; give one of {known}, or leave it out")
        if self.envelope is None:
            raise InvalidSpecError(
                f"ordering={self.ordering!r} tells how change events are ordered, so it needs envelope='debezium'; "
                "plain rows are ordered by order_by"
            )
        object.__setattr__(self, "ordering", EventOrdering(self.ordering))
