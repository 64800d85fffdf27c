"""Reducing the rows of each key to one in which more than the last of them counts: first, partial, aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructField, StructType

from airflow_lake_provider.contracts.author.merge_engines import FirstRow, MergeEngine, PartialUpdate
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, RESET
from airflow_lake_provider.spark_jobs.batch.deduplicated_changes import COUNTERS, NUMBER, resolve_columns
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted

_LAST_DELETE = "_lake_last_delete"


def aggregate_changes(
    numbered: DataFrame,
    keys: Sequence[str],
    order_by: Sequence[str],
    merge_engine: MergeEngine,
    table_columns: Sequence[str] = (),
) -> DataFrame:
    """Return one row per key; a delete forgets the rows before it.

    :param numbered: of ``numbered_changes``, with ``_lake_deleted``; 1 is the last row of a key.
    :param table_columns: columns that the rows may lack, because the table's keep their values.
    :return: with ``_lake_deleted`` (nothing came after the last delete), ``_lake_reset`` (something did) and counters.
    :raises BadInputError: sequence groups or aggregates name columns that the rows lack.
    """
    _refuse_unknown(numbered, merge_engine, table_columns)
    key = Window.partitionBy(*(quoted(name) for name in keys))
    last_delete = sf.min(sf.when(sf.col(DELETED), sf.col(NUMBER))).over(key)
    kept = numbered.withColumn(_LAST_DELETE, last_delete)
    kept = kept.filter(sf.col(_LAST_DELETE).isNull() | (sf.col(NUMBER) <= sf.col(_LAST_DELETE)))
    taken = {*(name.lower() for name in (*keys, *order_by)), DELETED}
    values = [f for f in numbered.schema if not f.name.startswith("_lake_") and f.name.lower() not in taken]
    aggregation = _Aggregation(merge_engine, {name.lower() for name in numbered.columns})
    aggregated = kept.groupBy(*(quoted(name) for name in keys)).agg(
        *(aggregation.of_order(name).alias(name) for name in order_by if name not in keys),
        *(aggregation.of_value(field.name, field.dataType).alias(field.name) for field in values),
        *(sf.max(name).alias(name) for name in COUNTERS),
        sf.min_by(DELETED, NUMBER).alias(DELETED),
        sf.max(_LAST_DELETE).isNotNull().alias(RESET),
    )
    return aggregated.withColumn(RESET, sf.col(RESET) & ~sf.col(DELETED))


def summed_as_stored(rows: DataFrame, table: StructType | None, merge_engine: MergeEngine) -> DataFrame:
    """Return rows whose decimals have the type in which the table keeps their sum, where it has more digits.

    :param table: columns of the table; None where it is not there yet.
    """
    kinds = {field.name.lower(): field.dataType for field in table or ()}
    wider = {
        field.name: quoted(field.name).cast(kind)
        for field in rows.schema
        if merge_engine.function_of(field.name) == "sum"
        and isinstance(kind := kinds.get(field.name.lower()), DecimalType)
        and isinstance(field.dataType, DecimalType)
        and kind.scale == field.dataType.scale
        and kind.precision > field.dataType.precision
    }
    return rows.withColumns(wider) if wider else rows


def before_aggregation(table: StructType, merge_engine: MergeEngine) -> StructType:
    """Return the table's schema with the types that its columns have in rows not aggregated yet.

    A column that counts takes values of any type, so it is left out; one that collects takes elements.
    """
    aggregated = {name.lower(): function for name, function in merge_engine.aggregates.items()}
    fields = []
    for field in table.fields:
        function = aggregated.get(field.name.lower())
        if function == "collect" and isinstance(field.dataType, ArrayType):
            fields.append(StructField(field.name, field.dataType.elementType))
        elif function != "count":
            fields.append(field)
    return StructType(fields)


def _refuse_unknown(rows: DataFrame, merge_engine: MergeEngine, kept: Sequence[str]) -> None:
    absent = {name.lower() for name in kept} - {name.lower() for name in rows.columns}
    resolve_columns(
        rows,
        [name for name in merge_engine.named_columns if name.lower() not in absent],
        "sequence_groups or aggregates",
    )


class _Aggregation:
    """Aggregates over the rows of a key, whose columns are given in lower case."""

    def __init__(self, merge_engine: MergeEngine, given: set[str]) -> None:
        self._given = given
        self._first = isinstance(merge_engine, FirstRow)
        self._partial = isinstance(merge_engine, PartialUpdate)
        self._function_of = merge_engine.function_of
        self._order_of = dict(_order_columns(merge_engine))
        self._live = ~sf.col(DELETED)

    def of_order(self, name: str) -> Column:
        """Return the order of the row that stands for the key, a delete included."""
        if self._first:
            deleting = sf.min_by(sf.struct(quoted(name).alias("v")), NUMBER)
            return sf.coalesce(self._first_live(quoted(name)), deleting)["v"]
        return sf.min_by(quoted(name), NUMBER)

    def of_value(self, name: str, kind: DataType) -> Column:
        """Return the value that a column has for the key; NULL when it is deleted."""
        value = quoted(name)
        if self._first:
            return self._first_live(value)["v"]
        if self._partial and name.lower() in self._order_of:
            order = self._order_of[name.lower()]
            # No row has an order then, which leaves the group as it is.
            return self._of_group(value, quoted(order) if order.lower() in self._given else sf.lit(None))
        return self._aggregated(self._function_of(name), value, kind)

    def _first_live(self, value: Column) -> Column:
        # A struct: max_by would give the value of another row for one that is NULL.
        return sf.max_by(sf.struct(value.alias("v")), sf.when(self._live, sf.col(NUMBER)))

    def _of_group(self, value: Column, order: Column) -> Column:
        newest = sf.when(self._live & order.isNotNull(), sf.struct(order, -sf.col(NUMBER)))
        return sf.max_by(sf.struct(value.alias("v")), newest)["v"]

    def _aggregated(self, function: str, value: Column, kind: DataType) -> Column:
        live = sf.when(self._live, value)
        match function:
            case "sum":
                # Spark's sum of decimals is wider than they are, and would widen the table's column with each batch.
                return sf.sum(live).cast(kind) if isinstance(kind, DecimalType) else sf.sum(live)
            case "max" | "min" | "count" | "bool_and" | "bool_or":
                simple: Column = getattr(sf, function)(live)
                return simple
            case "last":
                return sf.min_by(sf.struct(value.alias("v")), sf.when(self._live, sf.col(NUMBER)))["v"]
            case "listagg" | "collect":
                return _listed(live, as_text=function == "listagg")
        return sf.min_by(value, sf.when(self._live & value.isNotNull(), sf.col(NUMBER)))


def _listed(live: Column, *, as_text: bool) -> Column:
    """Return the values that are not NULL, oldest first; NULL when there are none."""
    pairs = sf.collect_list(sf.when(live.isNotNull(), sf.struct((-sf.col(NUMBER)).alias("n"), live.alias("v"))))
    values = sf.transform(sf.array_sort(pairs), lambda pair: pair["v"])
    result = sf.array_join(values.cast("ARRAY<STRING>"), ",") if as_text else values
    return sf.when(sf.size(values) > 0, result)


def _order_columns(merge_engine: MergeEngine) -> Iterator[tuple[str, str]]:
    for order, group in merge_engine.sequence_groups.items():
        for name in (order, *group):
            yield name.lower(), order
