"""Reducing rows to the last change of each key, and refusing what has no last change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from airflow_lake_provider.contracts.author.merge_engines import FirstRow, MergeEngine
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, DELETED, UNPARSABLE
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges, ranges_column, read_ranges
from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

# What the reduction adds to each last row, for the one job that checks and counts.
_WITHOUT_HEADER = re.compile(r"_c[0-9]+")
_ROWS = "_lake_rows"
_BAD_ROWS = "_lake_bad_rows"
AMBIGUOUS = "_lake_ambiguous"
_RANK = "_lake_rank"
_CONTENT = "_lake_content"
NUMBER = "_lake_number"
COUNTERS = (_ROWS, _BAD_ROWS, AMBIGUOUS)


@dataclass(frozen=True, kw_only=True)
class ChangeCounts:
    """Counts that one pass over reduced rows found.

    :param null_keys: rows with NULL in a key column, and in ``null_by_key`` how many in which.
    :param ambiguous: keys of which nothing tells the last row.
    :param unparsable: records that could not be read.
    :param key_ranges: NULL is in none.
    """

    rows: int
    keys: int
    deletes: int
    null_keys: int
    ambiguous: int
    unparsable: int
    null_by_key: dict[str, int] = field(default_factory=dict)
    key_ranges: KeyRanges | None = None


def resolve_columns(rows: DataFrame, names: Sequence[str], role: str) -> list[str]:
    """Return the columns as the batch spells them; Spark compares names without case.

    :param role: ``keys`` or ``order_by``, for the message.
    :raises BadInputError: the batch lacks one, or has it twice; no Spark job has run.
    """
    existing = [name for name in rows.columns if not name.startswith("_lake_")]
    spelled = {name.lower(): name for name in existing}
    missing = [name for name in names if name.lower() not in spelled]
    if missing:
        raise BadInputError(
            f"{role} {list(names)} name columns that the batch lacks: {missing}; it has {existing}"
            f"{remedy_for_headers(existing)}"
        )
    return [spelled[name.lower()] for name in names]


def remedy_for_headers(columns: Sequence[str]) -> str:
    """Return what to do, as the end of a message, where the columns are those of CSV that was read without a header."""
    of_files = [name for name in columns if not name.startswith("_lake_")]
    if not of_files or any(not _WITHOUT_HEADER.fullmatch(name) for name in of_files):
        return ""
    return (
        ". These are the names of CSV without a header: where the first line of a file has the names, say "
        "Files(..., options={'header': True}); where it has none, name the columns by schema='id BIGINT, ...'"
    )


def is_unparsable(rows: DataFrame) -> Column:
    """Tell whether a row is a record that could not be read as its schema says."""
    return sf.col(UNPARSABLE).isNotNull() if UNPARSABLE in rows.columns else sf.lit(False)


def latest_change_per_key(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], arrival: bool) -> DataFrame:
    """Keep the last row of each key, with its number; see :func:`numbered_changes`."""
    return numbered_changes(rows, keys, order_by, arrival).filter(sf.col(NUMBER) == 1)


def numbered_changes(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], arrival: bool) -> DataFrame:
    """Number the rows of each key from the last, which is 1: greatest in ``order_by``, then latest in arrival.

    NULL in an ``order_by`` column is older than any value. Rows with NULL keys count as one key, for the check that
    refuses them. The result carries counters, see :func:`count_changes`, to be dropped with :data:`COUNTERS`.

    :param rows: with ``_lake_arrival`` when ``arrival``.
    :param arrival: whether the rows have a place in files; without one, equal rows are one, different ones ambiguous.
    """
    key = Window.partitionBy(*(quoted(name) for name in keys))
    order = [quoted(name).desc_nulls_last() for name in order_by]
    added = {}
    if arrival:
        counted, added = rows, {AMBIGUOUS: sf.lit(False)}
        newest = key.orderBy(*order, sf.col(ARRIVAL).desc())
    else:
        rank = sf.rank().over(key.orderBy(*order)) if order else sf.lit(1)
        shown = [field for field in rows.schema.fields if not field.name.startswith("_lake_")]
        counted = rows.withColumns({_RANK: rank, _CONTENT: content_of(shown)})
        top = sf.when(sf.col(_RANK) == 1, sf.col(_CONTENT))
        counted = counted.withColumn(AMBIGUOUS, sf.min(top).over(key) != sf.max(top).over(key))
        newest = key.orderBy(*order, sf.col(_CONTENT).asc())
    # All in the same order, though a count needs none: Spark then sorts once.
    whole = newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    numbered = counted.withColumns(
        {
            **added,
            _ROWS: sf.count(sf.lit(1)).over(whole),
            _BAD_ROWS: sf.count_if(is_unparsable(rows)).over(whole),
            NUMBER: sf.row_number().over(newest),
        }
    )
    return numbered if arrival else numbered.drop(_RANK, _CONTENT)


def count_changes(latest: DataFrame, keys: Sequence[str]) -> ChangeCounts:
    """Count and check in one job; where ``latest`` is cached, this job fills the cache.

    :param latest: of :func:`latest_change_per_key`, with ``_lake_deleted``.
    """
    null_key = sf.lit(False)
    for name in keys:
        null_key = null_key | quoted(name).isNull()
    types = {field.name: field.dataType for field in latest.schema}
    counted = latest.agg(
        sf.coalesce(sf.sum(_ROWS), sf.lit(0)).alias("rows"),
        sf.count(sf.lit(1)).alias("keys"),
        sf.count_if(sf.col(DELETED)).alias("deletes"),
        _rows_where(null_key).alias("null_keys"),
        sf.count_if(sf.col(AMBIGUOUS) & ~null_key).alias("ambiguous"),
        sf.coalesce(sf.sum(_BAD_ROWS), sf.lit(0)).alias("unparsable"),
        ranges_column([(quoted(name), types[name]) for name in keys]).alias("key_ranges"),
        sf.array(*(_rows_where(quoted(name).isNull()) for name in keys)).alias("null_by_key"),
    )
    with without_adaptive_execution(latest.sparkSession):
        row = counted.collect()[0]
    null_by_key = {name: count for name, count in zip(keys, row["null_by_key"], strict=True) if count}
    ranges = read_ranges(keys, row["key_ranges"])
    return ChangeCounts(**{**row.asDict(), "key_ranges": ranges, "null_by_key": null_by_key})


def _rows_where(condition: Column) -> Column:
    return sf.coalesce(sf.sum(sf.when(condition, sf.col(_ROWS))), sf.lit(0))


def refuse_unordered(counts: ChangeCounts, keys: Sequence[str], order_by: Sequence[str]) -> None:
    """Refuse keys whose last change cannot be told.

    :raises BadInputError: naming the columns and how many.
    """
    if counts.ambiguous and order_by:
        raise BadInputError(
            f"{counts.ambiguous} keys of {list(keys)} have different rows with the same {list(order_by)}, and which "
            "of them is the last decides; add a column to order_by that tells them apart"
        )
    if counts.ambiguous:
        raise BadInputError(
            f"{counts.ambiguous} keys of {list(keys)} occur more than once with different content, and a table or "
            "query has no order of its own; give order_by"
        )


def content_of(fields: Sequence[StructField]) -> Column:
    """Return a hash of the columns, the same for rows that have the same values in them."""
    return content_digest([(quoted_name(field.name), field.dataType) for field in fields])


_DIFFERS = "_lake_differs"
_DELETE_RANK = "_lake_delete_rank"


def with_ambiguous_order(
    rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], merge_engine: MergeEngine, excluded: Sequence[str]
) -> DataFrame:
    """Tell in ``_lake_ambiguous`` of all rows of a key whether their order leaves open what they become together.

    That is so in two cases. A delete has the order of a row that counts, and that row did not come before it. Or rows
    that count have one order, and differ in a column whose value depends on their order. Rows before a delete do not
    count, nor do any but the first for an engine that keeps the first. A tie that a later row makes good is refused
    too.

    :param rows: with ``_lake_deleted``; of a table or a query, which have no order of their own.
    :param merge_engine: of an engine that combines rows.
    :param excluded: columns that are not stored.
    """
    key = Window.partitionBy(*(quoted(name) for name in keys))
    ordered = key.orderBy(*(quoted(name).desc_nulls_last() for name in order_by)) if order_by else key
    peers = ordered.rangeBetween(Window.currentRow, Window.currentRow) if order_by else key
    unstored = {name.lower() for name in (*keys, *order_by, *excluded)}
    values = [f for f in rows.schema if not f.name.startswith("_lake_") and f.name.lower() not in unstored]
    content = sf.when(~sf.col(DELETED), content_of([f for f in values if merge_engine.depends_on_order(f.name)]))
    ranked = rows.withColumns(
        {
            _RANK: sf.rank().over(ordered) if order_by else sf.lit(1),
            _DIFFERS: sf.coalesce(sf.min(content).over(peers) != sf.max(content).over(peers), sf.lit(False)),
        }
    )
    ranked = ranked.withColumn(_DELETE_RANK, sf.min(sf.when(sf.col(DELETED), sf.col(_RANK))).over(key))
    counts = ~sf.col(DELETED) & (sf.col(_RANK) <= sf.coalesce(_DELETE_RANK, _RANK))
    if isinstance(merge_engine, FirstRow):
        counts = counts & (sf.col(_RANK) == sf.max(sf.when(counts, sf.col(_RANK))).over(key))
    is_open = counts & (sf.col(_DIFFERS) | sf.col(_RANK).eqNullSafe(sf.col(_DELETE_RANK)))
    return ranked.withColumn(AMBIGUOUS, sf.max(is_open).over(key)).drop(_RANK, _DIFFERS, _DELETE_RANK)
