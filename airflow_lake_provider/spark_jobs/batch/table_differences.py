"""Compare a batch that is the whole table with the table: which keys are new, differ, or are not in the batch.

One pass over both, and one join of them. Before it, a row becomes its key and a digest of its values. Only the keys
that differ are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.left_rows import DIGEST, SIDE
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import ArrowRows, ParquetBatch
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.unlike_rows import rows_of_keys, unlike_rows, with_digest
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from airflow_lake_provider.spark_jobs.session.pinned_settings import with_shuffle_partitions
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, quoted_name, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import fitted_value, is_same, lacks_no_field, nullable

# Of a key: pairs of rows, rows of the table without a partner, those of them that no soft delete hides, rows of the
# batch, and those of them that cannot be read.
_PAIRS, _GONE, _LIVE, _BATCH, _BAD = "_lake_pairs", "_lake_gone", "_lake_live", "_lake_batch", "_lake_bad"
# Digests of the row of the table and of that of the batch.
_OLD, _NEW = "_lake_old", "_lake_new"
_KEY = "_lake_key"
_MOST_BROADCAST = 2_000_000
# Rows of the table that one task sorts: some 8 MB.
_ROWS_OF_TASK = 200_000


@dataclass(frozen=True, kw_only=True)
class DifferenceCounts:
    """Counts over a batch and the table.

    :param rows: of the batch.
    :param unchanged: rows of the batch that the table has as they are.
    :param live: rows of the table that no soft delete hides.
    :param upserts: keys of the batch that the table lacks, or whose rows differ.
    :param deletes: keys of the table that the batch lacks; ``deleted``: their rows that were live.
    :param unparsable: records of the batch that cannot be read.
    :param null_keys: rows of the batch with NULL in a key column, and in ``null_by_key`` how many in which.
    :param null_in_table: rows of the table with NULL in one.
    """

    rows: int
    unchanged: int
    live: int
    upserts: int
    deletes: int
    deleted: int
    unparsable: int
    null_keys: int
    null_in_table: int
    null_by_key: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WholeRows:
    """Rows of the table, and those of a batch that is all that it is to have.

    :param schema: of the table, which the columns of the batch fit.
    :param keys: key columns as the batch spells them.
    :param stored: columns of the batch that are stored, keys included.
    :param keeps_missing: columns that the batch lacks keep their values; else they become NULL.
    :param deleted_column: column that flags a row of the table as deleted; None where deletes remove it.
    :param by_arrow: how Python workers read both, where no column flags a row; None where Spark reads them.
    """

    table: DataFrame
    batch: DataFrame
    schema: StructType
    keys: Sequence[str]
    stored: Sequence[str]
    keeps_missing: bool = False
    deleted_column: str | None = None
    by_arrow: ArrowRows | None = None

    def differences(self, table_rows: int, cached: list[DataFrame]) -> Differences:
        """Compare both, in the one job that reads the batch and the table.

        :param table_rows: about how many rows the table has.
        :param cached: takes the frames that are cached, each before it is computed.
        :raises UnsupportedError: fields of a struct would have to keep their values.
        """
        spark, batch_rows, unlike = self.batch.sparkSession, cache(self.batch.count), None
        if self.by_arrow is not None:
            unlike = unlike_rows(
                spark, self.by_arrow, self._key_schema(), self._stored_schema(), table_rows, batch_rows(), cached
            )
        if unlike is not None and unlike.reason is None:
            by_arrow, joined_rows = self.by_arrow, unlike.count
            table, batch = self._of_side(unlike.rows, 0, "t", _OLD), self._of_side(unlike.rows, 1, "b", _NEW)
        else:
            by_arrow, joined_rows = None, table_rows
            table, batch = self._digested_table(), self._digested_batch()
        tasks = 1 + joined_rows // _ROWS_OF_TASK
        with with_shuffle_partitions(spark, tasks):
            # A plan of its own: together with an aggregate, the join's code is too long for the JVM to compile.
            cached.append(rows := self._joined(table, batch, tasks).filter(self._is_unlike()).persist())
            tasks = 1 + rows.count() // _ROWS_OF_TASK
        # Few rows in as many tasks as both sides took would cost each job that follows a second.
        with with_shuffle_partitions(spark, tasks):
            cached.append(by_key := _by_key(rows.coalesce(tasks), self.keys).persist())
            differences = Differences.of(by_key, self.keys, batch_rows, self._live_rows().count)
        if unlike is None:
            return differences
        key = None if unlike.place is None else self.keys[unlike.place]
        stored = None if by_arrow is None else unlike.stored
        return replace(differences, by_arrow=by_arrow, stored=stored, key_of_ranges=key, left_to_spark=unlike.reason)

    def _joined(self, table: DataFrame, batch: DataFrame, tasks: int) -> DataFrame:
        """Return the pairs of rows of one key, and the rows without a partner."""
        places = range(len(self.keys))
        # A number of our own: Spark's default is for any table, and merged partitions would be sorted by few tasks.
        table = table.repartition(tasks, *(_key(place, "t") for place in places))
        batch = batch.repartition(tasks, *(_key(place, "b") for place in places))
        on = _all([sf.col(_key(place, "t")) == sf.col(_key(place, "b")) for place in places])
        joined = table.hint("merge").join(batch, on, "full")
        # What every row has is told behind the join, and not moved: a fifth of its bytes.
        if _LIVE not in joined.columns:
            joined = joined.withColumn(_LIVE, sf.col(_OLD).isNotNull().cast("int"))
        return joined if _BAD in joined.columns else joined.withColumn(_BAD, sf.lit(0))

    def _digested_table(self) -> DataFrame:
        flag = self.deleted_column
        live = [] if flag is None else [(~quoted(flag)).cast("int").alias(_LIVE)]
        return self._table_values().select(*self._key_columns("t"), *live, self._digest().alias(_OLD))

    def _digested_batch(self) -> DataFrame:
        bad = [sf.col(_BAD)] if UNPARSABLE in self.batch.columns else []
        return self.fitted(self.batch).select(*self._key_columns("b"), *bad, self._digest().alias(_NEW))

    def _of_side(self, rows: DataFrame, side: int, suffix: str, digest: str) -> DataFrame:
        of_side = rows.filter(sf.col(SIDE) == side)
        keys = [sf.col(_key(place)).alias(_key(place, suffix)) for place in range(len(self.keys))]
        return of_side.select(*keys, sf.col(DIGEST).alias(digest))

    def of_files(self, files: Sequence[InputFile]) -> ParquetBatch:
        """Return the batch as Python workers may read it.

        :param files: that hold its rows.
        :raises UnsupportedError: with the reason why Spark has to read it.
        """
        if self.deleted_column is not None:
            raise UnsupportedError("a column flags deleted rows")
        by_name = {each.name.lower(): each for each in self.schema}
        for name in self.stored:
            kinds = self.batch.schema[name].dataType, by_name[name.lower()].dataType
            if not is_same(*kinds):
                raise UnsupportedError(
                    f"column {name} is {kinds[0].simpleString()}, in the table {kinds[1].simpleString()}"
                )
        compared = [each.name for each in self._compared()]
        return ParquetBatch(files=files, keys=self.keys, stored=self.stored, compared=compared)

    def _table_values(self) -> DataFrame:
        return self.table.select(*(sf.expr(self._of_table(each)).alias(each.name) for each in self._values()))

    def _live_rows(self) -> DataFrame:
        rows = self._table_values()
        return rows if self.deleted_column is None else rows.filter(~quoted(self.deleted_column))

    def _key_schema(self) -> StructType:
        kinds = enumerate(each.dataType for each in self._key_fields())
        return StructType([StructField(_key(place), kind) for place, kind in kinds])

    def _stored_schema(self) -> StructType:
        return StructType([self.batch.schema[name] for name in self.stored])

    def _is_unlike(self) -> Column:
        """Tell pairs of rows, and rows without a partner, that a count or a change needs."""
        same = (sf.col(_OLD) == sf.col(_NEW)) & (sf.col(_BAD) == 0)
        gone_before = sf.col(_NEW).isNull() & (sf.col(_LIVE) == 0)
        null_key = ~_all([key.isNotNull() for key in _keys_of_pair(len(self.keys))])
        return ~sf.coalesce(same | gone_before, sf.lit(False)) | null_key

    def fitted(self, rows: DataFrame) -> DataFrame:
        """Return rows of the batch in the types of the table, with those columns alone that are compared."""
        bad = [sf.col(UNPARSABLE).isNotNull().cast("int").alias(_BAD)] if UNPARSABLE in rows.columns else []
        return rows.select(*(sf.expr(self._of_batch(each)).alias(each.name) for each in self._values()), *bad)

    def unlike_table(self, rows: DataFrame, differences: Differences) -> DataFrame:
        """Leave out the rows of the batch that the table has as they are, now that they are one for each key."""
        values = self.fitted(rows)
        if differences.by_arrow is None:
            digests = values.select(*self._key_columns(), self._digest().alias(_NEW))
        else:
            renamed = {each.name: _key(place) for place, each in enumerate(self._key_fields())}
            digests = with_digest(values, len(self.keys)).withColumnsRenamed({**renamed, DIGEST: _NEW})
        in_table = differences.by_key.filter(sf.col(_PAIRS) > 0)
        names = [_key(place) for place in range(len(self.keys))]
        equal = digests.join(in_table, on=names).filter(sf.col(_OLD) == sf.col(_NEW)).select(*names)
        return rows.join(equal, on=self._on(rows, equal), how="left_anti")

    def stored_upserts(self, rows: DataFrame, differences: Differences) -> DataFrame:
        """Return what the batch stores of the rows that have one of the keys to insert or update.

        :param rows: of the batch, which are read where Arrow does not read them.
        """
        wanted, count, by_arrow = self._wanted(differences), differences.counts.upserts, differences.by_arrow
        if differences.stored is not None:
            rows = differences.stored
        elif by_arrow is not None and count <= _MOST_BROADCAST:
            rows = rows_of_keys(rows.sparkSession, by_arrow, wanted, self._stored_schema(), count)
        return self.of_upserts(rows, differences).select(*map(quoted, self.stored))

    def _wanted(self, differences: Differences) -> DataFrame:
        return differences.by_key.filter(sf.col(_BATCH) > 0).select(*map(_key, range(len(self.keys))))

    def of_upserts(self, rows: DataFrame, differences: Differences) -> DataFrame:
        """Return the rows of the batch that have one of the keys to insert or update."""
        wanted = self._wanted(differences)
        if differences.counts.upserts <= _MOST_BROADCAST:
            wanted = sf.broadcast(wanted)
        return rows.join(wanted, on=self._on(rows, wanted), how="left_semi")

    def deleted_keys(self, differences: Differences) -> DataFrame:
        """Return the keys that the batch lacks, in the columns that the batch has for them."""
        gone = differences.by_key.filter(sf.col(_BATCH) == 0)
        return gone.select(*(sf.col(_key(place)).alias(key) for place, key in enumerate(self.keys)))

    def _on(self, rows: DataFrame, keys: DataFrame) -> Column:
        kinds = [each.dataType for each in self._key_fields()]
        return _all(
            [rows[quoted_name(key)].cast(kinds[place]) == keys[_key(place)] for place, key in enumerate(self.keys)]
        )

    def _key_columns(self, side: str = "") -> list[Column]:
        return [quoted(each.name).alias(_key(place, side)) for place, each in enumerate(self._key_fields())]

    def _values(self) -> list[StructField]:
        return [*self._key_fields(), *self._compared()]

    def _digest(self) -> Column:
        return content_digest([(quoted_name(each.name), each.dataType) for each in self._compared()])

    def _key_fields(self) -> list[StructField]:
        by_name = {each.name.lower(): each for each in self.schema}
        return [by_name[key.lower()] for key in self.keys]

    def _compared(self) -> list[StructField]:
        keys, given = {key.lower() for key in self.keys}, {name.lower() for name in self.stored}
        return [
            each
            for each in self.schema
            if each.name.lower() not in keys
            and (not self.keeps_missing or each.name.lower() in given or self._is_flag(each))
        ]

    def _is_flag(self, column: StructField) -> bool:
        return self.deleted_column is not None and column.name.lower() == self.deleted_column.lower()

    def _of_table(self, column: StructField) -> str:
        value = quoted_name(column.name)
        return f"coalesce({value}, false)" if self._is_flag(column) else value

    def _of_batch(self, column: StructField) -> str:
        if self._is_flag(column):
            return "false"
        stored = {name.lower() for name in self.stored}
        given = {each.name.lower(): each for each in self.batch.schema if each.name.lower() in stored}
        match = given.get(column.name.lower())
        if match is not None and self.keeps_missing and not lacks_no_field(match.dataType, column.dataType):
            raise UnsupportedError(
                f"complete=True compares whole values, and column {match.name!r} of the batch lacks fields that "
                "missing_columns='keep' would keep; give all of its fields, or missing_columns='null'"
            )
        return fitted_column(given, column)


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Keys that differ.

    :param by_key: a row for each.
    :param by_arrow: how Python workers have compared both sides; None where Spark has.
    :param stored: rows of the batch among which are all that have such a key, in the columns that are stored.
    :param key_of_ranges: key column of whose ranges they have done it; None where they moved rows by the key.
    :param left_to_spark: why they have not, where they have tried.
    """

    by_key: DataFrame
    counts: DifferenceCounts
    by_arrow: ArrowRows | None = None
    stored: DataFrame | None = None
    key_of_ranges: str | None = None
    left_to_spark: str | None = None

    @classmethod
    def of(
        cls, by_key: DataFrame, keys: Sequence[str], batch_rows: Callable[[], int], live_rows: Callable[[], int]
    ) -> Differences:
        """Count the keys that differ.

        :param by_key: a row for each, cached.
        :param batch_rows: counts the rows of the batch; ``live_rows``: those of the table that no soft delete hides.
        """
        has_rows, nulls = sf.col(_BATCH) > 0, [sf.col(_key(place)).isNull() for place in range(len(keys))]
        null_key = ~_all([~each for each in nulls])
        row = by_key.agg(
            _sum(_BATCH).alias("unlike"),
            sf.count_if(has_rows).alias("upserts"),
            sf.count_if(~has_rows).alias("deletes"),
            _sum(_LIVE, ~has_rows).alias("deleted"),
            _sum(_BAD).alias("unparsable"),
            _sum(_BATCH, null_key).alias("null_keys"),
            _sum(_GONE, null_key).alias("null_in_table"),
            sf.array(*(_sum(_BATCH, each) for each in nulls)).alias("null_by_key"),
        ).collect()[0]
        counted, all_rows = row.asDict(), batch_rows()
        by_column = {key: count for key, count in zip(keys, counted.pop("null_by_key"), strict=True) if count}
        counts = DifferenceCounts(
            rows=all_rows,
            unchanged=max(0, all_rows - counted.pop("unlike")),
            live=live_rows(),
            null_by_key=by_column,
            **counted,
        )
        return cls(by_key=by_key, counts=counts)


