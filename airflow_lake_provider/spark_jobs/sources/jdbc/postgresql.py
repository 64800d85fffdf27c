"""PostgreSQL: its snapshots are exported to the readers, and tables are read by ranges of pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pyspark.sql.types import DataType

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import Asked, DatabaseColumn, Dialect, SentValue
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql_types import (
    literal,
    quoted_identifier,
    quoted_type,
    sent_value,
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
            return "; ".join(settings)
        return "; ".join([_ISOLATED, f"SET TRANSACTION SNAPSHOT {literal(snapshot)}", *settings])

    def kind(self, type_name: str) -> str:
        """Return the name of the type, which the driver quotes where it is of a schema that no search finds."""
        return _OF_SEQUENCES.get(type_name, type_name.strip('"'))

    def quoted(self, name: str) -> str:
        """Return the name in double quotes."""
        return quoted_identifier(name)

    def literal(self, text: str) -> str:
        """Return the text in quotes."""
        return literal(text)

    def typed(self, value: str, kind: str) -> str:
        """Return a cast."""
        return f"{literal(value)}::{quoted_type(kind)}"

    def below(self, value: str, microseconds: int) -> str:
        """Return a difference."""
        return f"{value} - interval '{microseconds} microseconds'"

    def as_json(self, sql: str) -> str:
        """Return all rows in one answer."""
        return f"SELECT coalesce(json_agg(lake), '[]')::text FROM (\n{sql}\n) AS lake"

    def pages(self, database: Asked, table: Sequence[str]) -> tuple[int, ...] | None:
        """Ask the catalog, of the table and what inherits from it."""
        name = ".".join(map(quoted_identifier, table))
        stored = database.rows(_STORED.format(name=literal(name)))
        if not stored:
            return None
        return tuple(part["pages"] for part in stored) if all(part["has_pages"] for part in stored) else ()

    def sent(self, column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
        """Return how the values of a column are sent."""
        return sent_value(column, wanted)

    def greatest(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for the greatest value."""
        text, now = _GREATEST.get(column.kind, ("m", None))
        flags = ", false AS is_unfit, false AS is_in_future"
        if now is not None:
            flags = f", NOT isfinite(m) OR m < '0001-01-01' AS is_unfit, m > {now} + interval '1 day' AS is_in_future"
        greatest = f"SELECT max({quoted_identifier(column.name)}) AS m FROM {relation} AS lake"
        return f"SELECT {text} AS value{flags} FROM ({greatest}) AS greatest"

    def has_nulls(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for NULL."""
        nulls = f"SELECT 1 FROM {relation} AS lake WHERE {quoted_identifier(column.name)} IS NULL"
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
        names = ", ".join(map(quoted_identifier, columns))
        plan = json.loads(database.text(f"EXPLAIN (FORMAT JSON) SELECT {names} FROM {relation} AS lake WHERE {where}"))
        top = plan[0]["Plan"]
        return int(top["Plan Rows"]) * int(top["Plan Width"])

    def weighed_values(self, database: Asked, relation: str, column: DatabaseColumn) -> list[tuple[str, float]]:
        """Ask the statistics that ANALYZE keeps."""
        asked = _COMMON_AND_BOUNDS.format(
            relation=literal(relation),
            column=literal(column.name),
            kind=quoted_type(column.kind),
            name=quoted_identifier(column.name),
            table=relation,
        )
        return [(row["value"], row["weight"]) for row in database.rows(asked)]

    def even_values(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Compute them in the database."""
        name, is_time = quoted_identifier(column.name), column.kind in self.times
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
        name, shares = quoted_identifier(column.name), ", ".join(str(part / wanted) for part in range(1, wanted))
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
