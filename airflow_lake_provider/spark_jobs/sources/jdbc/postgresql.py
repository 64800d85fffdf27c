"""PostgreSQL: its snapshots are exported to the readers, and tables are read by ranges of pages.

A value is sent in a form of which Spark has exactly the value that the database has. Spark's own mapping loses some: a
numeric without a scale gets 18 digits behind the point, and infinity becomes the year 9999. Dates and times depend on
the JVM's zone and calendar there. Here they are sent as whole numbers. A value that no lake table has ends the
statement with a message of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
)

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import (
    REFUSED,
    VALUE,
    Asked,
    DatabaseColumn,
    Dialect,
    SentValue,
)

# Ranges of row addresses are scanned from here on.
_OLDEST = 140_000
_ISOLATED = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Texts of times and intervals, whatever the server's or the user's defaults are.
_TEXT_FORMS = ("SET LOCAL TIME ZONE 'UTC'", "SET LOCAL DateStyle TO 'ISO'", "SET LOCAL IntervalStyle TO 'iso_8601'")
# The server may end a transaction that waits: the driver's waits until the batch is committed, and a reader's between
# two fetches. The second one is of version 17. A query, so that it comes behind what has to be said before any.
_UNENDED = (
    "SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
# Whose transaction waited too long for the server: not what a statement asks for.
_ENDED_STATES = ("25P03", "25P04")
# As text that sorts as the values do; and now, of the same type.
_GREATEST = {
    "date": ("to_char(m, 'YYYY-MM-DD')", "current_date"),
    "timestamp": ("to_char(m, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", "now() AT TIME ZONE 'UTC'"),
    "timestamptz": ("to_char(m AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')", "now()"),
}
# What the driver calls columns that a sequence numbers, identity columns too.
_OF_SEQUENCES = {"smallserial": "int2", "serial": "int4", "bigserial": "int8"}
# The table itself and what inherits from it, partitions among them. Other kinds of storage have other row addresses,
# and who may read some columns alone may not read addresses.
_STORED = """
WITH RECURSIVE parts(oid) AS (
    SELECT to_regclass({name})::oid
    UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid
)
SELECT (c.relkind = 'p' OR (c.relkind IN ('r', 'm') AND coalesce(a.amname, '') = 'heap'))
        AND has_table_privilege(to_regclass({name}), 'SELECT') AS has_pages,
    CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) / current_setting('block_size')::int8 ELSE 0 END
    AS pages
