"""Rows of one key that have the same order: whether it matters which of them came first."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.merge_engines import FirstRow, MergeEngine
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import AMBIGUOUS, content_of
from airflow_lake_provider.spark_jobs.sql.columns import quoted

_RANK = "_lake_rank"
_DIFFERS = "_lake_differs"
_DELETE_RANK = "_lake_delete_rank"


def with_ambiguous_order(
    rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], merge_engine: MergeEngine, excluded: Sequence[str]
) -> DataFrame:
    """Tell in ``_lake_ambiguous`` of all rows of a key whether their order leaves open what they become together.

    That is so where a delete has the order of a row that counts unless it came before the delete, and where rows that
    count have one order and differ in a column that is not the same in any order. Rows before a delete do not count,
    nor do any but the first for an engine that keeps the first. A tie that a later row makes good is refused too.

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
