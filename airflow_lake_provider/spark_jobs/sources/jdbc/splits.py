"""Ranges of a relation that are read side by side: each row is in one of them, also a row with NULL.

A table is split by the addresses of its rows, in ranges of as many pages. A column is split by the statistics that
ANALYZE keeps of it. Rows above a watermark are split by the watermark, whose values an index tells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn, Dialect
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation

# Under which the subquery of the readers shows what it is split by.
SPLIT = "_lake_split"
# A connection costs some 20 ms; so many bytes take longer to send.
_BYTES_OF_A_SPLIT = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Conditions of the ranges, over a column ``_lake_split`` of the subquery.

    :param column: expression of that column; None where everything is one range.
    """

    column: str | None = None
    conditions: tuple[str, ...] = ("true",)

    @classmethod
    def at(cls, column: str, bounds: Sequence[str], name: str) -> Splits:
        """Return the ranges between some bounds.

        :param bounds: constants of the database, in its order and each once.
        :param name: ``_lake_split`` as the database reads it.
        """
        if not bounds:
            return cls()
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
    if not database.dialect.has_shared_snapshots and source.consistent:
        return _one_range(database, source)
    by_pages = relation.pages if source.consistent and source.partition_column is None and not is_new_part else ()
    if not by_pages and source.partition_column is None and source.watermark is None:
        # Of a view, a query, or a storage of its own.
        return Splits()
    if by_pages:
        total = sum(by_pages) * 8192
    else:
        columns = [column.name for column in relation.chosen(source.columns)]
        total = database.dialect.planned_bytes(database, relation.sql, relation.table, columns, where)
    wanted = source.partitions or min(at_once, -(-total // _BYTES_OF_A_SPLIT))
    if wanted < 2:
        return Splits()
    if by_pages:
        pages = page_bounds(by_pages, wanted)
        return Splits.at("ctid", [f"'({page},0)'::tid" for page in pages], database.dialect.quoted(SPLIT))
    if source.partition_column is not None:
        return _by_statistics(database, relation, source.partition_column, where, wanted)
    column = relation.column(str(source.watermark), "watermark")
    values = database.dialect.quantiles(database, relation.sql, column, where, wanted)
    return _at(database.dialect, column, values)


def _one_range(database: Database, source: JdbcTable) -> Splits:
    if source.partition_column is not None or (source.partitions or 1) > 1:
        raise UnsupportedError(
            f"{database.access.address}: its connections share no snapshot, so ranges that are read side by side see "
            "different moments. Give JdbcTable(consistent=False), or leave partition_column and partitions out: one "
            "range sees one moment"
        )
    return Splits()


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


def _by_statistics(database: Database, relation: Relation, name: str, where: str, wanted: int) -> Splits:
    column = relation.column(name, "partition_column")
    dialect = database.dialect
    weighed = [] if relation.table is None else dialect.weighed_values(database, relation.sql, column)
    if weighed:
        return _at(dialect, column, weight_bounds(weighed, wanted))
    if column.kind not in (*dialect.numbers, *dialect.times):
        raise BadInputError(
            f"{relation.what}: nothing tells the values of partition_column {name!r}, of type {column.kind}. ANALYZE "
            "the table, or name a column of whole numbers, dates or times"
        )
    return _at(dialect, column, dialect.even_values(database, relation.sql, column, where, wanted))


def _at(dialect: Dialect, column: DatabaseColumn, values: Sequence[str]) -> Splits:
    bounds = [dialect.typed(value, column.kind) for value in values]
    return Splits.at(dialect.quoted(column.name), bounds, dialect.quoted(SPLIT))
