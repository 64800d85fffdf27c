"""A batch of Debezium change events, read and reduced to the last change per key, with all values known."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StructField, StructType

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.contracts.source_position import InputFile
from airflow_lake_provider.spark_jobs.change_batch import ARRIVAL, DELETED, RESET, ChangeBatch, released_on_failure
from airflow_lake_provider.spark_jobs.sources.debezium_columns import (
    EventColumns,
    find_columns,
    spelled_keys,
    types_hash,
)
from airflow_lake_provider.spark_jobs.sources.debezium_lines import read_events
from airflow_lake_provider.spark_jobs.sources.debezium_rows import RowBuilder
from airflow_lake_provider.spark_jobs.sources.debezium_survey import refuse_bad_events, survey
from airflow_lake_provider.spark_jobs.sources.table_values import with_table_values
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types
from airflow_lake_provider.spark_jobs.sources.unavailable_values import EVENT_ORDER, last_known_values


def read_debezium_changes(
    spark: SparkSession,
    source: Source,
    files: tuple[InputFile, ...],
    keys: Sequence[str],
    table_schema: StructType | None,
    table_rows: DataFrame | None,
    exclude_columns: Sequence[str] = (),
    *,
    ignore_deletes: bool = False,
    tells_resets: bool = False,
) -> ChangeBatch:
    """Read the change events of one source table and keep the last change of each key.

    The greatest ``source.sequence`` is last, then the latest arrival. The text is read once, and once more when a
    column's type is neither declared, nor the table's, nor in the events' schema. Columns of the table that no event
    has are not in the result; a column that only some final rows lack is NULL in them and counted in ``absent``.

    :param source: with envelope and ``envelope_table``.
    :param files: files of lines, see ``list_input_files``.
    :param keys: key columns: the source table's primary key.
    :param table_schema: of the target; None when it does not exist yet.
    :param table_rows: the target's rows before this batch, read only for keys whose values the batch does not hold.
    :param exclude_columns: columns of the events that are not stored; they are not even converted.
    :param ignore_deletes: a delete changes nothing; the last other event of its key stands.
    :param tells_resets: whether ``changes`` has ``_lake_reset``, for a table whose other columns keep their values.
    :raises BadInputError: lines that are no events, events without order, values that do not convert, NULL keys,
        unavailable values that nothing fills.
    :raises UnsupportedError: truncations, types that events cannot have.
    """
    with released_on_failure() as cached:
        raw = read_events(spark, source, files, keys).persist()
        cached.append(raw)
        found = survey(raw).without(exclude_columns)
        refuse_bad_events(spark, found, source, files)
        if not found.events:
            raw.unpersist()
            return _empty(spark, source, table_schema)
        columns = find_columns(spark, source, files, found, table_schema)
        rows = RowBuilder(columns=columns, keys=spelled_keys(keys, found.columns), hole_columns=found.hole_columns)
        # Checkpoints, not caches: a cache keeps the whole plan, and planning it over and over is most of a small batch.
        events = _typed_events(raw, columns, keys).localCheckpoint()
        raw.unpersist()
        # Lazy: the job that counts and checks also fills it.
        last = events.filter("op != 'd'") if ignore_deletes else events
        filled = _last_events_filled(last, rows, table_rows, tells_resets)
        checked = rows.checked_rows(filled).localCheckpoint(eager=False)
        return rows.batch_of(checked, found.events)


def _last_events_filled(
    events: DataFrame, rows: RowBuilder, table_rows: DataFrame | None, tells_resets: bool
) -> DataFrame:
    if tells_resets:
        events = events.withColumn(RESET, sf.max(sf.col("op") == "d").over(Window.partitionBy("key")))
    newest = Window.partitionBy("key").orderBy(*(sf.col(name).desc() for name in EVENT_ORDER))
    last = events.withColumn("number", sf.row_number().over(newest)).filter("number = 1").drop("number")
    if not rows.hole_columns:
        return last
    known = last_known_values(events, rows.hole_columns)
    named = {f"t{i}": name for i, name in enumerate(rows.hole_columns)}
    return last.join(with_table_values(known, table_rows, rows.keys, named, rows.types), "key", "left")


def _empty(spark: SparkSession, source: Source, table_schema: StructType | None) -> ChangeBatch:
    fields = [StructField(name, kind) for name, kind in declared_types(source.schema, table_schema).items()]
    changes = spark.createDataFrame([], StructType([*fields, StructField(DELETED, BooleanType())]))
    return ChangeBatch(changes=changes, rows=0, keys=0, upserts=0, deletes=0)


def _typed_events(raw: DataFrame, columns: EventColumns, keys: Sequence[str]) -> DataFrame:
    hashed = raw.withColumn("types", types_hash())
    return hashed.select(
        ARRIVAL,
        "op",
        "first",
        "second",
        "after",
        "holes",
        "types",
        columns.key(keys, "key").alias("key"),
        sf.when(sf.col("old_key").isNotNull(), columns.key(keys, "old_key")).alias("old_key"),
    )
