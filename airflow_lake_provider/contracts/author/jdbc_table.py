"""A table or a query of a relational database as a source, read by Spark's JDBC reader."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import flag, number, optional, positive, text
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, OnSourceChange, Source, chosen_columns
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.durations import duration, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import check_query_start, shown

_PART = re.compile(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^"`.\s]+')
# A comment, a text or a name in quotes, or one letter; each of them ends with the query at the latest.
_PIECE = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\S""", re.DOTALL
)
_ROWS_A_FETCH = 10_000


def _relation(value: object, name: str) -> str:
    given = text(value, name)
    if not 1 <= len(parts := relation_parts(given)) <= 2:
        raise InvalidSpecError(
            f"{name} must be a table, or a schema and a table with a dot between them, such as 'public.orders'; a name "
            f"with a dot or a blank goes in double quotes or backticks, got {value!r}, which has {len(parts) or 'no'} "
            "parts"
        )
    return given


def _statement(value: object, name: str) -> str:
    query = text(value, name)
    check_query_start(query, name)
    pieces = [piece for piece in _PIECE.findall(query) if not piece.startswith(("--", "/*"))]
    if pieces[-1:] == [";"]:
        raise InvalidSpecError(f"{name} is read as a subquery, so it must not end with ';', got {shown(query)}")
    return query


def _overlap(value: object, name: str) -> str:
    """Return a whole number or a duration as text, so that templates and forms can give both."""
    is_number = isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal())
    if not is_number:
        return to_iso(duration(value, name))
    if (count := number(value, name)) < 1:
        raise InvalidSpecError(f"{name} must be at least 1, or a duration such as 'PT10M', got {value!r}")
    return str(count)


