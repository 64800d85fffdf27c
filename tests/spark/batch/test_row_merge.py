"""Ways of merging rows of one key where an order, a delete or a missing column decides."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate, Deletes, PartialUpdate
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from tests.spark.merge_model import CASES, SCHEMA, Row, apply_batch, held, new_flow
from tests.spark.upsert_flow import InterruptedProgress

STRATEGIES = [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE]


def layout(version: str) -> TableLayout:
    return TableLayout(properties={"format-version": version})


def test_the_first_row_keeps_its_own_order_also_when_that_is_null(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["first"], layout("3"))
    row = {"id": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", {**row, "at": None}, {**row, "at": 2, "n": 2})
    flow.apply("run 1")
    assert held(flow) == {1: {"at": None, "g": 0, "a": "x", "n": 1, "f": True}}


def test_a_group_without_an_order_is_left_alone_also_by_the_first_row_of_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = new_flow(spark, tmp_path, CASES["partial"], layout("3"))
    first = {"id": 1, "at": 0, "g": None, "a": "x", "n": 1, "f": True, "op": "u"}
    ordered = {**first, "id": 2, "g": 0}
    without = {"at": 1, "g": None, "a": None, "n": None, "f": False}
    batches = [[first, ordered], [{**first, **without}, {**ordered, **without}]]
    model: dict[int, Row] = {}
    for number, batch in enumerate(batches):
        flow.arrive(f"{number}.jsonl", *batch)
        flow.apply(f"run {number}")
        apply_batch(model, batch, CASES["partial"])
        assert held(flow) == model
    left = {"at": 1, "n": 1, "f": False}
    assert model == {1: {**left, "g": None, "a": None}, 2: {**left, "g": 0, "a": "x"}}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_late_update_does_not_bring_a_deleted_key_back(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, CASES["replace, soft, stale ignored"], layout("3"))
    for at, op in ((1, "u"), (3, "d"), (2, "u")):
        flow.arrive(f"{at}.jsonl", {"id": 1, "at": at, "g": 0, "a": "x", "n": at, "f": True, "op": op})
        flow.apply(f"run {at}", strategy=strategy)
    assert held(flow) == {1: {"at": 3, "g": 0, "a": "x", "n": 1, "f": True, "is_deleted": True}}


@pytest.mark.parametrize("branch", [None, "audit"])
def test_a_retry_that_finds_more_files_than_the_try_that_committed_adds_nothing_twice(
    spark: SparkSession, tmp_path: Path, branch: str | None
) -> None:
    flow = new_flow(spark, tmp_path, CASES["aggregate"], layout("3"))
    row = {"id": 1, "at": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", row)
    flow.apply("run 1")

    def attempt(clearing: str, number: int) -> UpsertReport:
        run = RunIdentity.of("dag", "run 2", "task", "-1", clearing, try_number=number)
        return flow.apply(identity=run, on_repeat=OnRepeat.APPLY, branch=branch)

    def total() -> int:
        return int(spark.read.option("branch", branch or "main").table(flow.table).collect()[0]["n"])

    flow.arrive("2.jsonl", {**row, "n": 10})
    first = attempt("up to try 2", 1)
    flow.arrive("3.jsonl", {**row, "n": 100})
    retry = attempt("up to try 2", 2)
    assert (retry.outcome, total()) == (Outcome.ALREADY_APPLIED, 12)
    assert (str(first.run_key) in str(retry.reason), "has changed since" in retry.warnings[0]) == (True, True)
    assert (attempt("up to try 4", 3).outcome, total()) == (Outcome.APPLIED, 123)


def test_values_of_a_row_that_changed_meanwhile_are_merged_again(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["aggregate"], layout("3"))
    row = {"id": 1, "at": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}
    flow.arrive("1.jsonl", row)
    flow.apply("run 1")
    flow.arrive("2.jsonl", {**row, "n": 10}, {**row, "id": 2, "n": 5})

    def meanwhile() -> None:
        spark.sql(f"UPDATE {flow.table} SET n = 100 WHERE id = 1")
        spark.sql(f"INSERT INTO {flow.table} VALUES (2, 1, 0, 'x', 1000, true)")

    progress = InterruptedProgress(at="commit", then=meanwhile)
    report = flow.apply("run 2", progress=progress, strategy=UpsertStrategy.POSITIONS)
    assert report.attempts == 1
    assert {key: found["n"] for key, found in held(flow).items()} == {1: 110, 2: 1005}


UPDATE: Row = {"id": 1, "at": 1, "g": 0, "a": "x", "n": 1, "f": True, "op": "u"}


def without(column: str, row: Row) -> Row:
    return {name: value for name, value in row.items() if name != column}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("deletes", [Deletes.HARD, Deletes.SOFT])
def test_a_key_that_a_batch_deletes_and_inserts_keeps_no_old_value(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy, deletes: Deletes
) -> None:
    flow = new_flow(spark, tmp_path, Deduplicate(deletes=deletes), layout("3"))
    flow.arrive("1.jsonl", UPDATE, {**UPDATE, "id": 2})
    flow.apply("run 1")
    again = {**UPDATE, "at": 3, "n": 5}
    flow.arrive("2.jsonl", *(without("a", row) for row in ({**UPDATE, "at": 2, "op": "d"}, again, {**again, "id": 2})))
    source = Files(path=f"{tmp_path}/2.jsonl", format="json", schema=SCHEMA.replace(" a STRING,", ""))
    flow.apply("run 2", strategy=strategy, source=source, missing_columns=MissingColumns.KEEP)
    assert {key: (row["n"], row["a"]) for key, row in held(flow).items()} == {1: (5, None), 2: (5, "x")}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_delete_that_is_older_than_the_tables_row_takes_none_of_its_values(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, CASES["replace, soft, stale ignored"], layout("3"))
    flow.arrive("1.jsonl", {**UPDATE, "at": 3}, {**UPDATE, "id": 2, "at": 1})
    flow.apply("run 1")
    changes = [{**UPDATE, "id": id_, "at": at, "op": op} for id_ in (1, 2) for at, op in ((2, "d"), (5, "u"))]
    flow.arrive("2.jsonl", *(without("a", row) for row in changes))
    source = Files(path=f"{tmp_path}/2.jsonl", format="json", schema=SCHEMA.replace(" a STRING,", ""))
    flow.apply("run 2", strategy=strategy, source=source, missing_columns=MissingColumns.KEEP)
    assert {key: (row["at"], row["a"]) for key, row in held(flow).items()} == {1: (5, "x"), 2: (5, None)}


def test_a_soft_delete_without_a_part_of_its_order_keeps_that_of_the_row(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, Deduplicate(deletes=Deletes.SOFT), layout("3"))
    for number, change in enumerate(({}, {"at": 2, "g": None, "op": "d"})):
        flow.arrive(f"{number}.jsonl", {**UPDATE, "g": 7, **change})
        flow.apply(f"run {number}", order_by=("at", "g"))
    assert [(row["at"], row["g"], row["is_deleted"]) for row in held(flow).values()] == [(2, 7, True)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_soft_delete_leaves_the_order_that_it_was_compared_by(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, CASES["replace, soft, stale ignored"], layout("3"))
    orders = [(1, 9, "u"), (2, None, "d"), (2, 5, "u")]
    for number, (at, g, op) in enumerate(orders):
        flow.arrive(f"{number}.jsonl", {**UPDATE, "at": at, "g": g, "n": number, "op": op})
        flow.apply(f"run {number}", strategy=strategy, order_by=("at", "g"))
    assert held(flow) == {1: {"at": 2, "g": 5, "a": "x", "n": 2, "f": True, "is_deleted": False}}


def test_columns_that_collect_and_count_are_read_in_their_own_types(spark: SparkSession, tmp_path: Path) -> None:
    functions = {"a": "collect", "g": "count", "n": "listagg"}
    flow = new_flow(spark, tmp_path, Aggregation(aggregates=functions), layout("3"))
    source = Files(path=f"{tmp_path}/*.jsonl", format="json")
    for at in (1, 2):
        flow.arrive(f"{at}.jsonl", {"id": 1, "at": at, "a": f"a{at}", "g": "red", "n": str(at), "op": "u"})
        flow.apply(f"run {at}", source=source)
    assert held(flow) == {1: {"at": 2, "a": ["a1", "a2"], "g": 2, "n": "1,2"}}
    flow.arrive("3.jsonl", {"id": 1, "at": 3, "a": ["a3", "a4"], "g": 5, "n": "3", "op": "u"})
    query = "SELECT id, at + place AS at, tag AS a, g, n, op FROM source LATERAL VIEW posexplode(a) AS place, tag"
    flow.apply("run 3", source=Query(query, over=Files(path=f"{tmp_path}/3.jsonl", format="json")))
    assert held(flow) == {1: {"at": 4, "a": ["a1", "a2", "a3", "a4"], "g": 4, "n": "1,2,3,3"}}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_narrower_order_than_the_tables_is_compared_with_it(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, Deduplicate(ignore_stale=True, deletes=Deletes.IGNORE), layout("3"))
    flow.arrive("1.jsonl", {**UPDATE, "at": 5}, {**UPDATE, "id": 2, "at": 5})
    wide = Files(path=f"{tmp_path}/1.jsonl", format="json", schema=SCHEMA.replace("at INT", "at BIGINT"))
    flow.apply("run 1", source=wide)
    spark.sql("SELECT 1L AS id, 4 AS at, 'u' AS op, 9L AS n").write.parquet(f"{tmp_path}/late")
    spark.sql("SELECT 2L AS id, 6 AS at, 'u' AS op, 9L AS n").write.mode("append").parquet(f"{tmp_path}/late")
    late = Files(path=f"{tmp_path}/late", format="parquet")
    flow.apply("run 2", strategy=strategy, source=late, missing_columns=MissingColumns.KEEP)
    assert {key: row["n"] for key, row in held(flow).items()} == {1: 1, 2: 9}


@pytest.mark.parametrize(("case", "lacks"), [("partial", "g"), ("partial", "a"), ("aggregate", "n")])
def test_columns_of_the_merge_engine_that_a_batch_lacks_keep_their_values(
    spark: SparkSession, tmp_path: Path, case: str, lacks: str
) -> None:
    flow = new_flow(spark, tmp_path, CASES[case], layout("3"))
    flow.arrive("1.jsonl", UPDATE)
    flow.apply("run 1")
    flow.arrive("2.jsonl", without(lacks, {**UPDATE, "at": 2, "g": 3, "f": False}))
    kind = {"g": "g INT, ", "a": "a STRING, ", "n": "n BIGINT, "}[lacks]
    source = Files(path=f"{tmp_path}/2.jsonl", format="json", schema=SCHEMA.replace(kind, ""))
    flow.apply("run 2", source=source)
    found = held(flow)[1]
    assert (found["at"], found["f"], found[lacks]) == (2, False, UPDATE[lacks])
    assert found["a"] == ("x,x" if case == "aggregate" else "x")


def test_a_column_that_neither_batch_nor_table_has_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    flow = new_flow(spark, tmp_path, CASES["partial"], layout("3"))
    flow.arrive("1.jsonl", UPDATE)
    flow.apply("run 1")
    flow.arrive("2.jsonl", UPDATE)
    wrong = PartialUpdate(sequence_groups={"g": ("colour",)})
    with pytest.raises(BadInputError, match="colour"):
        flow.apply("run 2", merge_engine=wrong)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_decimals_are_summed_in_the_type_of_the_table(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, Aggregation(aggregates={"n": "sum"}), layout("3"))
    spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, n DECIMAL(8, 2)) USING iceberg")
    for run in range(2):
        folder = tmp_path / f"batch-{run}"
        spark.sql(
            "SELECT 1L AS id, CAST(n AS DECIMAL(5, 2)) AS n FROM VALUES (999.99), (999.99) AS t(n)"
        ).write.parquet(str(folder))
        source = Files(f"{folder}/*.parquet", name=folder.name)
        flow.apply(f"run {run}", source=source, order_by=(), delete_when=None, strategy=strategy)
    assert held(flow) == {1: {"n": Decimal("3999.96")}}
    assert str(flow.loaded().schema().find_type("n")) == "decimal(8, 2)"


def test_sums_and_counts_keep_the_types_of_a_table_whose_contract_widens_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = new_flow(spark, tmp_path, Aggregation({"n": "sum", "f": "sum", "c": "count"}), layout("3"))
    columns = "id BIGINT, n INT, f FLOAT, c INT"
    spark.sql(f"CREATE TABLE {flow.table} ({columns}) USING iceberg")
    widens_floats = SchemaContract(wider_types="freeze", by_column={"f": "evolve"})
    frozen = {"schema_contract": widens_floats}
    plain = {"order_by": (), "delete_when": None}

    def add(run: str, numbers: tuple[int, ...], kind: str = "INT", **arguments: Any) -> None:
        folder = tmp_path / run
        values = ", ".join(f"({number})" for number in numbers)
        made = f"1L AS id, CAST(n AS {kind}) AS n, CAST(0.5 AS FLOAT) AS f, 'x' AS c"
        spark.sql(f"SELECT {made} FROM VALUES {values} AS t(n)").write.parquet(str(folder))
        flow.apply(run, source=Files(f"{folder}/*.parquet", name=run), **{**plain, **frozen, **arguments})

    # A DOUBLE may be greater than all of FLOAT, and a FLOAT does not count on from 2^24.
    with pytest.raises(BadInputError, match=r"wider columns \['f'\].*freezes them"):
        add("0", (1, 2), schema_contract=SchemaContract(wider_types="freeze"))
    add("1", (1, 2))
    add("2", (3,), "SMALLINT")
    assert held(flow) == {1: {"n": 6, "f": 1.5, "c": 3}}
    with pytest.raises(SPARK_ERRORS, match=r"CAST_OVERFLOW"):
        add("3", (2_000_000_000, 2_000_000_000))
    with pytest.raises(SPARK_ERRORS, match=r"ARITHMETIC_OVERFLOW"):
        add("6", (2_147_483_647,))
    with pytest.raises(BadInputError, match=r"wider columns \['n'\].*freezes them"):
        add("4", (1,), "BIGINT")
    assert held(flow) == {1: {"n": 6, "f": 1.5, "c": 3}}
    assert spark.table(flow.table).dtypes == [("id", "bigint"), ("n", "int"), ("f", "double"), ("c", "int")]
    add("5", (1,), "BIGINT", schema_contract=SchemaContract())
    assert spark.table(flow.table).dtypes == [("id", "bigint"), ("n", "bigint"), ("f", "double"), ("c", "bigint")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_order_may_have_a_key_in_another_spelling(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = new_flow(spark, tmp_path, Deduplicate(ignore_stale=True, deletes=Deletes.SOFT), layout("3"))
    for run, at in enumerate((2, 3, 1)):
        flow.arrive(f"{run}.jsonl", {**UPDATE, "at": at})
        flow.apply(f"run {run}", keys=("ID",), order_by=("at", "id"), strategy=strategy)
    assert [row["at"] for row in held(flow).values()] == [3]
