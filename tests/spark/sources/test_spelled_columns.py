"""Columns, keys and fields of JSON that are named in another case than the table or the records have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.test_unreadable_files import apply
from tests.spark.sources.test_unreadable_files import flow as unreadable_flow
from tests.spark.upsert_flow import Flow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


@pytest.mark.parametrize("kind", [LakeTable, Changes])
def test_columns_keys_and_predicates_are_taken_in_any_case(flow: Flow, kind: type[LakeTable] | type[Changes]) -> None:
    flow.catalog()
    table = f"{flow.table}_in"
    columns = "id BIGINT, total INT, note STRING"
    flow.spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    keys: dict[str, Any] = {"keys": ["ID"], "protect_source": False} if kind is Changes else {}
    source = kind(table, columns=["ID", "TOTAL"], where="Total > 1", name="s", **keys)
    for number in (1, 2):
        flow.spark.sql(f"INSERT INTO {table} VALUES ({number}, 1, 'a'), ({10 + number}, 2, 'b')")
        flow.apply(f"run {number}", source=source, **PLAIN)
    assert sorted(flow.records(), key=lambda row: row["id"]) == [{"id": 11, "total": 2}, {"id": 12, "total": 2}]


# A declared schema, what a file holds, options, and what is said of it.
SPELLED: dict[str, tuple[str, str, dict[str, str], str]] = {
    "a column": ("id BIGINT, customerId STRING", '{"id": 1, "customerID": "a"}', {}, "customerId where .* customerID"),
    "a key": ("Id BIGINT, v STRING", '{"id": 1, "v": "a"}', {}, "Id where records have id"),
    "in an object": ("id BIGINT, s STRUCT<X: INT>", '{"id": 1, "s": {"x": 1}}', {}, r"s\.X where records have x"),
    "in an array": ("id BIGINT, s ARRAY<STRUCT<X: INT>>", '{"id": 1, "s": [{"x": 1}]}', {}, r"s\.X where"),
    "in a map": ("id BIGINT, s MAP<STRING, STRUCT<X: INT>>", '{"id": 1, "s": {"k": {"x": 1}}}', {}, r"s\.X where"),
    "a document": ("Id BIGINT", '[\n{"id": 1},\n{"id": 2}\n]', {"multiLine": "true"}, "Id where records have id"),
    "in UTF-16": ("Id BIGINT", '{"id": 1}', {"encoding": "UTF-16LE", "lineSep": "\n"}, "Id where records have id"),
}


@pytest.mark.parametrize("case", SPELLED)
def test_a_field_of_json_that_is_declared_in_another_case_is_refused(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    schema, text, options, told = SPELLED[case]
    (tmp_path / "a.json").write_text(text, encoding=options.get("encoding", "utf-8"))
    with pytest.raises(BadInputError, match=f"declares {told}.*spell them in the schema as the records do"):
        apply(spark, tmp_path / "a.json", schema=schema, options=options)


def test_records_of_json_without_any_declared_field_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"schema": {}, "payload": {"id": 1}}\n')
    with pytest.raises(BadInputError, match=r"a row of NULL; let Connect's JsonConverter"):
        apply(spark, tmp_path / "a.json", schema="id BIGINT")


def test_a_field_of_json_may_be_absent_or_have_a_twin(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "Note": "a", "note": "b"}\n{"id": 2}\n')
    apply(spark, tmp_path / "a.json", "spelled_twins", schema="id BIGINT, Note STRING, more INT")
    assert unreadable_flow(spark, tmp_path, "spelled_twins").rows() == {1: ("a", None), 2: (None, None)}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("Id BIGINT", "Id where records have id"),
        ("id BIGINT, _No INT", "_No where records have _no"),
        ("id BIGINT, line ARRAY<STRUCT<Sku: STRING>>", r"line\.Sku where records have sku"),
    ],
)
def test_an_element_that_is_declared_in_another_case_is_refused(
    spark: SparkSession, tmp_path: Path, schema: str, told: str
) -> None:
    (tmp_path / "a.xml").write_text('<rows><row no="7"><id>1</id><line><sku>a</sku></line></row></rows>')
    with pytest.raises(BadInputError, match=f"declares {told}"):
        apply(spark, tmp_path / "a.xml", format="xml", options={"rowTag": "row"}, schema=schema)
    given = {"format": "xml", "options": {"rowTag": "row"}, "schema": "id BIGINT, _no INT, line STRUCT<sku: STRING>"}
    assert apply(spark, tmp_path / "a.xml", f"elements_{len(schema)}", **given).batch_rows == 1


def test_elements_without_any_declared_field_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<rows><row><order><id>1</id></order></row><row><total>2</total></row></rows>")
    given: dict[str, Any] = {"format": "xml", "options": {"rowTag": "row"}}
    with pytest.raises(BadInputError, match=r"declares \['id'\], and the records have \['order', 'total'\]"):
        apply(spark, tmp_path / "a.xml", schema="id BIGINT", **given)