def _by_key(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return a row for each key of rows of both sides that are not alike, each beside those of its key."""
    has_old, has_new = sf.col(_OLD).isNotNull(), sf.col(_NEW).isNotNull()
    key = [each.alias(_key(place)) for place, each in enumerate(_keys_of_pair(len(keys)))]
    return rows.groupBy(*key).agg(
        sf.count_if(has_old & has_new).alias(_PAIRS),
        sf.count_if(~has_new).alias(_GONE),
        _sum(_LIVE).alias(_LIVE),
        sf.count_if(has_new).alias(_BATCH),
        _sum(_BAD).alias(_BAD),
        sf.max(_OLD).alias(_OLD),
    )


def _key(place: int, side: str = "") -> str:
    return f"{_KEY}{place}{side}"


def _keys_of_pair(keys: int) -> list[Column]:
    return [sf.coalesce(_key(place, "t"), _key(place, "b")) for place in range(keys)]


def _all(conditions: Sequence[Column]) -> Column:
    every = conditions[0]
    for condition in conditions[1:]:
        every = every & condition
    return every


def _sum(name: str, where: Column | None = None) -> Column:
    value = sf.col(name) if where is None else sf.when(where, sf.col(name))
    return sf.coalesce(sf.sum(value), sf.lit(0))


def fitted_column(given: Mapping[str, StructField], column: StructField) -> str:
    """Return SQL of what a row of a batch has for a column of the table, in its type; NULL where it has nothing.

    :param given: columns of the batch, by their names in lower case.
    """
    match = given.get(column.name.lower())
    if match is None:
        return _null(column)
    value = quoted_name(match.name)
    if is_same(match.dataType, column.dataType):
        return value
    return fitted_value(value, match.dataType, nullable(column.dataType), _null)


def _null(column: StructField) -> str:
    return f"CAST(NULL AS {type_text(column.dataType)})"
