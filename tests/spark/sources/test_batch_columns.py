"""Names of columns, nested ones too: kept whatever characters they have, or refused before anything is made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.append_flow import append
from tests.spark.sources.test_unreadable_files import EVENTS, HEADER, apply, event, flow
from tests.spark.upsert_flow import SCHEMA, NewFlow, row

NAMES = ["zip-code", "a b", "a.b", "a`b", "größe", "a'b", 'a"b', "a:b", "a,b", "a<b>", "1", "a\\b", "select", "Ünïcode"]


def nested(id_: int, value: int, **more: Any) -> dict[str, Any]:
    inner = dict.fromkeys(NAMES, value)
    return {"id": id_, "s": {**inner, "deep": inner}, "l": [inner], **more}


def test_nested_fields_keep_their_names_in_a_new_table_and_in_added_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = nested(1, 5), nested(2, 6, **{"more-s": {"zip-code": {"a b": [7]}}})
    (tmp_path / "1.json").write_text(json.dumps(first) + "\n")
    apply(spark, tmp_path / "1.json", "nested")
    (tmp_path / "2.json").write_text(json.dumps(second) + "\n" + json.dumps({**first, "more-s": None}) + "\n")
    apply(spark, tmp_path / "2.json", "nested")
    found = flow(spark, tmp_path, "nested").loaded().scan().to_arrow().to_pylist()
    expected = [{**first, "more-s": None}, second]
    assert sorted(found, key=lambda row: row["id"]) == expected
    maps = pa.array([[("k", {"zip-code": 1})]], pa.map_(pa.string(), pa.struct([("zip-code", pa.int32())])))
    pq.write_table(pa.table({"id": [1], "m": maps}), tmp_path / "m.parquet")
    apply(spark, tmp_path / "m.parquet", "maps", format="parquet")
    assert flow(spark, tmp_path, "maps").rows() == {1: ([("k", {"zip-code": 1})],)}


@pytest.mark.parametrize("name", ["_lake_file", "_lake_arrival", "_lake_unparsable", "_LAKE_row", "_lake_deleted"])
def test_a_column_of_our_name_is_neither_dropped_nor_mixed_up(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"id": 1, name: "x"}) + "\n")
    (tmp_path / "a.csv").write_text(f"id,{name}\n1,x\n")
    pq.write_table(pa.table({"id": [1], name: ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "e.json").write_bytes(event(**{"id": 1, name: "x"}))
    ways: list[tuple[str, dict[str, Any]]] = [
        ("a.json", {}),
        ("a.json", {"schema": f"id BIGINT, {name} STRING"}),
        ("a.json", {"schema": "id BIGINT", "query": f"SELECT id, 5 AS {name} FROM source"}),
        ("a.csv", {"format": "csv", "options": HEADER}),
        ("a.parquet", {"format": "parquet"}),
        ("a.parquet", {"format": "parquet", "schema": f"id BIGINT, {name} STRING"}),
        ("e.json", EVENTS),
    ]
    for file, source in ways:
        with pytest.raises(BadInputError, match=rf"columns \['{name}'\] of .* begin with _lake_"):
            apply(spark, tmp_path / file, **source)


def test_a_column_named_as_sparks_metadata_is_a_column(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "_metadata": "x"}\n')
    apply(spark, tmp_path / "a.json", "metadata")
    pq.write_table(pa.table({"_metadata": ["y"], "id": [2]}), tmp_path / "b.parquet")
    apply(spark, tmp_path / "b.parquet", "metadata", format="parquet")
    (tmp_path / "c.csv").write_text("_metadata,id\nz,3\n")
    apply(spark, tmp_path / "c.csv", "metadata", format="csv", options=HEADER)
    assert flow(spark, tmp_path, "metadata").rows() == {1: ("x",), 2: ("y",), 3: ("z",)}


def test_a_column_that_is_there_twice_is_refused_before_a_table_is_made(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "a": "x"}\n')
    (tmp_path / "case.json").write_text('{"id": 1, "a": "x", "A": "y"}\n')
    (tmp_path / "inner.json").write_text('{"id": 1, "s": {"a": "x", "A": "y"}}\n')
    (tmp_path / "a.csv").write_text("id,a,A\n1,x,y\n")
    (tmp_path / "e.json").write_bytes(event(id=1, a="x", A="y"))
    pq.write_table(pa.table([[1], ["x"], ["y"]], names=["id", "a", "A"]), tmp_path / "a.parquet")
    declared = "id BIGINT, a STRING, A STRING"
    ways: list[tuple[str, dict[str, Any]]] = [
        ("a.json", {"schema": declared}),
        ("a.json", {"schema": "id BIGINT, a STRING", "query": "SELECT id, a, a FROM source"}),
        ("a.json", {"schema": "id BIGINT, a STRING", "query": "SELECT id, a, a AS A FROM source"}),
        ("case.json", {}),
        ("inner.json", {}),
        ("a.csv", {"format": "csv", "options": HEADER}),
        ("a.parquet", {"format": "parquet"}),
        ("a.parquet", {"format": "parquet", "schema": declared}),
        ("e.json", EVENTS),
    ]
    for file, source in ways:
        with pytest.raises(BadInputError, match=r"twice|differ in case alone") as refused:
            apply(spark, tmp_path / file, "twice", **source)
        assert len(str(refused.value)) < 1_000
    assert not IcebergTable(spark, "lake_default", TableName.parse("unreadable.twice")).exists()
    apply(spark, tmp_path / "case.json", "once", schema="id BIGINT, A STRING")
    assert flow(spark, tmp_path, "once").rows() == {1: ("y",)}


def test_null_keys_are_counted_by_column_with_a_way_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"id": 1, "k": null}\n{"id": null, "k": null}\n{"id": 1, "k": null}\n{"id": 1, "k": "x"}\n'
    )
    source = Files(path=str(tmp_path / "a.json"), format="json", schema="id BIGINT, k STRING", name="nulls")
    with pytest.raises(BadInputError, match=r"3 of 4 rows have NULL in a key column: id in 1, k in 3\. .*Query"):
        flow(spark, tmp_path, "nulls").apply(source=source, keys=("id", "k"), missing_columns=MissingColumns.FAIL)
    with pytest.raises(BadInputError, match=r"CHAR or VARCHAR; say STRING"):
        apply(spark, tmp_path / "a.json", schema="id BIGINT, k CHAR(3)")


NESTED = {"ARRAY<INT>": "ARRAY(1)", "MAP<STRING, INT>": "MAP('k', 1)", "STRUCT<a: INT>": "NAMED_STRUCT('a', 1)"}


@pytest.mark.parametrize("kind", NESTED)
def test_a_type_that_csv_cannot_hold_is_refused_by_the_column_wherever_it_comes_from(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "a.csv").write_text("id,v\n1,x\n")
    told = r"cannot hold the types \{'v': '.*say STRING"
    for options in ({"header": "true"}, {}):
        declared = Files(f"{tmp_path}/a.csv", "csv", schema=f"id BIGINT, v {kind}", name="declared", options=options)
        with pytest.raises(BadInputError, match=told):
            flow(spark, tmp_path, "declared").apply(source=declared)
    table = flow(spark, tmp_path, f"nested_{kind[:3].lower()}")
    spark.sql(f"CREATE TABLE {table.table} USING iceberg AS SELECT 1L AS id, {NESTED[kind]} AS v")
    with pytest.raises(BadInputError, match=told):
        table.apply(source=Files(f"{tmp_path}/a.csv", "csv", name="typed", options={"header": "true"}))


@pytest.mark.parametrize("nothing", ["NULL", "array()", "named_struct('x', NULL)"])
def test_a_new_column_without_a_type_is_refused_and_one_of_the_table_has_its_type(
    spark: SparkSession, tmp_path: Path, nothing: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"id": 1}) + "\n")
    table = f"untyped_{len(nothing)}"
    reading: dict[str, Any] = {"schema": "id BIGINT"}
    with pytest.raises(
        BadInputError, match=r"columns \['note(\.x)?'\] of the batch hold nothing but NULL.*CAST\(NULL AS"
    ):
        apply(spark, tmp_path / "a.json", table, query=f"SELECT id, {nothing} AS note FROM source", **reading)
    apply(spark, tmp_path / "a.json", table, query="SELECT id, 'x' AS note FROM source", **reading)
    (tmp_path / "b.json").write_text(json.dumps({"id": 2}) + "\n")
    with pytest.raises(BadInputError, match=r"columns \['more(\.x)?'\] of the batch hold nothing but NULL"):
        apply(
            spark, tmp_path / "b.json", table, query=f"SELECT id, 'x' AS note, {nothing} AS more FROM source", **reading
        )
    apply(spark, tmp_path / "b.json", table, query="SELECT id, NULL AS note FROM source", **reading)
    assert flow(spark, tmp_path, table).rows() == {1: ("x",), 2: (None,)}


def test_a_new_field_without_a_type_is_refused_inside_of_a_column_that_the_table_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = "SELECT id, array(named_struct('x', 1, {})) AS items FROM source"
    for place, more in enumerate(["'y', 'b'", "'y', NULL"]):
        (tmp_path / f"{place}.json").write_text(json.dumps({"id": place}) + "\n")
        apply(spark, tmp_path / f"{place}.json", "untyped_field", query=query.format(more), schema="id BIGINT")
    (tmp_path / "2.json").write_text(json.dumps({"id": 2}) + "\n")
    nothing = query.format("'y', 'b', 'Z', NULL")
    with pytest.raises(BadInputError, match=r"\['items\.Z'\] of the batch hold nothing but NULL"):
        apply(spark, tmp_path / "2.json", "untyped_field", query=nothing, schema="id BIGINT")


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no collations")
@pytest.mark.parametrize("strategy", ["positions", "merge"])
def test_texts_with_a_collation_are_stored_without_it_and_identify_no_row(new_flow: NewFlow, strategy: str) -> None:
    lake = new_flow(delete_when=None, exclude_columns=(), strategy=strategy)

    def source(columns: str) -> Query:
        return Query(f"SELECT {columns} FROM source", Files(f"{lake.inbox}/*.jsonl", schema=SCHEMA))

    name = "name COLLATE UTF8_LCASE AS name, map(name, array(name COLLATE UNICODE_CI)) AS more"
    for run, text in (("1", "a"), ("2", "A")):
        lake.arrive(f"{run}.jsonl", row(1, text), row(2, text.upper()))
        lake.apply(run, source=source(f"id, {name}"))
        assert lake.rows() == {1: (text, [(text, [text])]), 2: ("A", [("A", ["A"])])}
    lake.arrive("3.jsonl", row(3, "a"), row(4, "A"))
    for arguments in ({"keys": ("name",)}, {"order_by": ("name",)}, {"keys": ("name",), "is_complete": True}):
        with pytest.raises(BadInputError, match=r"UTF8_LCASE.*are compared by a collation"):
            lake.apply("3", source=source(f"id, {name}"), **arguments)
    added = replace(lake, table=f"{lake.table}_added", changes={})
    with pytest.raises(BadInputError, match="are compared by a collation"):
        append(added, "1", source=source(f"id, {name}"), deduplicate_by=("name",))


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no collations")
def test_keys_of_events_with_a_collation_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "e.json").write_bytes(event(id="a") + event(id="A"))
    with pytest.raises(BadInputError, match=r"'id': 'string collate UTF8_LCASE'.*are compared by a collation"):
        apply(spark, tmp_path / "e.json", "collated_keys", **EVENTS, schema="id STRING COLLATE UTF8_LCASE")
