"""Ranges of a relation that are read side by side: each row is in one of them, also a row with NULL.

A table is split by the addresses of its rows, in ranges of as many pages. A column is split by the statistics that
ANALYZE keeps of it. Rows above a watermark are split by the watermark, whose values an index tells.

They are read by Spark's JDBC reader with a schema and ranges of our own. Its public calls ask the database for the
schema. They cannot have a range over a column that Spark has no type for, such as the address of a row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, java_session, jvm_of
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database, login_of
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import DatabaseColumn, Dialect, SentValue
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# Under which the subquery of the readers shows what it is split by.
SPLIT = "_lake_split"
_SENT = "_lake_sent"
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


def statement_of(relation: str, values: Sequence[SentValue], where: str, splits: Splits, split: str) -> str:
    """Return the statement that sends the rows, as a database merges it with the condition of a range.

    :param relation: what stands behind FROM.
    :param split: ``_lake_split`` as the database reads it.
    """
    sent = [f"{value.sql} AS {_SENT}{place}" for place, value in enumerate(values)]
    by = [] if splits.column is None else [f"{splits.column} AS {split}"]
    return f"SELECT {', '.join([*sent, *by])} FROM {relation} AS lake WHERE {where}"


def read_splits(
    database: Database,
    statement: str,
    values: Sequence[SentValue],
    names: Sequence[str],
    splits: Splits,
    fetch_size: int,
) -> DataFrame:
    """Return the rows lazily, a task for each range.

    :param statement: of :func:`statement_of`.
    :param names: of the columns.
    """
    schema = StructType([StructField(f"{_SENT}{place}", value.sent) for place, value in enumerate(values)])
    sent = _rows(database, schema, splits, _options(database, fetch_size), f"(\n{statement}\n) AS lake")
    made = (value.made.replace("{}", f"{_SENT}{place}") for place, value in enumerate(values))
    return sent.selectExpr(*(f"{sql} AS {quoted_name(name)}" for sql, name in zip(made, names, strict=True)))


def _options(database: Database, fetch_size: int) -> dict[str, str]:
    return {
        **login_of(database.access),
        **database.dialect.properties,
        "driver": database.dialect.driver,
        # Above 0, a driver does not hold all rows at once.
        "fetchsize": str(fetch_size),
        "sessionInitStatement": database.dialect.reader_start(database.snapshot),
        # The database compares texts by its own rules.
        "pushDownPredicate": "false",
    }


def _rows(database: Database, schema: StructType, splits: Splits, options: Mapping[str, str], table: str) -> DataFrame:
    spark = database.spark
    jvm, session = jvm_of(spark), java_session(spark)
    jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc
    given = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap(options))
    partitions = [jdbc.JDBCPartition(condition, place) for place, condition in enumerate(splits.conditions)]
    # Spark 4 also takes metrics of its own reading of the schema.
    metrics = () if spark.version.startswith("3.") else (jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap()),)
    relation = jdbc.JDBCRelation(
        session.parseDataType(schema.json()),
        java_array(spark, "org.apache.spark.Partition", partitions),
        jdbc.JDBCOptions(database.access.url, table, given),
        *metrics,
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)
