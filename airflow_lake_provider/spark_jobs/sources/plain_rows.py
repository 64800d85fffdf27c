"""A batch of plain rows, read by their headers and reduced to the last change per key."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.aggregated_changes import (
    aggregate_changes,
    before_aggregation,
    summed_as_stored,
)
from airflow_lake_provider.spark_jobs.batch.change_batch import (
    ARRIVAL,
    DELETED,
    RESET,
    RESET_ORDER,
    UNPARSABLE,
    DeadLetters,
    release_frames,
    released_on_failure,
)
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import (
    COUNTERS,
    NUMBER,
    ChangeCounts,
    count_changes,
    is_unparsable,
    latest_change_per_key,
    numbered_changes,
    refuse_unordered,
    resolve_columns,
    with_ambiguous_order,
)
from airflow_lake_provider.spark_jobs.batch.key_versions import unversioned
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_keys, refuse_null_times
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_causes
from airflow_lake_provider.spark_jobs.session.pinned_settings import without_adaptive_execution
from airflow_lake_provider.spark_jobs.sources.added_rows import added_rows
from airflow_lake_provider.spark_jobs.sources.arrival_order import literal_paths
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, ChangeBatch, Listing, RowBatch, Wanted
from airflow_lake_provider.spark_jobs.sources.batch_columns import (
    refuse_unmergeable_columns,
    refuse_unordered_columns,
)
from airflow_lake_provider.spark_jobs.sources.contracted_columns import contracted_columns, in_types_of_table
from airflow_lake_provider.spark_jobs.sources.dead_letters import without_dead_letters
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.unreadable_files import reason_of
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.parsed_tree import has_subquery, parse_expression

# What a row that does not delete has in the column: of changes, and of topics.
_OF_ROWS = ("upsert", "insert")
_OTHER_TYPE = "lake_other_change_type"
_SAID_TYPE = re.compile(f"{_OTHER_TYPE}<([^>]{{0,80}})")
# Bytes of files. One task reads and sorts these quicker than several with a shuffle between them; in memory they may be
# ten times as many.
_ONE_TASK = 8 * 1024 * 1024


class PlainSource(BatchSource):
    """A source of rows that are nothing but rows: it reads them, and here they are reduced."""

    # Whether a listing has the same rows each time it is read, at about the cost of keeping them.
    reads_alike: ClassVar[bool] = False

    @abstractmethod
    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Read the rows of a listing lazily.

        :param types: columns whose types are known, for inputs that do not tell theirs; None without any.
        """

    def raw_once(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Read the rows lazily for one pass over them, of which nothing need be kept."""
        return self.raw(listing, types)

    def parquet_files(self, listing: Listing) -> tuple[InputFile, ...]:  # noqa: ARG002  # others ask it
        """Return Parquet files that hold the rows of a listing as they are; none where rows are read in another way."""
        return ()

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return the columns of a listing, and no row.

        :raises BadInputError: nothing tells the columns.
        """
        return RawBatch(rows=self.raw(listing, None).rows.drop(ARRIVAL, UNPARSABLE).limit(0))

    @property
    def keeps_absent(self) -> bool:
        """True where what the batch lacks keeps its value in the table."""
        return self.missing_columns is MissingColumns.KEEP

    def refusing_unreadable(self, listing: Listing) -> AbstractContextManager[None]:  # noqa: ARG002  # others ask it
        """Name the input in an error over one."""
        return nullcontext()

    @contextmanager
    def reading(self, listing: Listing) -> Iterator[None]:
        """Name the input in an error over it, of its headers too."""
        with self.refusing_unreadable(listing), refusing_other_headers(self.spark, self.name, listing.files):
            yield

    def rows(self, wanted: Wanted, deduplicate_by: Sequence[str] = (), *, takes_replacements: bool = False) -> RowBatch:
        """Read the rows lazily."""
        listing = wanted.listing
        with self.reading(listing):
            raw, letters = self._without_dead_letters(wanted, deduplicate_by)
        rows = added_rows(
            self.spec,
            raw,
            lambda: self.reading(listing),
            deduplicate_by,
            takes_replacements=takes_replacements,
        )
        return replace(rows, dead_letters=letters)

    def _without_dead_letters(
        self, wanted: Wanted, deduplicate_by: Sequence[str]
    ) -> tuple[RawBatch, DeadLetters | None]:
        table_schema = wanted.target.schema()
        read = self.raw_once if self.spec.dead_letter is None else self.raw
        raw = read(wanted.listing, table_schema)
        contracted = contracted_columns(self.spec, raw, table_schema)
        if self.spec.dead_letter is None:
            if contracted.changes_rows:
                # What is made of the rows gives nothing of theirs back; nobody reads them twice.
                release_frames(raw.rows)
            return contracted.applied(raw), None
        # Records of text are cached: they are judged, put aside and written, and parsed once.
        with released_on_failure() as cached:
            cached.append(raw.rows)
            keys = resolve_columns(raw.rows, deduplicate_by, "deduplicate_by")
            raw, letters = without_dead_letters(self.spec, raw, keys, table_schema, contracted.faults)
        return contracted.applied(raw), letters

    def contracted(self, raw: RawBatch, table_schema: StructType | None) -> RawBatch:
        """Return rows as the schema contract leaves them, without putting any aside."""
        return contracted_columns(self.spec, raw, table_schema).applied(raw)

    def read(self, wanted: Wanted) -> ChangeBatch:
        """Read the rows and keep the last change of each key."""
        with self.refusing_unreadable(wanted.listing):
            return read_row_changes(self, wanted.listing, wanted.target.schema())


def read_row_changes(source: PlainSource, listing: Listing, table_schema: StructType | None) -> ChangeBatch:
    """Read a listing and keep the last change of each key; one job checks, counts and fills the cache.

    Only the last row of a key decides by ``delete_when`` whether the key is deleted, unless the spec's merge engine
    combines more rows into one. ``exclude_columns`` that the batch lacks are no error: the column may be one that only
    some batches have.

    :param table_schema: of the target; None when it does not exist yet.
    :raises BadInputError: missing columns, records that cannot be read, NULL keys, keys without a last change.
    """
    spark, spec, files = source.spark, source.upsert, listing.files
    types = _types_of_files(spec, table_schema)
    with released_on_failure() as cached, refusing_other_headers(spark, source.name, files):
        batch = source.raw(listing, types)
        if batch.may_be_unparsable or spec.dead_letter is not None:
            cached.append(batch.rows)
        keys, order_by = _resolved(spec, batch.rows)
        batch, letters = _judged(spec, batch, keys, table_schema)
        _refuse_discarded(spec, batch.rows, [*keys, *order_by])
        refuse_unordered_columns(batch.rows.schema, keys, order_by)
        refuse_unmergeable_columns(batch.rows.schema, spec.merge_engine)
        is_small = 0 < (listing.bytes_of_files or 0) <= _ONE_TASK
        delete_when = condition_of_delete(spec, batch)
        may_shuffle = _may_shuffle(spark, spec, delete_when)
        rows = summed_as_stored(batch.rows, table_schema, spec.merge_engine)
        rows = rows.coalesce(1) if is_small else rows
        kept = table_schema.names if table_schema and source.keeps_absent else []
        # A struct is dear to cache, and has decided by then.
        reduced = _reduced(source, rows, keys, order_by, batch.has_arrival, kept, delete_when)
        reduced = reduced.drop(ARRIVAL, UNPARSABLE, NUMBER, *((CHANGE_TYPE,) if batch.has_change_type else ()))
        reduced = in_types_of_table(spec, reduced, rows.schema, table_schema)
        # One task shuffles nothing. A query may, and so may one in delete_when.
        with without_adaptive_execution(spark) if is_small and not may_shuffle else nullcontext():
            latest = reduced.persist()
        cached.append(latest)
        with _refusing_other_change_types(spec):
            counts = count_changes(latest, keys)
        _refuse_counted(batch, counts, keys, order_by, times=keys[len(spec.keys) :])
    return ChangeBatch(
        changes=latest.drop(*COUNTERS, *_excluded(latest, spec)),
        rows=counts.rows,
        keys=counts.keys,
        upserts=counts.keys - counts.deletes,
        deletes=counts.deletes,
        key_ranges=counts.key_ranges,
        reads_table=batch.reads_more or _reads_its_table(spec),
        dead_letters=letters,
        cached=tuple(cached),
    )


def _resolved(spec: UpsertSpec, rows: DataFrame) -> tuple[list[str], list[str]]:
    """Return the columns that identify a row of the batch, and those that order rows, as they are spelled there."""
    identity, order = spec.merge_engine.identity_in_batch(spec.keys, spec.order_by)
    return resolve_columns(rows, identity, "keys"), resolve_columns(rows, order, "order_by")


def _may_shuffle(spark: SparkSession, spec: UpsertSpec, delete_when: str | None) -> bool:
    has_subqueries = delete_when is not None and has_subquery(spark, parse_expression(spark, delete_when))
    return spec.source.is_made or has_subqueries


def _refuse_counted(
    batch: RawBatch, counts: ChangeCounts, keys: Sequence[str], order_by: Sequence[str], times: Sequence[str]
) -> None:
    """Refuse records by what was counted.

    :param times: of the keys, those from which a row of a history is valid.
    """
    batch.refuse_unparsable(counts.unparsable)
    for time in times:
        refuse_null_times(counts.null_by_key.get(time, 0), counts.rows, time)
    refuse_null_keys(counts.null_keys, counts.rows, counts.null_by_key)
    refuse_unordered(counts, keys, order_by)


def _reads_its_table(spec: UpsertSpec) -> bool:
    return spec.table.lower() in {table.table.lower() for table in spec.source.lake_tables.values()}


def _judged(
    spec: UpsertSpec, batch: RawBatch, keys: Sequence[str], table_schema: StructType | None
) -> tuple[RawBatch, DeadLetters | None]:
    """Return the rows as they are stored, and the records that are put aside; None where such are refused."""
    # An aggregated column has another type than the values that it is made of.
    summed = before_aggregation(table_schema, spec.merge_engine) if table_schema else None
    letters, contracted = None, contracted_columns(spec, batch, table_schema, summed)
    if spec.dead_letter is not None:
        # A row that deletes has its key alone, and one that is combined with others may lack what they have.
        is_whole = spec.delete_when is None and not spec.merge_engine.combines_rows
        required_by = table_schema if is_whole else None
        batch, letters = without_dead_letters(spec, batch, keys, required_by, contracted.faults)
    return contracted.applied(batch), letters


def _refuse_discarded(spec: UpsertSpec, rows: DataFrame, needed: Sequence[str]) -> None:
    """Refuse columns that a load compares rows by, and that the contract has left out of them."""
    if gone := [name for name in needed if name not in rows.columns]:
        raise BadInputError(
            f"{spec.table}: keys or order_by name {gone}, which the table lacks and schema_contract leaves out; name "
            "them in exclude_columns, then they are used and not stored, or let the table have them with "
            f"by_column={{{gone[0]!r}: 'evolve'}}"
        )


def condition_of_delete(spec: UpsertSpec, batch: RawBatch) -> str | None:
    """Return the condition that a row deletes; where such a row has its key alone, none may become a row of NULL."""
    is_delete = f"{CHANGE_TYPE} = 'delete'"
    if spec.delete_when and batch.has_bare_deletes:
        return f"{is_delete} OR ({spec.delete_when})"
    if spec.delete_when or not batch.has_change_type:
        return spec.delete_when
    # A delete by another word would become a row. Without a word, as a left join leaves it, a row stays one.
    is_row = f"coalesce({CHANGE_TYPE} IN {_OF_ROWS}, true)"
    refused = f"raise_error(concat('{_OTHER_TYPE}<', {CHANGE_TYPE}, '>'))"
    return f"CASE WHEN {is_delete} THEN true WHEN {is_row} THEN false ELSE {refused} END"


@contextmanager
def _refusing_other_change_types(spec: UpsertSpec) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        texts = (str(error), *(message for _, message in java_causes(error)))
        other = next(filter(None, map(_SAID_TYPE.search, texts)), None)
        if other is None:
            raise
        raise BadInputError(
            f"{spec.table}: {CHANGE_TYPE} is {other[1]!r} in a row of source {spec.source_name}; it must be "
            "'upsert' or 'delete'. Write one of the two, or say by delete_when which rows delete"
        ) from error


def _types_of_files(spec: UpsertSpec, table_schema: StructType | None) -> StructType | None:
    if table_schema is None:
        return None
    table_schema = unversioned(table_schema, spec.merge_engine)
    # What a query makes of a column before it is aggregated is not known.
    return table_schema if spec.source.query else before_aggregation(table_schema, spec.merge_engine)


def _reduced(
    source: PlainSource,
    rows: DataFrame,
    keys: Sequence[str],
    order_by: Sequence[str],
    arrival: bool,
    kept: Sequence[str],
    delete_when: str | None,
) -> DataFrame:
    spec, merge_engine = source.upsert, source.upsert.merge_engine
    if merge_engine.deletes is Deletes.IGNORE:
        # A record that cannot be read has NULL in every column, which delete_when may take for a delete.
        rows = _with_deleted(rows, delete_when)
        rows = rows.filter(~sf.col(DELETED) | is_unparsable(rows)).drop(DELETED)
    if not merge_engine.combines_rows and delete_when is not None and source.keeps_absent:
        numbered = numbered_changes(rows, keys, order_by, arrival)
        compared = order_by if merge_engine.ignore_stale else ()
        return _latest_with_reset(_with_deleted(numbered, delete_when), keys, compared)
    if not merge_engine.combines_rows:
        return _with_deleted(latest_change_per_key(rows, keys, order_by, arrival), delete_when)
    numbered = _with_deleted(numbered_changes(rows, keys, order_by, arrival), delete_when)
    if not arrival:
        numbered = with_ambiguous_order(numbered, keys, order_by, merge_engine, spec.schema_contract.exclude_columns)
    return aggregate_changes(numbered, keys, order_by, merge_engine, kept)


def _latest_with_reset(numbered: DataFrame, keys: Sequence[str], compared: Sequence[str]) -> DataFrame:
    """Keep the last row of each key, and tell whether one before it deleted: then no old value may be kept.

    :param compared: order columns, where a delete counts only if it is not older than the table's row.
    """
    key = Window.partitionBy(*(quoted(name) for name in keys))
    flagged = numbered.withColumn(RESET, sf.max(DELETED).over(key) & ~sf.col(DELETED))
    if compared:
        # Fields named as those that ``merged_rows`` compares it with.
        order = sf.struct(*(quoted(name).alias(f"o{place}") for place, name in enumerate(compared)))
        flagged = flagged.withColumn(RESET_ORDER, sf.max(sf.when(sf.col(DELETED), order)).over(key))
    return flagged.filter(sf.col(NUMBER) == 1)


def _excluded(latest: DataFrame, spec: UpsertSpec) -> list[str]:
    excluded = {name.lower() for name in spec.schema_contract.exclude_columns}
    return [name for name in latest.columns if name.lower() in excluded]


def _with_deleted(latest: DataFrame, delete_when: str | None) -> DataFrame:
    if delete_when is None:
        return latest.withColumn(DELETED, sf.lit(False))
    try:
        return latest.withColumn(DELETED, sf.coalesce(sf.expr(delete_when).cast("boolean"), sf.lit(False)))
    except AnalysisException as error:
        columns = [name for name in latest.columns if not name.startswith("_lake_")]
        raise BadInputError(
            f"delete_when {delete_when!r} does not fit the columns {columns}: {message_of(error)}"
        ) from error


_SHOWN = 3
_LONGEST = 200


@contextmanager
def refusing_other_headers(spark: SparkSession, source_name: str, files: Sequence[InputFile]) -> Iterator[None]:
    """Turn Spark's error over a header into one with all headers that there are.

    :raises BadInputError: naming a file of each header.
    """
    try:
        yield
    # PySpark leaves a failed task untranslated.
    except SPARK_ERRORS as error:
        if "csv header" not in str(error).lower():
            raise
        raise BadInputError(
            f"the CSV files of source {source_name} do not all have the same header, or one has a column twice or "
            f"without a name: {_headers(spark, files) or reason_of(error)}. Give the files of each header a source of "
            "their own, or apply those with fewer columns first, by a path that names them alone. In one header, name "
            "each column, and once; a separator at the end makes one more"
        ) from error


def _headers(spark: SparkSession, files: Sequence[InputFile]) -> str:
    lines = spark.read.text(literal_paths(files)).filter(sf.length(sf.trim("value")) > 0)
    place = sf.struct(sf.col("_metadata.file_block_start"), sf.monotonically_increasing_id()).alias("place")
    placed = lines.select("value", sf.col("_metadata.file_path").alias("file"), place)
    first = placed.groupBy("file").agg(sf.min_by("value", "place").alias("header"))
    named = first.groupBy("header").agg(sf.min("file").alias("file"), sf.count("*").alias("files"))
    rows = named.orderBy("file").limit(_SHOWN + 1).collect()
    shown = [f"{row['header'][:_LONGEST]!r} in {row['files']} files, such as {row['file']}" for row in rows[:_SHOWN]]
    return "; ".join([*shown, *(["and others"] if len(rows) > _SHOWN else [])])
