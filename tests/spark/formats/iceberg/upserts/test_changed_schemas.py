"""An upsert right after the schema has changed: by every strategy, with the columns that the names mean now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.table_differences import WholeRows
from tests.spark.formats.iceberg.upserts.test_nested_schemas import (
    COPY,
    EQUALITY,
    MERGE,
    POSITIONS,
    applied,
    made,
    rows_of,
    updated,
    written,
)
from tests.spark.upsert_flow import Flow, InterruptedProgress

AUTO = UpsertStrategy.AUTO
NEEDS_VARIANT = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no VARIANT")
# What is done to a table of ``id, a, n`` with row 1, the record of the batch, and what row 1 is then.
CHANGES: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
    "column added": (["ADD COLUMN b STRING"], {"a": "A", "n": 2, "b": "B"}, {"a": "A", "n": 2, "b": "B"}),
    "type widened": (["ALTER COLUMN n TYPE BIGINT"], {"a": "A", "n": 2**40}, {"a": "A", "n": 2**40}),
    "column dropped": (["DROP COLUMN a"], {"n": 2}, {"n": 2}),
    "column renamed": (["RENAME COLUMN a TO b"], {"b": "B", "n": 2}, {"b": "B", "n": 2}),
    "names swapped": (
        ["RENAME COLUMN id TO old", "RENAME COLUMN n TO id", "RENAME COLUMN old TO n"],
        {"a": "A", "n": 9},
        {"a": "A", "n": 9},
    ),
    "dropped and added again": (["DROP COLUMN a", "ADD COLUMN a STRING"], {"n": 2, "a": "A"}, {"n": 2, "a": "A"}),
    "reordered": (["ALTER COLUMN n FIRST"], {"a": "A", "n": 2}, {"a": "A", "n": 2}),
    "field added by the batch": ([], {"a": "A", "n": 2, "more": {"x": 1}}, {"a": "A", "n": 2, "more": {"x": 1}}),
}


def ordered(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {id_: dict(sorted(row.items())) for id_, row in sorted(rows.items())}


# Each change by one of them; the property test beside has them by all.
WAYS = [(COPY, 1), (POSITIONS, 2), (EQUALITY, 3), (POSITIONS, 3)]
IN_TURN = [(*WAYS[place % len(WAYS)], change) for place, change in enumerate(CHANGES)]


@pytest.mark.parametrize(("strategy", "version", "change"), [*IN_TURN, (COPY, 3, "names swapped")])
def test_a_batch_after_a_change_of_the_schema_is_applied_by_the_asked_strategy(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy, version: int, change: str
) -> None:
    statements, record, expected = CHANGES[change]
    # With the names swapped, the key of row 1 is what was in ``n``.
    made(flow, "a STRING, n BIGINT" if change == "names swapped" else "a STRING, n INT", version)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 1), (5, 'e', 7)")
    for statement in statements:
        spark.sql(f"ALTER TABLE {flow.table} {statement}")
    report = applied(
        flow, written(tmp_path / "a.json", {"id": 1, **record}, {"id": 2, **record}), "run 1", strategy=strategy
    )
    assert report.strategy == strategy.value
    found = rows_of(flow)
    assert sorted(found) == [1, 2, 7 if change == "names swapped" else 5]
    assert ordered({id_: found[id_] for id_ in (1, 2)}) == ordered({1: expected, 2: expected})


@pytest.mark.parametrize("strategy", [POSITIONS, COPY, EQUALITY])
def test_a_commit_in_between_is_rebased_by_a_batch_that_has_added_a_column(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    made(flow, "a STRING", 2)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a')")
    path = written(tmp_path / "a.json", {"id": 1, "a": "A", "b": 1})
    progress = InterruptedProgress(
        at="commit", then=lambda: spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'x', NULL)")
    )
    report = applied(flow, path, "run 1", progress=progress, strategy=strategy)
    assert report.attempts == 1
    assert rows_of(flow) == {1: {"a": "A", "b": 1}, 9: {"a": "x", "b": None}}


@pytest.mark.parametrize("strategy", [POSITIONS, COPY])
def test_a_rename_and_a_commit_in_between_make_a_batch_decide_again(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    made(flow, "a STRING", 2)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a')")

    def meanwhile() -> None:
        spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN a TO b")
        spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'x')")

    path = written(tmp_path / "a.json", {"id": 1, "a": "A"})
    null = SchemaContract(missing_columns="null")
    report = applied(
        flow,
        path,
        "run 1",
        progress=InterruptedProgress(at="commit", then=meanwhile),
        strategy=strategy,
        schema_contract=null,
    )
    assert report.attempts == 2
    assert rows_of(flow) == {1: {"a": "A", "b": None}, 9: {"a": None, "b": "x"}}


@pytest.mark.parametrize(
    ("strategy", "phase"), [(POSITIONS, "choose"), (COPY, "stage"), (EQUALITY, "stage"), (MERGE, "choose")]
)
def test_a_rename_without_a_commit_makes_a_batch_decide_again(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy, phase: str
) -> None:
    made(flow, "a STRING", 2)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a'), (9, 'x')")
    rename = InterruptedProgress(at=phase, then=lambda: spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN a TO b"))
    null = SchemaContract(missing_columns="null")
    path = written(tmp_path / "a.json", {"id": 1, "a": "A"})
    report = applied(flow, path, "run 1", progress=rename, strategy=strategy, schema_contract=null)
    assert report.attempts == 2
    assert rows_of(flow) == {1: {"a": "A", "b": None}, 9: {"a": None, "b": "x"}}


def test_a_rename_before_the_plan_of_a_whole_load_makes_it_decide_again(
    spark: SparkSession, flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(flow, "a STRING", 2)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a'), (9, 'x')")
    renames = [f"ALTER TABLE {flow.table} RENAME COLUMN a TO b"]
    compare = WholeRows.differences

    def late(*arguments: Any) -> Any:
        differences = compare(*arguments)
        while renames:
            spark.sql(renames.pop())
        return differences

    monkeypatch.setattr(WholeRows, "differences", late)
    null = SchemaContract(missing_columns="null")
    path = written(tmp_path / "a.json", {"id": 1, "a": "A"}, {"id": 9, "a": "x"})
    report = applied(flow, path, "run 1", is_complete=True, strategy=COPY, schema_contract=null)
    assert report.attempts == 2
    assert rows_of(flow) == {1: {"a": "A", "b": None}, 9: {"a": "x", "b": None}}


def test_orc_files_are_read_by_the_names_of_now(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    made(flow, "a STRING", 2)
    spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('write.format.default' = 'orc')")
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a'), (2, 'b')")
    for statement in ("RENAME COLUMN id TO old", "RENAME COLUMN a TO id", "RENAME COLUMN old TO a"):
        spark.sql(f"ALTER TABLE {flow.table} {statement}")
    applied(flow, written(tmp_path / "a.json", {"id": "a", "a": 5}), "run 1", strategy=POSITIONS)
    assert rows_of(flow) == {"a": {"a": 5}, "b": {"a": 2}}


@NEEDS_VARIANT
@pytest.mark.parametrize(
    ("strategy", "missing"), [(AUTO, "keep"), (POSITIONS, "null"), (COPY, "keep"), (MERGE, "keep")]
)
def test_a_variant_that_was_just_added_is_no_obstacle_but_to_merge(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy, missing: str
) -> None:
    made(flow, "a STRING", 3)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN x VARIANT")
    path = written(tmp_path / "a.json", {"id": 1, "a": "A"}, {"id": 3, "a": "C"})
    contract = SchemaContract(missing_columns=missing)
    if strategy is MERGE:
        with pytest.raises(UnsupportedError, match=r"columns \['x'\] of type VARIANT"):
            applied(flow, path, "run 1", strategy=strategy, schema_contract=contract)
        return
    applied(flow, path, "run 1", strategy=strategy, schema_contract=contract)
    assert rows_of(flow) == {1: {"a": "A", "x": None}, 2: {"a": "b", "x": None}, 3: {"a": "C", "x": None}}


@NEEDS_VARIANT
def test_an_update_of_rows_tells_that_a_variant_was_just_added(spark: SparkSession, flow: Flow) -> None:
    made(flow, "a STRING", 3)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a')")
    spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN x VARIANT")
    with pytest.raises(UnsupportedError, match=r"columns \['x'\] of type VARIANT"):
        updated(flow, "run 1", a="'b'")


def with_defaults(flow: Flow) -> None:
    """Add columns with an initial default, then another write default; Spark's SQL cannot."""
    jvm: Any = flow.spark._jvm
    iceberg = jvm.org.apache.iceberg
    literal, types = iceberg.expressions.Literal, iceberg.types.Types
    table = iceberg.spark.Spark3Util.loadIcebergTable(flow.spark._jsparkSession, flow.table)
    change = table.updateSchema()
    change.addColumn("i", types.IntegerType.get(), "", literal.of(7))
    change.addColumn("t", types.StringType.get(), "", literal.of("it's"))
    change.addColumn("f", types.BooleanType.get(), "", literal.of(True))
    change.addRequiredColumn("r", types.IntegerType.get(), "", literal.of(1))
    change.addColumn("s", "d", types.IntegerType.get(), "", literal.of(3))
    change.commit()
    table.updateSchema().updateColumnDefault("i", literal.of(9)).commit()
    flow.spark.catalog.refreshTable(flow.table)


