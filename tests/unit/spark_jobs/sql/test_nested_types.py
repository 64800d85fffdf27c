"""Types of nested values, told from JSON and known from a table, are put together by name."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from airflow_lake_provider.spark_jobs.formats.iceberg.table.apply_schema_contract import schema_differences
from airflow_lake_provider.spark_jobs.sql.identifiers import type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import (
    completed,
    field_twins,
    fitted_value,
    is_same,
    loses_fractions,
    nameless_fields,
)

LONG, INT, TEXT = LongType(), IntegerType(), StringType()


def struct(*, required: bool = False, **fields: DataType) -> StructType:
    return StructType([StructField(name, kind, not required) for name, kind in fields.items()])


# Told from values, known of the table, and read with where absent fields count as NULL, or are left out.
READ: list[tuple[DataType, DataType, str, str]] = [
    (struct(a=LONG), struct(a=INT), "STRUCT<`a`: int>", "STRUCT<`a`: int>"),
    (struct(a=LONG, b=TEXT), struct(a=INT), "STRUCT<`a`: int, `b`: string>", "STRUCT<`a`: int, `b`: string>"),
    (struct(a=LONG), struct(b=TEXT, a=INT), "STRUCT<`b`: string, `a`: int>", "STRUCT<`a`: int>"),
    (struct(A=LONG), struct(a=INT), "STRUCT<`A`: int>", "STRUCT<`A`: int>"),
    (
        ArrayType(struct(b=LONG)),
        ArrayType(struct(a=INT)),
        "ARRAY<STRUCT<`a`: int, `b`: bigint>>",
        "ARRAY<STRUCT<`b`: bigint>>",
    ),
    (ArrayType(TEXT), ArrayType(struct(a=INT)), "ARRAY<STRUCT<`a`: int>>", "ARRAY<STRUCT<`a`: int>>"),
    (
        struct(k=struct(a=LONG), l=struct(b=LONG)),
        MapType(TEXT, struct(a=INT)),
        "MAP<string, STRUCT<`a`: int, `b`: bigint>>",
        "MAP<string, STRUCT<`a`: int, `b`: bigint>>",
    ),
    (struct(), MapType(TEXT, INT), "MAP<string, int>", "MAP<string, int>"),
    (struct(a=LONG), TEXT, "string", "string"),
    (TEXT, struct(a=INT), "STRUCT<`a`: int>", "STRUCT<`a`: int>"),
]


@pytest.mark.parametrize(("found", "known", "whole", "kept"), READ)
def test_json_is_read_with_the_types_of_the_table_and_the_fields_of_both(
    found: DataType, known: DataType, whole: str, kept: str
) -> None:
    assert type_text(completed(found, known, with_absent=True)) == whole
    assert type_text(completed(found, known, with_absent=False)) == kept


def test_names_that_are_one_or_none_are_told_with_their_path() -> None:
    columns = struct(a=INT, s=struct(b=INT, B=INT), l=ArrayType(struct(c=INT, C=INT, d=struct(e=INT))), A=INT)
    assert sorted(map(sorted, field_twins(columns))) == [["A", "a"], ["l.element.C", "l.element.c"], ["s.B", "s.b"]]
    nameless = StructType([StructField("m", MapType(TEXT, StructType([StructField("", INT)])))])
    assert list(nameless_fields(nameless)) == ["m.value"]
    assert list(nameless_fields(columns)) == []


def test_what_may_be_null_makes_no_difference() -> None:
    assert is_same(struct(a=INT, required=True), struct(a=INT))
    assert fitted_value("s", struct(a=INT, required=True), struct(a=INT), lambda _: "NULL") == "s"


def test_each_difference_is_told_once_with_its_path() -> None:
    present = struct(s=struct(a=INT, b=INT), l=ArrayType(INT), m=MapType(INT, struct(x=INT)), k=MapType(INT, INT))
    wanted = struct(S=struct(A=LONG, c=TEXT), l=ArrayType(TEXT), m=MapType(INT, struct(y=INT)), k=MapType(LONG, INT))
    told = sorted((each.kind.name, each.name) for each in schema_differences(present, wanted))
    assert told == [
        ("ADDED", "m.value.y"),
        ("ADDED", "s.c"),
        ("MISSING", "m.value.x"),
        ("MISSING", "s.b"),
        ("UNFIT", "k.key"),
        ("UNFIT", "l.element"),
        ("WIDENED", "s.a"),
    ]


@pytest.mark.parametrize("whole", [INT, LONG, DecimalType(12, 0)])
def test_whole_numbers_take_no_number_that_may_have_a_fraction(whole: DataType) -> None:
    for given in (DoubleType(), FloatType(), DecimalType(5, 1)):
        assert loses_fractions(given, whole)
        assert not loses_fractions(given, DecimalType(12, 2))
        assert not loses_fractions(given, DoubleType())
    assert not any(loses_fractions(given, whole) for given in (INT, LONG, DecimalType(5, 0), TEXT))
