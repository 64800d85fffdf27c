"""Columns of a batch that a table cannot have are refused, whatever its contract says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.actions.target_schema import refuse_unfit_batch

SPEC: Any = SimpleNamespace(table="shop.orders", table_format="iceberg")


def columns(*names: str) -> StructType:
    schema = StructType()
    for name in names:
        schema.add(name, LongType() if name == "id" else StringType())
    return schema


def refuse(batch: StructType, table: StructType | None) -> None:
    target: Any = SimpleNamespace(schema=lambda: table)
    refuse_unfit_batch(SPEC, target, batch)


@pytest.mark.parametrize("names", [("_c0", "_c1"), ("_c0",), ("_c0", "_c1", "day")])
def test_csv_without_its_header_is_no_batch_of_a_table_with_other_columns(names: tuple[str, ...]) -> None:
    with pytest.raises(BadInputError, match=r"lacks \['id', 'name'.*CSV without a header.*'header': True"):
        refuse(columns(*names), columns("id", "name", "day"))


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (("_c0", "_c1"), None),
        (("_c0", "_c1"), ("_C0", "_c1")),
        (("_c0", "_c1"), ("_c0",)),
        (("id", "name", "_c0"), ("id", "name")),
        (("_c0", "note"), ("id", "name")),
    ],
)
def test_columns_of_such_names_are_taken_where_the_table_or_the_batch_says_so(
    names: tuple[str, ...], table: tuple[str, ...] | None
) -> None:
    refuse(columns(*names), None if table is None else columns(*table))
