"""Reduce the steps of a format's changelog to the net of them."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.spark_jobs.formats.commits import CHANGE_ORDINAL, ChangeFilter
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted


def net_of_changelog(steps: DataFrame, wanted: ChangeFilter) -> DataFrame:
    """Return the net changes of steps, as :meth:`FormatTable.changes` has them.

    :param steps: of :meth:`FormatTable.changelog`.
    :raises InvalidSpecError: no keys are given, or a predicate is, which steps alone do not answer.
    """
    if not wanted.keys or wanted.where is not None:
        raise InvalidSpecError(
            "the changes are read of the format's changelog; give the keys, and filter the result in place of where"
        )
    key = Window.partitionBy(*map(quoted, wanted.keys))
    in_order, kind = key.orderBy(CHANGE_ORDINAL), sf.col(CHANGE_TYPE)
    numbered = steps.withColumns(
        {
            "_first_type": sf.first(CHANGE_TYPE).over(in_order),
            "_last_ordinal": sf.max(CHANGE_ORDINAL).over(key),
        }
    )
    last = numbered.filter(sf.col(CHANGE_ORDINAL) == sf.col("_last_ordinal"))
    is_delete = kind == "delete"
    # A row born and deleted between the two is no change.
    gone = is_delete & ((sf.col("_first_type") == "insert") | sf.lit(not wanted.deletes))
    names = [name for name in steps.columns if name not in (CHANGE_TYPE, CHANGE_ORDINAL)]
    if wanted.columns is not None:
        names = list(dict.fromkeys((*wanted.keys, *wanted.columns)))
    typed = sf.when(is_delete, "delete").otherwise("upsert").alias(CHANGE_TYPE)
    return last.filter(~gone).select(*map(quoted, names), typed)
