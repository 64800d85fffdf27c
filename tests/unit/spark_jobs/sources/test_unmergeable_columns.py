"""Columns that an aggregate or a sequence group does not take are refused by name, before Spark fails over them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructType,
)

from airflow_lake_provider.contracts.author.merge_engines import AGGREGATES, Aggregation, PartialUpdate
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unmergeable_columns, refuse_unordered_columns

MAP, LIST = MapType(StringType(), IntegerType()), ArrayType(IntegerType())
COLLATED = StringType("UTF8_LCASE")
NUMBERS: tuple[DataType, ...] = (IntegerType(), DoubleType(), DecimalType(5, 2))
OTHERS: tuple[DataType, ...] = (StringType(), DateType(), BooleanType(), LIST, MAP)
# As Spark's documentation of each function says; but it would sum a text as a double.
TAKEN: dict[str, tuple[DataType, ...]] = {
    "sum": NUMBERS,
    "bool_and": (BooleanType(),),
    "bool_or": (BooleanType(),),
    "max": (*NUMBERS, *OTHERS[:-1]),
    "min": (*NUMBERS, *OTHERS[:-1]),
}


@pytest.mark.parametrize("kind", [*NUMBERS, *OTHERS, NullType()])
@pytest.mark.parametrize("function", AGGREGATES)
def test_a_function_takes_the_types_that_it_is_made_for_and_no_other(function: str, kind: DataType) -> None:
    rows = StructType().add("id", IntegerType()).add("Total", kind)
    engine = Aggregation(aggregates={"total": function, "absent": "sum"})
    if kind == NullType() or kind in TAKEN.get(function, (kind,)):
        refuse_unmergeable_columns(rows, engine)
    else:
        with pytest.raises(BadInputError, match=rf"columns: Total is {kind.simpleString()[:3]}.*{function}"):
            refuse_unmergeable_columns(rows, engine)


def test_a_sequence_group_is_ordered_by_what_has_an_order() -> None:
    rows = StructType().add("m", MAP).add("at", DateType()).add("v", MAP)
    refuse_unmergeable_columns(rows, PartialUpdate(sequence_groups={"at": ["v", "m"]}))
    with pytest.raises(BadInputError, match=r"columns \{'m': 'map<string,int>'\} order a sequence group"):
        refuse_unmergeable_columns(rows, PartialUpdate(sequence_groups={"M": ["v"]}))


@pytest.mark.parametrize("kind", [COLLATED, ArrayType(COLLATED), StructType().add("text", COLLATED)])
def test_a_collation_orders_nothing_and_tells_no_rows_apart(kind: DataType) -> None:
    rows = StructType().add("id", IntegerType()).add("Name", kind).add("v", kind)
    refuse_unordered_columns(rows, ["id"], [])
    refuse_unmergeable_columns(rows, PartialUpdate(sequence_groups={"id": ["name", "v"]}))
    refuse_unmergeable_columns(rows, Aggregation(aggregates={"name": "last", "v": "count"}))
    named = r"'Name': '.*string collate UTF8_LCASE.*are compared by a collation"
    with pytest.raises(BadInputError, match=named):
        refuse_unordered_columns(rows, ["name"], [])
    with pytest.raises(BadInputError, match=named):
        refuse_unordered_columns(rows, ["id"], ["name"])
    with pytest.raises(BadInputError, match=named):
        refuse_unmergeable_columns(rows, PartialUpdate(sequence_groups={"name": ["v"]}))
    for function in ("max", "min"):
        with pytest.raises(BadInputError, match=named):
            refuse_unmergeable_columns(rows, Aggregation(aggregates={"name": function}))
