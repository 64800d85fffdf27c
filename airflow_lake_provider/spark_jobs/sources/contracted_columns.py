"""Columns of a batch by the schema contract: records with values that break it, and what the others are stored as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import Evolution
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.spark_jobs.batch.dead_letters import Fault
from airflow_lake_provider.spark_jobs.formats.commits import CHANGE_TYPE
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, text_literal, type_text

_NESTED = (ArrayType, MapType, StructType)


@dataclass(frozen=True, kw_only=True)
class ContractedColumns:
    """Columns as a contract has them.

    :param faults: of records to put aside.
    :param dropped: columns that are not stored.
    :param cast: SQL of the values that are stored in the table's type, by column.
    """

    faults: list[Fault] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    cast: dict[str, str] = field(default_factory=dict)

    def applied(self, raw: RawBatch) -> RawBatch:
        """Return the rows as they are stored."""
        if not self.dropped and not self.cast:
            return raw
        names = [name for name in raw.rows.columns if name not in self.dropped]
        values = (
            f"{self.cast[name]} AS {quoted_name(name)}" if name in self.cast else quoted_name(name) for name in names
        )
        return replace(raw, rows=raw.rows.selectExpr(*values), in_any_order=None)


def contracted_columns(spec: LoadSpec, raw: RawBatch, table_schema: StructType | None) -> ContractedColumns:
    """Return what the contract of a load makes of the columns of a batch; nothing where no action changes rows.

    :param table_schema: of the target; None when it does not exist yet, and all columns are to be its own.
    """
    contracted, contract = ContractedColumns(), spec.schema_contract
    if not contract.changes_rows or table_schema is None:
        return contracted
    present = {each.name.lower(): each.dataType for each in table_schema}
    # What tells of a row that it is a delete is no column of the table.
    excluded = {name.lower() for name in (*spec.exclude_columns, *((CHANGE_TYPE,) if raw.has_change_type else ()))}
    for each in raw.rows.schema:
        if each.name.startswith("_lake_") or each.name.lower() in excluded:
            continue
        if each.name.lower() not in present:
            _add_new(contracted, each.name, contract.of_new(each.name))
        elif _may_be_cast(raw.rows, each, present):
            _add_cast(contracted, each, present[each.name.lower()], contract.of_type(each.name))
    return contracted


def _add_new(contracted: ContractedColumns, name: str, action: Evolution) -> None:
    if action is Evolution.QUARANTINE:
        words = text_literal(f"a value in the column {name}, which the table lacks")
        contracted.faults.append((f"{quoted_name(name)} IS NOT NULL", words, "'NEW_COLUMN'"))
    if action in (Evolution.QUARANTINE, Evolution.DISCARD_VALUE):
        contracted.dropped.append(name)


def _may_be_cast(rows: DataFrame, column: StructField, present: Mapping[str, DataType]) -> bool:
    kind = present[column.name.lower()]
    if kind == column.dataType or isinstance(kind, _NESTED) or isinstance(column.dataType, _NESTED):
        return False
    try:
        rows.selectExpr(_exact(column, kind))
    except AnalysisException:
        # No value of one is one of the other: the batch is refused.
        return False
    return True


def _add_cast(contracted: ContractedColumns, column: StructField, kind: DataType, action: Evolution) -> None:
    if action not in (Evolution.QUARANTINE, Evolution.DISCARD_VALUE):
        return
    value, is_exact = f"try_cast({quoted_name(column.name)} AS {type_text(kind)})", _exact(column, kind)
    contracted.cast[column.name] = f"CASE WHEN {is_exact} THEN {value} END"
    if action is Evolution.QUARANTINE:
        words = text_literal(f"a value that {type_text(kind)} does not hold, in {column.name}")
        contracted.faults.append((f"{quoted_name(column.name)} IS NOT NULL AND NOT {is_exact}", words, "'OTHER_TYPE'"))


def _exact(column: StructField, kind: DataType) -> str:
    """Return the condition that a value is the same when it comes back from the table's type."""
    name = quoted_name(column.name)
    returned = f"try_cast(try_cast({name} AS {type_text(kind)}) AS {type_text(column.dataType)})"
    return f"coalesce({returned} = {name}, false)"
