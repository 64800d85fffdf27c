"""Each change of a schema knows what it is to the rows of before, and what a contract makes of it."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.reports.batch_plan import SchemaChange
from airflow_lake_provider.spark_jobs.formats.iceberg.table.apply_schema_contract import schema_differences

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def struct(**fields: object) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields.items()])  # type: ignore[arg-type]  # types


PRESENT = struct(a=struct(zip=INT, old=INT), lines=ArrayType(struct(n=INT)), prices=MapType(TEXT, INT), key=INT)
WANTED = struct(
    a=struct(zip=LONG, new=TEXT), lines=ArrayType(struct(n=TEXT, note=TEXT)), prices=MapType(TEXT, LONG), more=TEXT
)


@pytest.mark.parametrize(
    ("contract", "missing", "actions"),
    [
        (SchemaContract(), MissingColumns.NULL, ["evolve", "evolve", "null", "refuse", "evolve", "evolve", "evolve"]),
        (
            SchemaContract(
                new_columns="freeze",
                wider_types="quarantine",
                by_column={"A": "discard_value", "a.zip": "freeze", "lines.element": "evolve", "prices": "freeze"},
            ),
            MissingColumns.FAIL,
            ["freeze", "discard_value", "fail", "refuse", "evolve", "freeze", "freeze"],
        ),
    ],
)
def test_what_a_contract_says_of_a_column_counts_for_the_fields_inside(
    contract: SchemaContract, missing: MissingColumns, actions: list[str]
) -> None:
    wanted = StructType([*WANTED, StructField("key", INT)])
    changes = [each.change(contract, missing) for each in schema_differences(PRESENT, wanted)]
    assert [(each.kind.value, each.column, each.additive) for each in changes] == [
        ("widen-type", "a.zip", True),
        ("add-column", "a.new", True),
        ("drop-column", "a.old", False),
        ("change-type", "lines.element.n", False),
        ("add-column", "lines.element.note", True),
        ("widen-type", "prices.value", True),
        ("add-column", "more", True),
    ]
    assert [each.action for each in changes] == actions
    assert [each.is_refused for each in changes] == [action in ("freeze", "fail", "refuse") for action in actions]
    assert [each.is_made for each in changes] == [action == "evolve" for action in actions]
    for each in changes:
        assert from_json(SchemaChange, to_json(each)) == each
    assert json.loads(to_json(changes[1])) == {
        "kind": "add-column",
        "column": "a.new",
        "present": None,
        "wanted": "string",
        "action": actions[1],
        "additive": True,
    }


def test_a_dot_in_a_columns_own_name_is_no_way_into_another_column() -> None:
    contract = SchemaContract(new_columns="freeze", by_column={"a": "discard_value"})
    present, wanted = (StructType([*PRESENT, *more]) for more in ([], [StructField("a.zip.code", INT)]))
    (change,) = (each.change(contract, MissingColumns.FAIL) for each in schema_differences(present, wanted))
    assert (change.column, change.action) == ("a.zip.code", "freeze")
    by_name = SchemaContract(by_column={"A.zip.Code": "quarantine"})
    assert by_name.of_new("a.zip.code") == by_name.of_new("a", "zip", "code") == Evolution.QUARANTINE


def test_a_required_column_would_have_to_take_null() -> None:
    present = StructType([StructField("id", INT, False), StructField("n", INT)])
    (change,) = (
        each.change(SchemaContract(), MissingColumns.NULL) for each in schema_differences(present, struct(n=INT))
    )
    assert (change.kind.value, change.action, change.additive) == ("drop-required", "refuse", True)
    (kept,) = (
        each.change(SchemaContract(), MissingColumns.KEEP) for each in schema_differences(present, struct(n=INT))
    )
    assert (kept.kind.value, kept.action) == ("drop-column", "keep")
