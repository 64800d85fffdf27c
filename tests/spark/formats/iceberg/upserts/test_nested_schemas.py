"""Fields inside structs, arrays and maps are columns: added, widened, kept, required and refused as those are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow

POSITIONS, COPY, MERGE, EQUALITY = (UpsertStrategy(s) for s in ("positions", "copy-on-write", "merge", "equality"))
WAYS = [(COPY, 1), (EQUALITY, 2), (MERGE, 3), (POSITIONS, 3)]
Member = tuple[str, Any, Any]
# Type of the table's column, value in a record, value in the table.
MEMBERS: dict[str, Member] = {
    "new_field": ("STRUCT<a: STRING>", {"a": "A", "b": "B"}, {"a": "A", "b": "B"}),
    "new_field_deep": ("STRUCT<s: STRUCT<a: STRING>>", {"s": {"a": "A", "b": 1}}, {"s": {"a": "A", "b": 1}}),
    "new_struct": ("STRUCT<a: STRING>", {"a": "A", "s": {"b": [1]}}, {"a": "A", "s": {"b": [1]}}),
    "in_array": ("ARRAY<STRUCT<a: STRING>>", [{"a": "A"}, {"b": 2}], [{"a": "A", "b": None}, {"a": None, "b": 2}]),
    "in_arrays": ("ARRAY<ARRAY<STRUCT<a: STRING>>>", [[{"a": "A", "b": 2}], []], [[{"a": "A", "b": 2}], []]),
    "in_map": ("MAP<STRING, STRUCT<a: STRING>>", {"k": {"a": "A", "b": 2}}, {"k": {"a": "A", "b": 2}}),
    "array_in_struct": ("STRUCT<l: ARRAY<STRUCT<a: INT>>>", {"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1, "b": 2}]}),
    "other_order": ("STRUCT<a: STRING, b: STRING>", {"b": "B", "a": "A"}, {"a": "A", "b": "B"}),
    "other_case": ("STRUCT<a: STRING>", {"A": "x", "B": 1}, {"a": "x", "B": 1}),
    "odd_name": ("STRUCT<`a.b`: STRING>", {"a.b": "x", "a'b`c": 1}, {"a.b": "x", "a'b`c": 1}),
    "no_field": ("STRUCT<a: STRING, b: STRING>", {"a": "A"}, {"a": "A", "b": None}),
    "required": ("STRUCT<a: STRING NOT NULL, b: INT>", {"a": "A", "c": 1}, {"a": "A", "b": None, "c": 1}),
    "required_deep": ("STRUCT<s: STRUCT<a: INT NOT NULL> NOT NULL>", {"s": {"a": 1}}, {"s": {"a": 1}}),
    "required_in_array": ("ARRAY<STRUCT<a: INT NOT NULL>>", [{"a": 1}], [{"a": 1}]),
    "required_in_map": ("MAP<STRING, STRUCT<a: INT NOT NULL>>", {"k": {"a": 1}}, {"k": {"a": 1}}),
    "null_struct": ("STRUCT<a: STRING NOT NULL>", None, None),
}


def made(flow: Flow, columns: str, version: int) -> None:
    properties = {"format-version": str(version)}
    if version > 1:
        properties.update({f"write.{action}.mode": "merge-on-read" for action in ("delete", "update", "merge")})
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    flow.catalog()
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, {columns}) USING iceberg TBLPROPERTIES ({listed})")


def applied(flow: Flow, path: Path, run: str, **changes: Any) -> Any:
    source = Files(path=str(path), format=path.suffix[1:])
    return flow.apply(run, source=source, **{"delete_when": None, "exclude_columns": (), **changes})


def written(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def updated(flow: Flow, run: str, **assignments: str) -> Any:
    spec = UpdateRowsSpec(
        catalog="lake_default",
        table=flow.table,
        run=RunIdentity.of("dag", run, "task", "-1"),
        where="id = 1",
        assignments=assignments,
    )
    return update_rows(flow.spark, spec, Progress())


def rows_of(flow: Flow) -> dict[Any, dict[str, Any]]:
    """Read by Spark: PyIceberg 0.11 takes a list of structs that is NULL for an empty one, and no equality deletes."""
    flow.spark.catalog.refreshTable(flow.table)
    found = [row.asDict(recursive=True) for row in flow.spark.table(flow.table).collect()]
    return {row.pop("id"): row for row in found}


@pytest.mark.parametrize(("strategy", "version"), WAYS)
def test_nested_fields_are_added_ordered_and_filled_by_name(
    flow: Flow, tmp_path: Path, strategy: UpsertStrategy, version: int
) -> None:
    made(flow, ", ".join(f"{name} {kind}" for name, (kind, *_) in MEMBERS.items()), version)
    nulls = dict.fromkeys(MEMBERS, "NULL")
    ordered = {**nulls, "other_order": "named_struct('a', 'a', 'b', 'b')"}
    # Spark 3.5 asks for all columns.
    flow.spark.sql(
        f"INSERT INTO {flow.table} VALUES (0, {', '.join(ordered.values())}), (1, {', '.join(nulls.values())})"
    )
    records = [{"id": id_, **{name: given for name, (_, given, _) in MEMBERS.items()}} for id_ in (1, 2)]
    report = applied(flow, written(tmp_path / "a.json", *records), "run 1", strategy=strategy)
    assert report.strategy == strategy.value
    expected = {name: wanted for name, (*_, wanted) in MEMBERS.items()}
    found = rows_of(flow)
    wrong = [name for name in MEMBERS for id_ in (1, 2) if found[id_][name] != expected[name]]
    assert wrong == [], {name: found[1][name] for name in wrong}
    assert found[0] == {**dict.fromkeys(MEMBERS), "other_order": {"a": "a", "b": "b"}}


# Type of the table's column, type and value of a Parquet file, value in the table.
TYPED: dict[str, tuple[str, pa.DataType, Any, Any]] = {
    "wider": ("STRUCT<a: INT>", pa.struct([("a", pa.int64())]), {"a": 2**40}, {"a": 2**40}),
    "wider_in_array": ("ARRAY<INT>", pa.list_(pa.int64()), [2**40], [2**40]),
    "wider_in_map": ("MAP<STRING, FLOAT>", pa.map_(pa.string(), pa.float64()), [("k", 0.1)], {"k": 0.1}),
    "narrower": ("STRUCT<a: BIGINT>", pa.struct([("a", pa.int32())]), {"a": 1}, {"a": 1}),
    "narrower_in_array": ("ARRAY<STRUCT<a: BIGINT>>", pa.list_(pa.struct([("a", pa.int32())])), [{"a": 1}], [{"a": 1}]),
    "narrower_key": ("MAP<BIGINT, INT>", pa.map_(pa.int32(), pa.int32()), [(1, 1)], {1: 1}),
    "reordered": (
        "STRUCT<a: STRING, b: STRING>",
        pa.struct([("B", pa.string()), ("a", pa.string())]),
        {"a": "A", "B": "B"},
        {"a": "A", "b": "B"},
    ),
    "reordered_in_map": (
        "MAP<STRING, STRUCT<a: INT, b: INT>>",
        pa.map_(pa.string(), pa.struct([("c", pa.int32()), ("b", pa.int32()), ("a", pa.int32())])),
        [("k", {"a": 1, "b": 2, "c": 3})],
        {"k": {"a": 1, "b": 2, "c": 3}},
    ),
}


def typed_file(path: Path, ids: list[int], members: dict[str, tuple[str, pa.DataType, Any, Any]]) -> Path:
    columns = {name: pa.array([given] * len(ids), kind) for name, (_, kind, given, _) in members.items()}
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), path)
    return path


@pytest.mark.parametrize(("strategy", "version"), WAYS)
def test_nested_types_are_widened_and_never_taken_by_their_place(
    flow: Flow, tmp_path: Path, strategy: UpsertStrategy, version: int
) -> None:
    made(flow, ", ".join(f"{name} {kind}" for name, (kind, *_) in TYPED.items()), version)
    nulls = ", NULL" * len(TYPED)
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (0{nulls}), (1{nulls})")
    report = applied(flow, typed_file(tmp_path / "a.parquet", [1, 2], TYPED), "run 1", strategy=strategy)
    assert "widened column wider.a to bigint" in report.schema_changes
    expected = {name: wanted for name, (*_, wanted) in TYPED.items()}
    assert rows_of(flow) == {0: dict.fromkeys(TYPED), 1: expected, 2: expected}


UNFIT: dict[str, tuple[str, pa.DataType, Any, Any]] = {
    "other_type": ("STRUCT<a: INT>", pa.struct([("a", pa.string())]), {"a": "x"}, "other_type.a is int"),
    "narrowed": ("STRUCT<a: INT>", pa.struct([("a", pa.float64())]), {"a": 0.5}, "narrowed.a is int"),
    "in_array": ("ARRAY<INT>", pa.list_(pa.string()), ["x"], "in_array.element is int"),
    "no_struct": ("STRUCT<a: INT>", pa.string(), "x", "no_struct is struct<a:int>"),
    "key": ("MAP<INT, INT>", pa.map_(pa.int64(), pa.int32()), [(2**40, 1)], "key.key is int"),
}


def test_what_does_not_fit_or_may_not_change_is_refused_by_its_path(flow: Flow, tmp_path: Path) -> None:
    more = {"s": ("STRUCT<a: INT>",), "m": ("MAP<STRING, STRUCT<a: INT>>",)}
    made(flow, ", ".join(f"{name} {kind}" for name, (kind, *_) in {**UNFIT, **more}.items()), 2)
    before = flow.loaded().schema()
    kept: dict[str, Any] = {"missing_columns": "null"}
    with pytest.raises(BadInputError) as unfit:
        applied(flow, typed_file(tmp_path / "a.parquet", [1], UNFIT), "run 1", schema_contract=SchemaContract(**kept))
    assert [name for name, (*_, said) in UNFIT.items() if said not in str(unfit.value)] == []
    records = {"s": {"a": 1, "n": 1}, "in_array": [2**40]}
    grown = {"s": ("", pa.struct([("a", pa.int64()), ("n", pa.int32())]), records["s"], None)}
    with pytest.raises(BadInputError, match=r"new or wider columns \['s.a', 's.n'\]"):
        applied(
            flow,
            typed_file(tmp_path / "b.parquet", [1], grown),
            "run 1",
            schema_contract=SchemaContract(new_columns="freeze", wider_types="freeze", **kept),
        )
    for twins in ({"s": {"a": 1, "A": 2}}, {"s": {"n": {"b": 1, "B": 1}}}, {"m": {"k": {"a": 1}, "l": {"A": 2}}}):
        with pytest.raises(BadInputError, match="without case"):
            applied(flow, written(tmp_path / "c.json", {"id": 1, **twins}), "r", schema_contract=SchemaContract(**kept))
    assert flow.loaded().schema() == before


REQUIRED = {
    "v": ("STRING NOT NULL", "x", None, "v"),
    "s": ("STRUCT<a: INT NOT NULL, b: INT>", {"a": 1, "b": 1}, {"b": 2}, "s.a"),
    "d": ("STRUCT<s: STRUCT<a: INT NOT NULL>>", {"s": {"a": 1}}, {"s": {"a": None}}, "d.s.a"),
    "l": ("ARRAY<STRUCT<a: INT NOT NULL>>", [{"a": 1}], [{"a": 1}, {"a": None}], "l.element.a"),
    "m": ("MAP<STRING, STRUCT<a: INT NOT NULL>>", {"k": {"a": 1}}, {"k": {"a": None}}, "m.value.a"),
    "w": ("STRUCT<l: ARRAY<STRUCT<a: INT NOT NULL>>>", {"l": [{"a": 1}]}, {"l": [{"a": None}]}, "w.l.element.a"),
    "x": ("STRUCT<`a'b`: INT NOT NULL>", {"a'b": 1}, {"a'b": None}, "x.a'b"),
    "y": ("STRUCT<s: STRUCT<a: INT> NOT NULL>", {"s": {"a": 1}}, {"s": None}, "y.s"),
}


@pytest.mark.parametrize(("strategy", "version"), WAYS)
def test_null_for_what_the_table_requires_is_bad_input_with_path_and_count(
    flow: Flow, tmp_path: Path, strategy: UpsertStrategy, version: int
) -> None:
    made(flow, ", ".join(f"{name} {kind}" for name, (kind, *_) in REQUIRED.items()), version)
    good = {"id": 1, **{name: given for name, (_, given, *_) in REQUIRED.items()}}
    bad = {name: wrong for name, (*_, wrong, _) in REQUIRED.items()}
    records = [good, {**good, "id": 2, **bad}, {**good, "id": 3, **bad}]
    applied(flow, written(tmp_path / "a.json", good), "run 1", strategy=strategy)
    head = flow.loaded().current_snapshot()
    with pytest.raises(BadInputError) as refused:
        applied(flow, written(tmp_path / "b.json", *records), "run 2", strategy=strategy)
    counts = {path: 2 for *_, path in REQUIRED.values()}
    assert str(counts) in str(refused.value)
    assert not refused.value.retry_may_help
    assert flow.loaded().current_snapshot() == head
    one = [{**good, "id": 4, name: wrong} for name, (*_, wrong, _) in REQUIRED.items()][:1]
    with pytest.raises(BadInputError, match=r"'v': 1"):
        applied(flow, written(tmp_path / "c.json", *one), "run 3", strategy=strategy)


def test_an_update_that_leaves_null_where_a_value_is_required_is_refused(flow: Flow, tmp_path: Path) -> None:
    made(flow, ", ".join(f"{name} {kind}" for name, (kind, *_) in REQUIRED.items()), 3)
    good = {"id": 1, **{name: given for name, (_, given, *_) in REQUIRED.items()}}
    applied(flow, written(tmp_path / "a.json", good), "run 1")

    for value, paths in ({"v": "NULL"}, {"v": 1}), ({"s": "named_struct('a', NULL, 'b', 1)"}, {"s.a": 1}):
        with pytest.raises(BadInputError) as refused:
            updated(flow, str(paths), **value)
        assert str(paths) in str(refused.value)
    updated(flow, "run 2", s="named_struct('b', 8, 'a', 7)", v="'y'")
    assert rows_of(flow)[1]["s"] == {"a": 7, "b": 8}
    with pytest.raises(InvalidSpecError, match=r"in the fields \['s.c', 's.b'\]"):
        updated(flow, "run 3", s="named_struct('a', 7, 'c', 8)")


@pytest.mark.parametrize("strategy", [POSITIONS, COPY, MERGE])
def test_a_field_that_no_struct_of_the_batch_has_keeps_its_old_value(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    kinds = "s STRUCT<a: INT, b: INT, d: STRUCT<x: INT, y: INT>>, l ARRAY<STRUCT<a: INT, b: INT>>"
    made(flow, f"{kinds}, m MAP<STRING, INT>, e STRUCT<a: INT>", 3)
    old = "named_struct('a', 1, 'b', 2, 'd', named_struct('x', 3, 'y', 4)), array(named_struct('a', 1, 'b', 2))"
    old += ", map('k', 1), named_struct('a', 1)"
    spark.sql(f"INSERT INTO {flow.table} SELECT 1, {old}")
    spark.sql(f"INSERT INTO {flow.table} SELECT 3, {old}")
    records: list[dict[str, Any]] = [{"id": id_, "s": {"d": {"y": 8}, "a": 9}, "l": [{"b": 7}]} for id_ in (1, 2)]
    records += [{"id": 3, "s": None, "l": None}]
    # An empty map is a value, an empty struct has no field.
    records = [{**record, "m": {}, "e": {}} for record in records]
    keep = SchemaContract(missing_columns="keep")
    applied(flow, written(tmp_path / "a.json", *records), "run 1", strategy=strategy, schema_contract=keep)
    assert rows_of(flow) == {
        1: {"s": {"a": 9, "b": 2, "d": {"x": 3, "y": 8}}, "l": [{"a": None, "b": 7}], "m": {}, "e": {"a": 1}},
        2: {"s": {"a": 9, "b": None, "d": {"x": None, "y": 8}}, "l": [{"a": None, "b": 7}], "m": {}, "e": None},
        3: {"s": None, "l": None, "m": {}, "e": {"a": 1}},
    }


def test_an_incremental_target_gets_new_fields_and_no_null_where_a_value_is_required(
    spark: SparkSession, flow: Flow, tmp_path: Path
) -> None:
    made(flow, "s STRUCT<a: INT NOT NULL>", 3)
    source = Flow(spark, f"{flow.table}_source", tmp_path)
    made(source, "s STRUCT<b: INT, a: INT>", 3)

    def run(value: str, id_: int) -> Any:
        spark.sql(f"INSERT INTO {source.table} VALUES ({id_}, {value})")
        head = source.loaded().current_snapshot()
        assert head is not None
        spec = IncrementalSpec(
            catalog="lake_default",
            table=flow.table,
            run=RunIdentity.of("dag", value, "task", "-1"),
            source=source.table,
            consumer="c",
            keys=("id",),
            source_keys=("id",),
            to_snapshot=str(head.snapshot_id),
            query="SELECT * FROM changes",
        )
        return run_incremental(spark, spec, Progress())

    run("named_struct('b', 2, 'a', 1)", 1)
    assert rows_of(flow) == {1: {"s": {"a": 1, "b": 2}}}
    with pytest.raises(BadInputError, match=r"{'s.a': 1}"):
        run("named_struct('b', 2, 'a', NULL)", 2)
