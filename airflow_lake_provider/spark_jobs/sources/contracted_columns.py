"""Columns of a batch by the schema contract: records with values that break it, and what the others are stored as.

Fields inside structs, arrays and maps are looked at as columns are, by their paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, IntegralType, MapType, StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import Evolution, SchemaContract
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import Fault
from airflow_lake_provider.spark_jobs.sources.batch_columns import widens
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import field_of, quoted, quoted_name, text_literal, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import is_nested, is_number_as_time

_CHANGING = (Evolution.QUARANTINE, Evolution.DISCARD_VALUE)


@dataclass(frozen=True, kw_only=True)
class ContractedColumns:
    """Columns as a contract has them.

    :param faults: of records to put aside.
    :param dropped: columns that are not stored.
    :param stored: SQL of the values that are stored in place of those of the batch, by column.
    """

    faults: list[Fault] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)

    @property
    def changes_rows(self) -> bool:
        """True where rows are stored in another form than they have in the batch."""
        return bool(self.dropped or self.stored)

    def applied(self, raw: RawBatch) -> RawBatch:
        """Return the rows as they are stored."""
        if not self.changes_rows:
            return raw
        names = [name for name in raw.rows.columns if name not in self.dropped]
        values = (
            f"{self.stored[name]} AS {quoted_name(name)}" if name in self.stored else quoted_name(name)
            for name in names
        )
        return replace(raw, rows=raw.rows.selectExpr(*values), in_any_order=None)


def contracted_columns(
    spec: LoadSpec, raw: RawBatch, table_schema: StructType | None, combined: StructType | None = None
) -> ContractedColumns:
    """Return what the contract of a load makes of the columns of a batch; nothing where no action changes rows.

    :param table_schema: of the target; None when it does not exist yet, and all columns are to be its own.
    :param combined: the same as the batch has them, where rows are combined: without the columns of other types, about
        whose values the contract says nothing.
    """
    contracted, contract = ContractedColumns(), spec.schema_contract
    if not contract.changes_rows or table_schema is None:
        return contracted
    present = {each.name.lower(): each for each in table_schema}
    unlike: set[str] = set()
    if combined is not None:
        types = {each.name.lower(): each.dataType for each in combined}
        unlike = {name for name, each in present.items() if types.get(name) != each.dataType}
    judge = _Judge(raw.rows.sparkSession, contract)
    for each in raw.stored_fields(spec.exclude_columns):
        if each.name.lower() in unlike:
            continue
        value = quoted_name(each.name)
        judged = judge.of_field(value, each, present.get(each.name.lower()), ())
        contracted.faults.extend((condition, text_literal(words), kind) for condition, words, kind in judged.faults)
        if judged.stored is None:
            contracted.dropped.append(each.name)
        elif judged.stored != value:
            contracted.stored[each.name] = judged.stored
    return contracted


def in_types_of_table(
    spec: UpsertSpec, aggregated: DataFrame, values: StructType, table_schema: StructType | None
) -> DataFrame:
    """Return aggregated rows with sums and counts in the whole numbers of the table, where the contract widens none.

    Spark's sum of INT is a BIGINT. A sum that the column does not hold ends the job. A sum of FLOAT stays the DOUBLE
    that it is, and is refused later: Spark casts one without a look whether it fits.

    :param values: columns that were aggregated: a sum of wider ones is as wide as they are.
    :param table_schema: of the target; None when it does not exist yet.
    """
    present = {each.name.lower(): each.dataType for each in table_schema or ()}
    given = {each.name: each.dataType for each in values}
    functions = {each.name: spec.merge_engine.function_of(each.name) for each in aggregated.schema}
    kept = {
        each.name: quoted(each.name).cast(kind)
        for each in aggregated.schema
        if isinstance(kind := present.get(each.name.lower()), IntegralType)
        and kind != each.dataType
        and spec.schema_contract.of_type(each.name) is not Evolution.EVOLVE
        and widens(kind, each.dataType)
        and (functions[each.name] == "count" or (functions[each.name] == "sum" and widens(given[each.name], kind)))
    }
    return aggregated.withColumns(kept) if kept else aggregated


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """Form of a value in the table, and its faults.

    :param stored: SQL of it; None where it is left out.
    :param faults: conditions, with words and SQL of a class.
    """

    stored: str | None
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class _Judge:
    """Decides by a contract about values, and the values inside them."""

    spark: SparkSession
    contract: SchemaContract

    def of_field(self, value: str, given: StructField, present: StructField | None, path: tuple[str, ...]) -> _Judged:
        """Decide about a column, or a field of a struct.

        :param value: SQL of it.
        :param path: of the struct that it is in.
        """
        path = (*path, given.name)
        if present is not None:
            return self._of_type(value, given.dataType, present.dataType, path)
        action, faults = self.contract.of_new(*path), []
        if action is Evolution.QUARANTINE:
            what = "field" if path[1:] else "column"
            words = f"a value in the {what} {'.'.join(path)}, which the table lacks"
            faults.append((f"{value} IS NOT NULL", words, "'NEW_COLUMN'"))
        return _Judged(stored=None if action in _CHANGING else value, faults=faults)

    def _of_type(self, value: str, given: DataType, present: DataType, path: tuple[str, ...]) -> _Judged:
        match given, present:
            case StructType(), StructType():
                return self._of_struct(value, given, present, path)
            case ArrayType(), ArrayType():
                item = _item(path)
                inner = self._of_type(item, given.elementType, present.elementType, (*path, "element"))
                stored = value if inner.stored == item else f"transform({value}, {item} -> {inner.stored})"
                return _Judged(stored=stored, faults=_among(value, item, inner.faults))
            case MapType(), MapType():
                item = _item(path)
                inner = self._of_type(item, given.valueType, present.valueType, (*path, "value"))
                made = f"transform_values({value}, (lake_key, {item}) -> {inner.stored})"
                stored = value if inner.stored == item else made
                return _Judged(stored=stored, faults=_among(f"map_values({value})", item, inner.faults))
        action = self.contract.of_type(*path)
        if given == present or action not in _CHANGING or not self._may_be_cast(given, present):
            return _Judged(stored=value)
        is_exact, faults = _exact(value, given, present), []
        if action is Evolution.QUARANTINE:
            words = f"a value that {type_text(present)} does not hold, in {'.'.join(path)}"
            faults.append((f"{value} IS NOT NULL AND NOT {is_exact}", words, "'OTHER_TYPE'"))
        return _Judged(stored=f"CASE WHEN {is_exact} THEN try_cast({value} AS {type_text(present)}) END", faults=faults)

    def _of_struct(self, value: str, given: StructType, present: StructType, path: tuple[str, ...]) -> _Judged:
        by_name = {each.name.lower(): each for each in present}
        kept, faults, is_same = [], [], True
        for each in given:
            inner = field_of(value, each.name)
            judged = self.of_field(inner, each, by_name.get(each.name.lower()), path)
            faults += judged.faults
            is_same = is_same and judged.stored == inner
            if judged.stored is not None:
                kept.append(f"{text_literal(each.name)}, {judged.stored}")
        # A struct without any field of the table's has none to be stored in: the batch is refused.
        if is_same or not kept:
            return _Judged(stored=value, faults=faults)
        return _Judged(stored=f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(kept)}) END", faults=faults)

    def _may_be_cast(self, given: DataType, present: DataType) -> bool:
        if is_nested(given) or is_nested(present) or is_number_as_time(given, present):
            return False
        try:
            self.spark.range(0).selectExpr(_exact(f"CAST(NULL AS {type_text(given)})", given, present))
        except AnalysisException:
            # No value of one is one of the other: the batch is refused.
            return False
        return True


def _item(path: tuple[str, ...]) -> str:
    return f"lake_item{len(path)}"


def _among(values: str, item: str, faults: list[Fault]) -> list[Fault]:
    """Return faults of the values of an array as those of the array."""
    return [
        (f"coalesce(exists({values}, {item} -> {condition}), false)", words, kind) for condition, words, kind in faults
    ]


def _exact(value: str, given: DataType, present: DataType) -> str:
    """Return the condition that a value is the same when it comes back from the table's type."""
    returned = f"try_cast(try_cast({value} AS {type_text(present)}) AS {type_text(given)})"
    return f"coalesce({returned} = {value}, false)"
