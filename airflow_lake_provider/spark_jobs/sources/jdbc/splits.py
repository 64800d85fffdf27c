"""Ranges of a relation that are read side by side: each row is in one of them, also a row with NULL.

A table is split by the addresses of its rows, in ranges of as many pages. A column is split by the statistics that
ANALYZE keeps of it. Rows above a watermark are split by the watermark, whose values an index tells.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql_types import literal, quoted_identifier
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation

# Under which the subquery of the readers shows what it is split by.
SPLIT = "_lake_split"
# A connection costs some 20 ms; so many bytes take longer to send.
_BYTES_OF_A_SPLIT = 16 * 1024 * 1024
_NUMBERS = ("int2", "int4", "int8")
_TIMES = ("date", "timestamp", "timestamptz")

_COMMON_AND_BOUNDS = """
WITH kept AS (
    SELECT histogram_bounds::text::text[] AS bounds, most_common_vals::text::text[] AS common,
        most_common_freqs::float8[] AS shares, null_frac::float8 AS nulls
    FROM pg_stats
    WHERE (quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass = to_regclass({relation})
        AND attname = {column}
    ORDER BY inherited DESC LIMIT 1
), weighed AS (
    SELECT unnest(common) AS value, unnest(shares) AS weight FROM kept
    UNION ALL
    SELECT unnest(bounds[2:]), (1 - nulls - coalesce((SELECT sum(share) FROM unnest(shares) AS share), 0))
        / greatest(array_length(bounds, 1) - 1, 1)
    FROM kept
)
SELECT value, weight FROM weighed WHERE value IS NOT NULL ORDER BY value::{kind}
"""


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Conditions of the ranges, over a column ``_lake_split`` of the subquery.

    :param column: expression of that column; None where everything is one range.
    """

    column: str | None = None
    conditions: tuple[str, ...] = ("true",)

    @classmethod
    def at(cls, column: str, bounds: Sequence[str]) -> Splits:
        """Return the ranges between some bounds.

        :param bounds: constants of the database, in its order and each once.
        """
        if not bounds:
            return cls()
        name = quoted_identifier(SPLIT)
        between = [f"{name} >= {low} AND {name} < {high}" for low, high in pairwise(bounds)]
        first, last = f"{name} < {bounds[0]} OR {name} IS NULL", f"{name} >= {bounds[-1]}"
        return cls(column=column, conditions=(first, *between, last))


def choose_splits(
    database: Database, relation: Relation, source: JdbcTable, where: str, *, is_new_part: bool, at_once: int
) -> Splits:
    """Return the ranges in which a relation is read.

    :param where: condition on the rows that are read.
    :param is_new_part: whether it keeps what an earlier run has read out.
    :param at_once: how many ranges the job reads at a time.
    :raises BadInputError: the column to split by is none, or nothing tells its values.
    """
    by_pages = relation.pages if source.consistent and source.partition_column is None and not is_new_part else ()
    if not by_pages and source.partition_column is None and source.watermark is None:
        # Of a view, a query, or a storage of its own.
        return Splits()
    total = _bytes(database, relation, where) if not by_pages else sum(by_pages) * 8192
    wanted = source.partitions or min(at_once, -(-total // _BYTES_OF_A_SPLIT))
    if wanted < 2:
        return Splits()
    if by_pages:
        return Splits.at("ctid", [f"'({page},0)'::tid" for page in page_bounds(by_pages, wanted)])
    if source.partition_column is not None:
        return _by_statistics(database, relation, source.partition_column, where, wanted)
    return _by_values(database, relation, str(source.watermark), where, wanted)


def page_bounds(pages: Sequence[int], wanted: int) -> list[int]:
    """Return the pages at which parts of a table are cut together, so that each range has as many pages of all parts.

    :param pages: of each part.
    """

    def below(page: int) -> int:
        return sum(min(page, each) for each in pages)

    total, longest = sum(pages), range(max(pages, default=0) + 1)
    cuts = {bisect_left(longest, total * number / wanted, key=below) for number in range(1, wanted)}
    return sorted(cut for cut in cuts if cut > 0)


def weight_bounds(weighed: Sequence[tuple[str, float]], wanted: int) -> list[str]:
    """Return the values at which ranges of as much weight begin.

    :param weighed: values in the database's order, each with the share of the rows that are at it, or between it and
        the one before.
    """
    bounds: list[str] = []
    # What no value has is NULL, which is in the first range.
    passed = max(0.0, 1 - sum(weight for _, weight in weighed))
    for value, weight in weighed:
        # A range begins with the value that takes the one before over its share.
        if passed >= (len(bounds) + 1) / wanted and len(bounds) < wanted - 1 and value not in bounds:
            bounds.append(value)
        passed += weight
    return bounds


def _bytes(database: Database, relation: Relation, where: str) -> int:
    """Return how many bytes the database's planner expects."""
    plan = json.loads(database.text(f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation.sql} AS lake WHERE {where}"))
    top = plan[0]["Plan"]
    return int(top["Plan Rows"]) * int(top["Plan Width"])


def _by_statistics(database: Database, relation: Relation, name: str, where: str, wanted: int) -> Splits:
    column = relation.column(name, "partition_column")
    weighed: list[tuple[str, float]] = []
    if relation.table is not None:
        asked = _COMMON_AND_BOUNDS.format(
            relation=literal(relation.sql), column=literal(column.name), kind=quoted_identifier(column.kind)
        )
        weighed = [(row["value"], row["weight"]) for row in database.rows(asked)]
    quoted = quoted_identifier(column.name)
    if weighed:
        return Splits.at(quoted, _typed(weight_bounds(weighed, wanted), column.kind))
    if column.kind not in (*_NUMBERS, *_TIMES):
        raise BadInputError(
            f"{relation.what}: nothing tells the values of partition_column {name!r}, of type {column.kind}. ANALYZE "
            "the table, or name a column of whole numbers, dates or times"
        )
    return Splits.at(quoted, _typed(_even(database, relation, quoted, column.kind, where, wanted), column.kind))


def _even(database: Database, relation: Relation, column: str, kind: str, where: str, wanted: int) -> list[str]:
    """Return values at equal distances between the least and the greatest one."""
    finite = f"isfinite({column})" if kind in _TIMES else "true"
    step = f"(high - low) * (part::float8 / {wanted})"
    value = {
        "date": f"low + (high - low) * part / {wanted}",
        "timestamp": f"low + {step}",
        "timestamptz": f"low + {step}",
    }.get(kind, f"(low::numeric + trunc((high::numeric - low) * part / {wanted}))::int8")
    rows = database.rows(
        f"SELECT DISTINCT {value} AS value FROM generate_series(1, {wanted - 1}) AS part, "
        f"(SELECT min({column}) AS low, max({column}) AS high FROM {relation.sql} AS lake WHERE {where} AND {finite}) "
        "AS ends WHERE low < high ORDER BY 1"
    )
    return [str(row["value"]) for row in rows]


def _by_values(database: Database, relation: Relation, name: str, where: str, wanted: int) -> Splits:
    """Split by the values themselves: of few rows, or along an index."""
    column = relation.column(name, "watermark")
    quoted, shares = quoted_identifier(column.name), ", ".join(str(part / wanted) for part in range(1, wanted))
    rows = database.rows(
        f"SELECT DISTINCT bound FROM unnest((SELECT percentile_disc(ARRAY[{shares}]) WITHIN GROUP (ORDER BY {quoted}) "
        f"FROM {relation.sql} AS lake WHERE {where})) AS bound WHERE bound IS NOT NULL ORDER BY 1"
    )
    return Splits.at(quoted, _typed([str(row["bound"]) for row in rows], column.kind))


def _typed(values: Sequence[str], kind: str) -> list[str]:
    return [f"{literal(value)}::{quoted_identifier(kind)}" for value in values]