FROM parts p JOIN pg_class c ON c.oid = p.oid LEFT JOIN pg_am a ON a.oid = c.relam
"""
# In the column's own order, by which ranges are compared: no row gives the subquery a value, and its collation stays.
_COMMON_AND_BOUNDS = """
WITH kept AS (
    SELECT histogram_bounds::text::text[] AS bounds, most_common_vals::text::text[] AS common,
        most_common_freqs::float8[] AS shares, null_frac::float8 AS nulls
    FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
    WHERE c.oid = to_regclass({relation}) AND s.attname = {column}
    ORDER BY inherited DESC LIMIT 1
), weighed AS (
    SELECT unnest(common) AS value, unnest(shares) AS weight FROM kept
    UNION ALL
    SELECT unnest(bounds[2:]), (1 - nulls - coalesce((SELECT sum(share) FROM unnest(shares) AS share), 0))
        / greatest(array_length(bounds, 1) - 1, 1)
    FROM kept
)
SELECT value, weight FROM weighed WHERE value IS NOT NULL
ORDER BY coalesce(value::{kind}, (SELECT {name} FROM {table} LIMIT 0))
"""
# Cast in the database, and the type of Spark that it arrives as.
_PLAIN: dict[str, tuple[str, DataType]] = {
    "bool": ("bool", BooleanType()),
    "int2": ("int4", IntegerType()),
    "int4": ("int4", IntegerType()),
    "int8": ("int8", LongType()),
    "oid": ("int8", LongType()),
    "float4": ("float4", FloatType()),
    "float8": ("float8", DoubleType()),
}
# Types of which the text says all.
_TEXTS = frozenset(
    {
        *("text", "varchar", "bpchar", "name", "char", "citext", "uuid", "json", "jsonb", "xml"),
        *("time", "timetz", "interval", "inet", "cidr", "macaddr", "macaddr8", "bit", "varbit"),
    }
)
_TIMES = frozenset({"date", "timestamp", "timestamptz"})


class PostgreSql(Dialect):
    """PostgreSQL, from version 14 on."""

    driver: ClassVar[str] = "org.postgresql.Driver"
    package: ClassVar[str] = "org.postgresql:postgresql"
    has_shared_snapshots: ClassVar[bool] = True
    version: ClassVar[str] = "SHOW server_version_num"
    # Else a server that is gone without a word is waited for without an end; and so is one that takes a connection and
    # says nothing, as a proxy without servers does.
    properties: ClassVar[Mapping[str, str]] = {"tcpKeepAlive": "true", "loginTimeout": "120"}
    number_cast: ClassVar[str] = "x::bigint"
    text_cast: ClassVar[str] = "x::text"
    remedies: ClassVar[str] = "NULLIF(x, 'infinity'), x::text, or x::numeric(38, 9)"
    numbers: ClassVar[Sequence[str]] = ("int2", "int4", "int8")
    widest: ClassVar[str] = "int8"
    times: ClassVar[Sequence[str]] = tuple(_GREATEST)

    def refuse_old(self, version: str, address: str) -> None:
        """Refuse a server without scans of ranges of pages."""
        if int(version) < _OLDEST:
            raise UnsupportedError(
                f"{address} is PostgreSQL {int(version) // 10_000}; it is read from {_OLDEST // 10_000} on"
            )

    def begin(self, database: Asked, version: str, *, is_consistent: bool) -> str | None:  # noqa: ARG002  # others differ
        """Export the snapshot of the transaction."""
        database.execute("; ".join([_ISOLATED, *_TEXT_FORMS, _UNENDED]))
        return database.text("SELECT pg_export_snapshot()") if is_consistent else None

    def reader_start(self, snapshot: str | None) -> str:
        """Take the snapshot."""
        # Who alters the table waits for the driver, and a reader behind it would wait without an end.
        settings = (*_TEXT_FORMS, "SET LOCAL lock_timeout TO '5min'", _UNENDED)
        if snapshot is None:
            # Before any query, and so before the settings.
            return "; ".join(["SET TRANSACTION READ ONLY", *settings])
        return "; ".join([_ISOLATED, f"SET TRANSACTION SNAPSHOT {_literal(snapshot)}", *settings])

    def kind(self, type_name: str) -> str:
        """Return the name of the type, which the driver quotes where it is of a schema that no search finds."""
        return _OF_SEQUENCES.get(type_name, type_name.strip('"'))

    def quoted(self, name: str) -> str:
        """Return the name in double quotes."""
        return _quoted_identifier(name)

    def literal(self, text: str) -> str:
        """Return the text in quotes."""
        return _literal(text)

    def typed(self, value: str, kind: str) -> str:
        """Return a cast."""
        return f"{_literal(value)}::{_quoted_type(kind)}"

    def below(self, value: str, microseconds: int) -> str:
        """Return a difference."""
        return f"{value} - interval '{microseconds} microseconds'"

    def as_json(self, sql: str) -> str:
        """Return all rows in one answer."""
        return f"SELECT coalesce(json_agg(lake), '[]')::text FROM (\n{sql}\n) AS lake"

    def pages(self, database: Asked, table: Sequence[str]) -> tuple[int, ...] | None:
        """Ask the catalog, of the table and what inherits from it."""
        name = ".".join(map(_quoted_identifier, table))
        stored = database.rows(_STORED.format(name=_literal(name)))
        if not stored:
            return None
        return tuple(part["pages"] for part in stored) if all(part["has_pages"] for part in stored) else ()

    def sent(self, column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
        """Return how the values of a column are sent."""
        return _sent_value(column, wanted)

    def greatest(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for the greatest value."""
        text, now = _GREATEST.get(column.kind, ("m", None))
        flags = ", false AS is_unfit, false AS is_in_future"
        if now is not None:
            # Infinity has no such form.
            text = f"coalesce({text}, m::text)"
            flags = f", NOT isfinite(m) OR m < '0001-01-01' AS is_unfit, m > {now} + interval '1 day' AS is_in_future"
        greatest = f"SELECT max({_quoted_identifier(column.name)}) AS m FROM {relation} AS lake"
        return f"SELECT {text} AS value{flags} FROM ({greatest}) AS greatest"

    def has_nulls(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for NULL."""
        nulls = f"SELECT 1 FROM {relation} AS lake WHERE {_quoted_identifier(column.name)} IS NULL"
        return f"SELECT EXISTS ({nulls}) AS are_there"

    def planned_bytes(
        self,
        database: Asked,
        relation: str,
        table: Sequence[str] | None,  # noqa: ARG002  # others look a table up
        columns: Sequence[str],
        where: str,
    ) -> int:
        """Ask the planner."""
        names = ", ".join(map(_quoted_identifier, columns))
        plan = json.loads(database.text(f"EXPLAIN (FORMAT JSON) SELECT {names} FROM {relation} AS lake WHERE {where}"))
        top = plan[0]["Plan"]
        return int(top["Plan Rows"]) * int(top["Plan Width"])

    def weighed_values(self, database: Asked, relation: str, column: DatabaseColumn) -> list[tuple[str, float]]:
        """Ask the statistics that ANALYZE keeps."""
        asked = _COMMON_AND_BOUNDS.format(
            relation=_literal(relation),
            column=_literal(column.name),
            kind=_quoted_type(column.kind),
            name=_quoted_identifier(column.name),
            table=relation,
        )
        return [(row["value"], row["weight"]) for row in database.rows(asked)]

    def even_values(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Compute them in the database."""
        name, is_time = _quoted_identifier(column.name), column.kind in self.times
        finite = f"isfinite({name})" if is_time else "true"
        step = f"(high - low) * (part::float8 / {wanted})"
        value = {
            "date": f"low + (high - low) * part / {wanted}",
            "timestamp": f"low + {step}",
            "timestamptz": f"low + {step}",
        }.get(column.kind, f"(low::numeric + trunc((high::numeric - low) * part / {wanted}))::int8")
        ends = f"SELECT min({name}) AS low, max({name}) AS high FROM {relation} AS lake WHERE {where} AND {finite}"
        rows = database.rows(
            f"SELECT DISTINCT {value} AS value FROM generate_series(1, {wanted - 1}) AS part, ({ends}) AS ends "
            "WHERE low < high ORDER BY 1"
        )
        return [str(row["value"]) for row in rows]

    def quantiles(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Compute them of the values: of few rows, or along an index."""
        name, shares = _quoted_identifier(column.name), ", ".join(str(part / wanted) for part in range(1, wanted))
        bounds = f"percentile_disc(ARRAY[{shares}]) WITHIN GROUP (ORDER BY {name})"
        rows = database.rows(
            f"SELECT DISTINCT bound FROM unnest((SELECT {bounds} FROM {relation} AS lake WHERE {where})) AS bound "
            "WHERE bound IS NOT NULL ORDER BY 1"
        )
        return [str(row["bound"]) for row in rows]

    def is_own_error(self, java_name: str) -> bool:
        """Tell by the driver's own class."""
        return "PSQLException" in java_name

    def error_class(self, state: str, code: int) -> type[LakeProviderError] | None:  # noqa: ARG002  # others have codes
        """Tell what may not be read, and a transaction that the server has ended, from other faults of a statement."""
        if state in _ENDED_STATES:
            return JobFailedError
        return AccessDeniedError if state == "42501" else None

    def check(self, statement: str) -> str:
        """Return its plan."""
        return f"EXPLAIN {statement}"


def _sent_value(column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
    """Return how the values of a column are sent; None for a type that no lake table has.

    :param wanted: type of the column of the target, to whose decimals a numeric without a scale is fitted.
    """
    kind, value = column.kind, _quoted_identifier(column.name)
    if kind in _PLAIN:
        cast, sent = _PLAIN[kind]
        return SentValue(f"{value}::{cast}", sent)
    if kind in _TIMES:
        return _time(column, value)
    if kind == "numeric":
        return _numeric(column, value, wanted if isinstance(wanted, DecimalType) else None)
    if kind == "bytea":
        return SentValue(value, BinaryType())
    # Names of arrays begin so, and an enumeration may have any name.
    if kind.startswith("_") and not column.is_text:
        return _array(column, value, kind.removeprefix("_"))
    return SentValue(f"{value}::text", StringType()) if kind in _TEXTS or column.is_text else None


def _time(column: DatabaseColumn, value: str) -> SentValue:
    sent, sql, made = _as_number(column.kind, value)
    checked = _unless({f"NOT isfinite({value})": "infinity"}, column, value, sent, sql)
    return SentValue(checked, IntegerType() if sent == "int4" else LongType(), made)


def _as_number(kind: str, value: str) -> tuple[str, str, str]:
    """Return PostgreSQL's type of a number, the number that stands for a date or a time, and what Spark makes of it."""
    if kind == "date":
        return "int4", f"({value} - DATE '1970-01-01')", "date_from_unix_date({})"
    sql, made = f"(extract(epoch FROM {value}) * 1000000)::int8", "timestamp_micros({})"
    # The session's zone is UTC.
    return "int8", sql, f"CAST({made} AS TIMESTAMP_NTZ)" if kind == "timestamp" else made


def _numeric(column: DatabaseColumn, value: str, wanted: DecimalType | None) -> SentValue:
    if (decimal := column.decimal) is not None:
        return SentValue(_unless({f"{value} = 'NaN'": "NaN"}, column, value, "numeric", value), decimal)
    if wanted is None:
        return SentValue(f"{value}::text", StringType())
    # Infinity is one of the numbers that are too large.
    faults = {
        f"{value} = 'NaN'": "NaN",
        f"{value} <> round({value}, {wanted.scale}) OR abs({value}) >= 1e{wanted.precision - wanted.scale}": (
            f"a number that is no {wanted.simpleString()}"
        ),
    }
    return SentValue(_unless(faults, column, value, "numeric", value), wanted)


def _array(column: DatabaseColumn, value: str, kind: str) -> SentValue | None:
    # The driver's array of arrays is none of values.
    faults = {f"array_ndims({value}) > 1": "an array of several dimensions"}
    if kind in _PLAIN:
        cast, sent = _PLAIN[kind]
    elif kind == "numeric" and column.decimal is not None:
        cast, sent = "numeric", column.decimal
        faults[f"'NaN' = ANY({value})"] = "NaN"
    elif kind in _TIMES:
        return _times(column, value, kind, faults)
    elif kind == "numeric" or kind in _TEXTS:
        cast, sent = "text", StringType()
    else:
        return None
    return SentValue(_unless(faults, column, value, f"{cast}[]", f"{value}::{cast}[]"), ArrayType(sent))


def _times(column: DatabaseColumn, value: str, kind: str, faults: dict[str, str]) -> SentValue:
    # As texts, those before year 1 end in BC, which Spark drops from a date.
    sent, number, made = _as_number(kind, "x")
    faults = {**faults, f"'infinity' = ANY({value}) OR '-infinity' = ANY({value})": "infinity"}
    # Of no array there are no elements, and their array is empty.
    numbers = f"CASE WHEN {value} IS NOT NULL THEN ARRAY(SELECT {number} FROM unnest({value}) AS x) END"
    each = IntegerType() if sent == "int4" else LongType()
    made = f"transform({{}}, x -> {made.replace(VALUE, 'x')})"
    return SentValue(_unless(faults, column, value, f"{sent}[]", numbers), ArrayType(each), made)


def _unless(faults: dict[str, str], column: DatabaseColumn, value: str, kind: str, sql: str) -> str:
    """Return an expression that ends the statement where a condition holds.

    A text that is no value of the type is cast to it. It depends on the row, as PostgreSQL computes constants first.
    """
    cases = " ".join(
        f"WHEN {condition} THEN CAST({_literal(f'{REFUSED} column {column.name}, it has {fault}')} "
        f"|| left({value}::text, 0) AS {kind})"
        for condition, fault in faults.items()
    )
    return f"CASE {cases} ELSE {sql} END"


def _quoted_identifier(name: str) -> str:
    """Return a name as PostgreSQL reads it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def _quoted_type(kind: str) -> str:
    """Return a type as PostgreSQL reads it, with its schema where the driver has named that."""
    return ".".join(map(_quoted_identifier, kind.split('"."')))


def _literal(text: str) -> str:
    """Return a text as a constant of PostgreSQL, whatever the server makes of backslashes."""
    escaped = text.replace("'", "''")
    return f"E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{escaped}'"
