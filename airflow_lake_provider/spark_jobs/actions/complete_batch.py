"""Make the batch of a source that is the whole table into changes: what differs from the table, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.argument_validation import share_of
from airflow_lake_provider.contracts.author.merge_engines import Deletes, History
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.history_batch import stored_with_history
from airflow_lake_provider.spark_jobs.actions.load_batch import NewInput
from airflow_lake_provider.spark_jobs.actions.target_schema import fit_target
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, released_on_failure
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import (
    COUNTERS,
    count_changes,
    latest_change_per_key,
    refuse_unordered,
    resolve_columns,
)
from airflow_lake_provider.spark_jobs.batch.key_versions import current_versions, unversioned
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_keys, refuse_null_keys_of_table
from airflow_lake_provider.spark_jobs.batch.table_differences import DifferenceCounts, Differences, WholeRows
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unordered_columns
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_ROWS_OF_FILE = 100_000


@dataclass(frozen=True, kw_only=True)
class ComparedBatch:
    """Changes that make the table what the source holds.

    :param batch: the changes.
    :param schema_changes: of the table, made before it was compared.
    :param counts: over the whole batch and the table.
    :param way: who has compared them: Arrow, or Spark and why.
    """

    batch: ChangeBatch
    schema_changes: tuple[str, ...]
    counts: DifferenceCounts
    way: str

    @property
    def unchanged(self) -> int:
        """Number of rows of the batch that the table has, those included of which another row of the key differs."""
        return self.counts.unchanged + self.counts.upserts - self.batch.upserts


def compared_with_table(new: NewInput[UpsertSpec, UpsertReport], table_rows: int) -> ComparedBatch:
    """Read all of the source, let the table's columns fit, and compare.

    :param table_rows: about how many rows the table has.
    :raises BadInputError: the batch cannot be applied as it is, or more rows would be deleted than the spec allows.
    :raises UnsupportedError: its values cannot be compared with the table's.
    :raises JobFailedError: the source had other keys when it was read again.
    """
    spec, source, target = new.spec, new.source, new.target
    if not isinstance(source, PlainSource):
        raise UnsupportedError(f"{spec.table}: complete=True takes a source of plain rows, got {spec.source.kind!r}")
    engine, types = spec.merge_engine, target.schema()
    types = None if types is None else unversioned(types, engine)
    with released_on_failure() as cached, source.reading(new.listed):
        raw = _raw(source, new.listed, types, cached)
        keys = resolve_columns(raw.rows, spec.keys, "keys")
        # The columns of an empty source are the table's, which need not have those.
        order_by = resolve_columns(raw.rows, spec.order_by, "order_by") if new.listed.identities else []
        refuse_unordered_columns(raw.rows.schema, keys, order_by)
        raw = _as_stored(raw, target, keys)
        stored = _stored_columns(spec, raw.rows)
        rows = stored_with_history(new, _with_flag(spec, raw.rows.select(*map(quoted, stored))))
        schema_changes = fit_target(spec, target, rows, source.missing_columns, engine.identity_in_table(spec.keys))
        head_rows = target.current_rows(new.applied_state.base)
        assert head_rows is not None, "a table without snapshots is not compared"
        whole = WholeRows(
            table=current_versions(head_rows, engine),
            batch=raw.rows if raw.in_any_order is None or cached else raw.in_any_order,
            schema=unversioned(target.schema() or StructType(), engine),
            keys=keys,
            stored=stored,
            keeps_missing=source.missing_columns is MissingColumns.KEEP,
            deleted_column=engine.deleted_column if engine.deletes is Deletes.SOFT else None,
        )
        whole, reason = _read_by_arrow(new, whole, raw)
        differences = whole.differences(table_rows, cached)
        reason = reason or differences.left_to_spark
        counts = differences.counts
        raw.refuse_unparsable(counts.unparsable)
        refuse_null_keys(counts.null_keys, counts.rows, counts.null_by_key)
        _refuse_deleting(spec, counts, schema_changes)
        rows = _last_rows(spec, raw, whole, differences, order_by, cached)
        upserts = rows.count()
        gone = whole.deleted_keys(differences).withColumn(DELETED, sf.lit(True))
    # A data file of each partition would be too many.
    changes = rows.coalesce(1 + upserts // _ROWS_OF_FILE).unionByName(gone, allowMissingColumns=True)
    batch = _batch_of(changes, upserts, counts, cached)
    by_arrow = f"Arrow, in ranges of {differences.key_of_ranges}" if differences.key_of_ranges else "Arrow"
    way = by_arrow if reason is None else f"Spark ({reason})"
    return ComparedBatch(batch=batch, schema_changes=schema_changes, counts=counts, way=way)


def _read_by_arrow(
    new: NewInput[UpsertSpec, UpsertReport], whole: WholeRows, raw: RawBatch
) -> tuple[WholeRows, str | None]:
    """Let Python workers read both sides where that surely gives the same rows; else return why not."""
    source, engine = new.source, new.spec.merge_engine
    files = source.parquet_files(new.listed) if isinstance(source, PlainSource) else ()
    if not files or raw.may_be_unparsable or raw.reads_more:
        return whole, "the source is not Parquet files as they are"
    if isinstance(engine, History):
        return whole, "the table has versions of rows"
    try:
        rows = new.target.compared_rows(new.applied_state.base or "", whole.of_files(files))
    except UnsupportedError as error:
        return whole, str(error)
    return replace(whole, by_arrow=rows), None


def _batch_of(changes: DataFrame, upserts: int, counts: DifferenceCounts, cached: Sequence[DataFrame]) -> ChangeBatch:
    return ChangeBatch(
        changes=changes,
        rows=counts.rows,
        keys=upserts + counts.deletes,
        upserts=upserts,
        deletes=counts.deletes,
        # Any commit in between may have a key that the batch lacks.
        reads_table=True,
        cached=tuple(cached),
    )


def _as_stored(raw: RawBatch, target: FormatTable, keys: Sequence[str]) -> RawBatch:
    in_any_order = None if raw.in_any_order is None else target.as_stored(raw.in_any_order, keys)
    return replace(raw, rows=target.as_stored(raw.rows, keys), in_any_order=in_any_order)


def _stored_columns(spec: UpsertSpec, rows: DataFrame) -> list[str]:
    excluded = {name.lower() for name in spec.exclude_columns}
    return [name for name in rows.columns if not name.startswith("_lake_") and name.lower() not in excluded]


def _raw(source: PlainSource, listing: Any, types: StructType | None, cached: list[DataFrame]) -> RawBatch:
    """Return the rows, which are looked at twice: kept where a second look may see others, or costs more."""
    if not listing.identities:
        engine = source.upsert.merge_engine
        flag = engine.deleted_column.lower() if engine.deletes is Deletes.SOFT else None
        columns = [each for each in types or () if each.name.lower() != flag]
        return RawBatch(rows=source.spark.createDataFrame([], StructType(columns)))
    raw = source.raw(listing, types)
    if raw.may_be_unparsable:
        cached.append(raw.rows)
    elif not source.reads_alike:
        cached.append(raw.rows.persist())
    return raw


def _with_flag(spec: UpsertSpec, rows: DataFrame) -> DataFrame:
    if spec.merge_engine.deletes is not Deletes.SOFT:
        return rows
    batch = ChangeBatch(changes=rows.withColumn(DELETED, sf.lit(False)), rows=0, keys=0, upserts=0, deletes=0)
    return batch.with_deleted_column(spec.merge_engine.deleted_column).changes


def _refuse_deleting(spec: UpsertSpec, counts: DifferenceCounts, schema_changes: Sequence[str]) -> None:
    """Refuse what is likely to be no whole, and a table of which not every row has a key.

    :param schema_changes: of the table, which stay.
    :raises BadInputError: with the counts.
    """
    refuse_null_keys_of_table(spec.table, counts.null_in_table, spec.keys)
    if counts.deleted > share_of(counts.live, spec.max_deleted_share):
        changed = f"No row was changed, and the schema was: {', '.join(schema_changes)}"
        raise BadInputError(
            f"{spec.table}: the batch has {counts.rows:,} rows and lacks the keys of {counts.deleted:,} of the table's "
            f"{counts.live:,} live rows, a share of {counts.deleted / counts.live:.1%}, and "
            f"max_deleted_share={spec.max_deleted_share:g} was asked for. "
            f"{changed if schema_changes else 'Nothing was changed'}. Look whether the source is whole; where it is, "
            "give a greater max_deleted_share for this run, up to 1"
        )


def _last_rows(
    spec: UpsertSpec,
    raw: RawBatch,
    whole: WholeRows,
    differences: Differences,
    order_by: list[str],
    cached: list[DataFrame],
) -> DataFrame:
    """Return the last row of each key that is new or differs, cached; where each key has one row, none is moved.

    :raises JobFailedError: the source had other keys when it was read again.
    """
    keys = list(whole.keys)
    stored = [*map(quoted, whole.stored), sf.lit(False).alias(DELETED)]
    in_any_order = raw.rows if raw.in_any_order is None else raw.in_any_order

    def counted(read: DataFrame) -> tuple[DataFrame, int, int]:
        cached.append(rows := read.select(*stored).persist())
        count, count_of_keys = rows.agg(sf.count(sf.lit(1)), sf.count_distinct(*map(quoted, keys))).collect()[0]
        return rows, count, count_of_keys

    try:
        rows, count, count_of_keys = counted(whole.stored_upserts(in_any_order, differences))
    except PythonException:
        # Spark says of a file that has changed meanwhile what is wrong with it.
        rows, count, count_of_keys = counted(whole.of_upserts(in_any_order, differences))
    if count_of_keys != differences.counts.upserts:
        raise JobFailedError(
            f"{spec.table}: the source was read twice, and had {count_of_keys} of {differences.counts.upserts} changed "
            "keys the second time: it changed meanwhile. A retry reads it anew"
        )
    if count == count_of_keys:
        return rows
    latest = latest_change_per_key(whole.of_upserts(raw.rows, differences), keys, order_by, raw.has_arrival)
    cached.append(latest := latest.select(*stored, *COUNTERS).persist())
    refuse_unordered(count_changes(latest, keys), keys, order_by)
    cached.append(rows := whole.unlike_table(latest.drop(*COUNTERS), differences).persist())
    return rows
