"""Turn the changes of a source table into the changes of a target table, by the author's function or SQL."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_transform_keys
from airflow_lake_provider.spark_jobs.session.author_function import errors_of, frame_of, load_function
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns, refuse_unordered_columns
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.query import named_views


def apply_transform(
    spark: SparkSession, spec: IncrementalSpec, changes: DataFrame, source_at_to: DataFrame
) -> DataFrame:
    """Return the rows to upsert into the target and the keys to delete from it, at most one row per key.

    The result is the transform's, with ``_change_type`` (``upsert`` or ``delete``; absent means upserts) replaced by a
    boolean ``_lake_deleted``. It is persisted, since checking its keys runs it once: the caller unpersists it.

    :param spec: names the transform and the target's keys.
    :param changes: what ``read_changes`` returns, cached by the caller; the view ``changes`` of a query.
    :param source_at_to: the whole source at the end of the range; the view ``source`` of a query. Reading it costs
        what its files cost, so a transform that does not use it is cheaper.
    :raises BadInputError: keys that are NULL or missing, occur twice or cannot be compared, or an unknown
        ``_change_type``.
    :raises InvalidSpecError: no such module or function, or one that takes neither ``(changes)`` nor
        ``(changes, source)`` or returns no DataFrame.
    """
    result = _run_query(spark, spec.query, changes, source_at_to) if spec.query else None
    if result is None:
        result = _run_function(spark, spec, changes, source_at_to)
    return _checked(_normalised(result, spec), spec)


def _run_query(spark: SparkSession, query: str | None, changes: DataFrame, source: DataFrame) -> DataFrame:
    with named_views(spark, {"changes": changes, "source": source}):
        result = spark.sql(query or "")
    # Spark takes the rows of a view out of its cache when the view is dropped.
    changes.persist()
    return result


def _run_function(spark: SparkSession, spec: IncrementalSpec, changes: DataFrame, source: DataFrame) -> DataFrame:
    name = str(spec.transform)
    transform = load_function(spark, name, spec.transform_code)
    arguments = (changes, source)[: _argument_count(transform, spec)]
    with errors_of(spark, name):
        result = transform(*arguments)
    return frame_of(spark, name, result)


def _argument_count(transform: Callable[..., object], spec: IncrementalSpec) -> int:
    signature = inspect.signature(transform)
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise InvalidSpecError(f"transform {spec.transform}{signature} must take (changes) or (changes, source)")


def _normalised(result: DataFrame, spec: IncrementalSpec) -> DataFrame:
    refuse_unfit_columns(result.columns, f"the result for {spec.table}")
    # Spark finds a column in any case, and gives it the name that it is asked for by.
    result = result.withColumnsRenamed({name: name for name in (*spec.keys, CHANGE_TYPE)})
    missing = [key for key in spec.keys if key not in result.columns]
    if missing:
        raise BadInputError(
            f"{spec.table}: the transform lacks key columns {missing} of the target; it returns {result.columns}"
        )
    refuse_unordered_columns(result.schema, spec.keys)
    if CHANGE_TYPE not in result.columns:
        return result.withColumn(DELETED, F.lit(False))
    kind = F.col(CHANGE_TYPE)
    # NULL marks what is neither; the check below counts it.
    deleted = F.when(kind == "delete", F.lit(True)).when(kind == "upsert", F.lit(False))
    return result.withColumn(DELETED, deleted).drop(CHANGE_TYPE)


def _checked(rows: DataFrame, spec: IncrementalSpec) -> DataFrame:
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        _refuse_bad_keys(rows, spec)
    except BaseException:
        rows.unpersist()
        raise
    return rows


def _refuse_bad_keys(rows: DataFrame, spec: IncrementalSpec) -> None:
    keys = [quoted(key) for key in spec.keys]
    is_null = F.lit(False)
    for key in keys:
        is_null = is_null | key.isNull()
    # Once per key, not per row: one aggregation answers all three questions.
    by_key = rows.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("_lake_rows"), F.count_if(F.col(DELETED).isNull()).alias("_lake_unknown")
    )
    row = by_key.agg(
        F.sum(F.when(is_null, F.col("_lake_rows"))).alias("nulls"),
        F.count_if(F.col("_lake_rows") > 1).alias("twice"),
        F.sum("_lake_unknown").alias("unknown"),
    ).collect()[0]
    names = ", ".join(spec.keys)
    if row["unknown"]:
        raise BadInputError(
            f"{spec.table}: {row['unknown']} rows of the transform have a {CHANGE_TYPE} that is neither 'upsert' nor "
            "'delete'"
        )
    refuse_null_transform_keys(spec.table, row["nulls"] or 0, spec.keys)
    if row["twice"]:
        raise BadInputError(
            f"{spec.table}: {row['twice']} keys ({names}) occur more than once in what the transform returns; it "
            "must return one row per key of the target"
        )