@dataclass(frozen=True)
class JdbcTable(Source):
    """A table or a query of PostgreSQL, MySQL or MariaDB: the whole of it, or the rows above a watermark.

    :param connection: id of an Airflow connection of type ``postgres`` or ``mysql``. Its password goes to the driver in
        the file of settings, as that of the catalog does.
    :param table: ``schema.table`` or ``table``, in the spelling of the database. It may be a view.
    :param sql: a query in the database's SQL in place of ``table``, or the path of a file with it. It runs in a
        transaction that may only read. It is code: never interpolate user input.
    :param watermark: column that grows with each change. A run reads what is above the greatest value that was applied,
        up to the greatest one that is there. Left out, each run reads everything.
    :param overlap: how far below that value a run reads again, for rows that were committed late. A timedelta or
        ISO-8601 text; a whole number for a column of numbers.
    :param columns: only these columns.
    :param partition_column: column whose ranges are read side by side. Left out, a table of PostgreSQL is split by its
        pages.
    :param partitions: number of ranges; default by the size, at most one for each core of the job.
    :param fetch_size: rows that are fetched at a time.
    :param consistent: read all ranges in one snapshot of the database. False where a proxy spreads connections over
        several servers: then a range may see rows that another one does not. Connections of MySQL and MariaDB share no
        snapshot, so these are read in one range unless it is False.
    """

    kind: ClassVar[str] = "jdbc-table"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.jdbc.source:JdbcSource"
    takes_dead_letter: ClassVar[bool] = True
    is_queryable: ClassVar[bool] = True
    connection: str = field(metadata=reads(text, "database"))
    table: str | None = field(default=None, metadata=reads(optional(_relation), "table"))
    sql: str | None = field(default=None, kw_only=True, metadata=reads(optional(_statement), "SELECT 1", is_sql=True))
    watermark: str | None = field(default=None, kw_only=True, metadata=reads(optional(text), "watermark"))
    overlap: timedelta | int | str | None = field(default=None, kw_only=True, metadata=reads(optional(_overlap)))
    columns: Sequence[str] | None = field(default=None, kw_only=True, metadata=reads(optional(chosen_columns)))
    partition_column: str | None = field(default=None, kw_only=True, metadata=reads(optional(text)))
    partitions: int | None = field(default=None, kw_only=True, metadata=reads(optional(positive)))
    fetch_size: int = field(default=_ROWS_A_FETCH, kw_only=True, metadata=reads(positive))
    consistent: bool = field(default=True, kw_only=True, metadata=reads(flag))

    def complete(self) -> None:
        """Refuse two things to read or none, and what has no meaning alone."""
        if self.is_final("table", "sql") and (self.table is None) == (self.sql is None):
            raise InvalidSpecError(f"JdbcTable needs either table or sql, got table={self.table!r}, sql={self.sql!r}")
        if self.overlap is not None and self.watermark is None:
            raise InvalidSpecError("JdbcTable.overlap is read again below a watermark; give watermark, too")

    @property
    def connections(self) -> Mapping[str, str]:
        """The connection."""
        return {self.connection: "database"}

    def address(self, access: Mapping[str, Any]) -> str | None:
        """Return the table; a query has no address of its own."""
        return None if self.table is None else str(access[self.connection].address_of(relation_parts(self.table)))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns, those that say what is read among them; nothing where all are read."""
        others = [name for name in (self.watermark, self.partition_column) if name is not None]
        by_name = {name.lower(): name for name in (*others, *(self.columns or ()))}
        return tuple(by_name.values()) if self.columns else ()

    @property
    def reads_again(self) -> bool:
        """Tell whether a run reads rows that an earlier one has applied."""
        return self.watermark is None or self.overlap is not None

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse columns without those that the job names, and rows that would count twice."""
        asked = (each for each in ("keys", "order_by", "deduplicate_by") if spec.is_final(each))
        given = {each: named for each in asked if (named := getattr(spec, each, ()))}
        needed = [name for named in given.values() for name in named]
        chosen = {name.lower() for name in self.columns or needed}
        if left := [name for name in needed if name.lower() not in chosen]:
            raise InvalidSpecError(
                f"{spec.table}: columns of JdbcTable must have those of {' and '.join(given)}, and lack {left}"
            )
        self.refuse_reading(spec)

    def refuse_reading(self, spec: Any) -> None:
        """Refuse to add, or to count, rows that each run reads again, and a branch, for which no watermark is kept."""
        if self.is_final("watermark") and self.watermark is not None and getattr(spec, "branch", None) is not None:
            raise InvalidSpecError(
                f"{spec.table}: a watermark does not go with branch: how far a table was read is kept for main, so "
                "each run would read all of it. Leave one of them out; audits keep a batch on a branch until they "
                "find nothing"
            )
        others = [each for each in spec.source.inputs.values() if each != self]
        is_looked_up = self.watermark is None and any(_has_new_input(each) for each in others)
        is_named = self.watermark is None and getattr(spec, "batch_id", None) is not None
        against = getattr(spec, "deduplicate_against", None)
        is_compared = against is not None or not spec.is_final("deduplicate_against")
        if not getattr(spec, "counts_rows", False) or not self.reads_again or is_looked_up or is_named or is_compared:
            return
        what = "has no watermark" if self.watermark is None else "has an overlap"
        counter, count = spec.counted_by
        ways = [
            *(["a watermark, for the rows above it", "batch_id, for one load"] if self.watermark is None else []),
            *(["no overlap"] if self.watermark is not None else []),
            *(["deduplicate_by with deduplicate_against"] if hasattr(spec, "deduplicate_against") else []),
        ]
        raise InvalidSpecError(
            f"{spec.table}: {self.table or 'the query'} of connection {self.connection!r} {what}, so each run reads "
            f"rows again, and {counter} would {count} them twice. Give {', or '.join(ways)}; an upsert without "
            "Aggregation may read rows again"
        )

    def without_policy(self) -> Self:
        """Return what is read, without how it is."""
        return replace(
            self,
            on_source_change=OnSourceChange.CONTINUE,
            partition_column=None,
            partitions=None,
            fetch_size=_ROWS_A_FETCH,
            consistent=True,
        )


def _has_new_input(other: Source) -> bool:
    return other.files is not None or other.is_change_stream or getattr(other, "watermark", None) is not None


def relation_parts(table: str) -> tuple[str, ...]:
    """Return schema and name of a table, as the database spells them; nothing for what is no name.

    :param table: ``public.orders``, ``orders``, ``shop."Daily Orders"``.
    """
    parts, place = [], 0
    while match := _PART.match(table, place):
        quote = match[0][0]
        parts.append(match[0][1:-1].replace(2 * quote, quote) if quote in '"`' else match[0])
        place = match.end() + 1
        if table[match.end() : place] != ".":
            break
    return tuple(parts) if parts and place > len(table) else ()
