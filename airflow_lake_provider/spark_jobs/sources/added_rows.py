"""The rows of a batch as they are, for one pass over the input: what is wrong with them ends the job that writes them.

Only then another job counts and names it. Nothing is cached or counted before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, UNPARSABLE, release_frames
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import NUMBER, content_of, resolve_columns
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_values
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_causes
from airflow_lake_provider.spark_jobs.jvm.observed_count import observed_count
from airflow_lake_provider.spark_jobs.sources.base import RowBatch
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unordered_columns
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch, UndecidedTextError
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name

# Stands in the error of a task that has met a row which cannot be added.
_REFUSED_ROW = "lake_refused_row"


def added_rows(
    spec: LoadSpec,
    raw: RawBatch,
    naming_input: Callable[[], AbstractContextManager[None]],
    deduplicate_by: Sequence[str],
    *,
    takes_replacements: bool,
) -> RowBatch:
    """Return the rows of a batch lazily, with the first row by arrival of each value of some columns.

    Rows without a place in files are ordered by a hash of their content.

    :param naming_input: to be entered while the rows are read; it names the input in an error over it.
    :param takes_replacements: do not look for bytes that are no text: it was found that there are none.
    :raises BadInputError: missing columns, columns that cannot be compared.
    """
    # Read once: to cache the records would cost more than to parse them.
    release_frames(raw.rows)
    keys = resolve_columns(raw.rows, deduplicate_by, "deduplicate_by")
    refuse_unordered_columns(raw.rows.schema, keys)
    names = [name for name in raw.rows.columns if not name.startswith("_lake_")]
    excluded = {name.lower() for name in spec.exclude_columns}
    stored = [name for name in names if name.lower() not in excluded]
    rows = raw.rows if keys or raw.in_any_order is None else raw.in_any_order
    faults = [*_faults(raw, takes_replacements=takes_replacements), *(quoted(key).isNull() for key in keys)]
    rows, read, kept = _refusing(rows, stored, names, faults), None, None
    if keys:
        # Counted in the same job, row by row; without a column to compare, the rows written are the rows read.
        rows, read = observed_count(rows)
        rows, kept = observed_count(_first_of_each(rows, keys))

    @contextmanager
    def reading() -> Iterator[None]:
        with naming_input():
            try:
                yield
            except SPARK_ERRORS as error:
                if not _is_refusal(error):
                    raise
                _name_refused(raw, keys)
                raise UndecidedTextError from error

    return RowBatch(
        rows=rows.select(*map(quoted, stored)),
        reading=reading,
        reads_table=raw.reads_more or spec.table.lower() in (t.table.lower() for t in spec.source.lake_tables.values()),
        rows_read=read,
        rows_kept=kept,
    )


def _faults(raw: RawBatch, *, takes_replacements: bool) -> list[Column]:
    faults = [sf.col(UNPARSABLE).isNotNull()] if raw.may_be_unparsable else []
    replaced = None if takes_replacements else raw.has_replaced_text()
    return faults if replaced is None else [*faults, replaced]


def _refusing(rows: DataFrame, stored: Sequence[str], names: Sequence[str], faults: Sequence[Column]) -> DataFrame:
    """Let a task end at a row with a fault, where it makes the first stored column.

    Every column is named, as a record is found bad only by those that Spark parses.
    """
    if not faults or not stored:
        return rows
    is_refused = sf.coalesce(faults[0], sf.lit(False))
    for fault in faults[1:]:
        is_refused = is_refused | sf.coalesce(fault, sf.lit(False))
    every = sf.expr(f"concat_ws('', {', '.join(f'CAST({quoted_name(name)} IS NULL AS STRING)' for name in names)})")
    first = stored[0]
    kind = rows.select(quoted(first)).schema[0].dataType
    refused = sf.raise_error(sf.concat(sf.lit(_REFUSED_ROW), every)).cast(kind)
    return rows.withColumn(first, sf.when(is_refused, refused).otherwise(quoted(first)))


def _first_of_each(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    values = [field for field in rows.schema if not field.name.startswith("_lake_")]
    order = sf.col(ARRIVAL) if ARRIVAL in rows.columns else content_of(values)
    window = Window.partitionBy(*map(quoted, keys)).orderBy(order)
    return rows.withColumn(NUMBER, sf.row_number().over(window)).filter(sf.col(NUMBER) == 1)


def _is_refusal(error: Exception) -> bool:
    return _REFUSED_ROW in str(error) or any(_REFUSED_ROW in message for _, message in java_causes(error))


def _name_refused(raw: RawBatch, keys: Sequence[str]) -> None:
    """Count and name what a task met, in jobs of their own.

    :raises BadInputError: with the file and the first record, or the columns.
    """
    rows = raw.rows.persist()
    try:
        if raw.may_be_unparsable:
            raw.refuse_unparsable(rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
        if keys:
            nulls = (sf.count_if(quoted(key).isNull()).alias(str(place)) for place, key in enumerate(keys))
            total, *counts = rows.agg(sf.count(sf.lit(1)), *nulls).collect()[0]
            refuse_null_values(total, {key: count for key, count in zip(keys, counts, strict=True) if count})
    finally:
        release_frames(rows)