@pytest.mark.parametrize("strategy", [POSITIONS, COPY, MERGE])
def test_a_new_row_gets_write_defaults_and_an_old_one_keeps_its_values(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    made(flow, "a STRING, s STRUCT<c: INT>", 3)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', named_struct('c', 1)), (2, 'b', NULL)")
    with_defaults(flow)
    spark.sql(f"INSERT INTO {flow.table} VALUES (4, 'd', named_struct('c', 1, 'd', 5), 44, 't', false, 6)")
    records = [{"id": id_, "a": "x", "s": {"c": 0}} for id_ in (1, 4, 9)]
    keep = SchemaContract(missing_columns="keep")
    applied(flow, written(tmp_path / "a.json", *records), "run 1", strategy=strategy, schema_contract=keep)
    old = {"i": 7, "t": "it's", "f": True, "r": 1}
    assert rows_of(flow) == {
        1: {"a": "x", "s": {"c": 0, "d": 3}, **old},
        2: {"a": "b", "s": None, **old},
        4: {"a": "x", "s": {"c": 0, "d": 5}, "i": 44, "t": "t", "f": False, "r": 6},
        9: {"a": "x", "s": {"c": 0, "d": 3}, **old, "i": 9},
    }


@pytest.mark.parametrize("strategy", [POSITIONS, COPY, MERGE, EQUALITY])
def test_null_that_was_asked_for_is_null_in_every_row_and_refused_for_what_is_required(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    made(flow, "a STRING, s STRUCT<c: INT>", 3)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', named_struct('c', 1))")
    with_defaults(flow)
    null = SchemaContract(missing_columns="null")
    path = written(tmp_path / "a.json", *({"id": id_, "s": {"c": 0}} for id_ in (1, 9)))
    with pytest.raises(BadInputError, match=r"the columns \['r'\], which the table requires"):
        applied(flow, path, "run 1", strategy=strategy, schema_contract=null)
    spark.sql(f"ALTER TABLE {flow.table} ALTER COLUMN r DROP NOT NULL")
    applied(flow, path, "run 1", strategy=strategy, schema_contract=null)
    row = {"a": None, "s": {"c": 0, "d": None}, **dict.fromkeys(("i", "t", "f", "r"))}
    assert rows_of(flow) == {1: row, 9: row}


@pytest.mark.parametrize("strategy", [POSITIONS, COPY, MERGE])
def test_a_required_column_that_the_batch_lacks_is_counted_in_the_new_rows_alone(
    spark: SparkSession, flow: Flow, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    made(flow, "a STRING, r INT NOT NULL", 3)
    spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 1), (2, 'b', 2)")
    keep = SchemaContract(missing_columns="keep")
    old = [{"id": id_, "a": "x"} for id_ in (1, 2)]
    path = written(tmp_path / "a.json", *old, {"id": 8, "a": "n"}, {"id": 9, "a": "n"})
    with pytest.raises(BadInputError, match=r"in so many rows: {'r': 2}"):
        applied(flow, path, "run 1", strategy=strategy, schema_contract=keep)
    applied(flow, written(tmp_path / "b.json", *old), "run 2", strategy=strategy, schema_contract=keep)
    assert rows_of(flow) == {1: {"a": "x", "r": 1}, 2: {"a": "x", "r": 2}}


def test_a_contract_leaves_values_that_are_counted_alone(flow: Flow) -> None:
    flow.make_table("id BIGINT, tag BIGINT, n INT")
    flow.arrive("1.jsonl", {"id": 1, "tag": "abc", "n": "7"}, {"id": 1, "tag": "x", "n": "lost"})
    source = Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, tag STRING, n STRING")
    engine = Aggregation({"tag": "count", "n": "max"})
    flow.apply("run 1", source=source, merge_engine=engine, delete_when=None, schema_contract="discard_value")
    assert [(row["id"], row["tag"], row["n"]) for row in flow.records()] == [(1, 2, 7)]


def test_a_column_that_the_contract_discards_orders_rows_only_where_it_is_excluded(flow: Flow) -> None:
    flow.make_table("id BIGINT, n INT")
    flow.arrive("1.jsonl", {"id": 1, "n": 2, "at": 2}, {"id": 1, "n": 1, "at": 1})
    given: dict[str, Any] = {
        "source": Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, n INT, at INT"),
        "order_by": ("at",),
        "delete_when": "at > 5",
    }
    with pytest.raises(BadInputError, match=r"\['at'\], which the table lacks and schema_contract leaves out; name"):
        flow.apply("run 1", **given, schema_contract="discard_value")
    contract = SchemaContract(new_columns="discard_value", exclude_columns=["at"])
    flow.apply("run 1", **given, schema_contract=contract)
    assert list(flow.records()) == [{"id": 1, "n": 2}]
