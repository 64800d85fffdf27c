"""Queries over several inputs, changes of a table, and tables as of a moment; each against a model in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, RangeUnavailableError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.cached_rdds import cached_rdds
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, Killed, kill, row

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
JOINED = """
    SELECT o.id, c.name, o.n, o._change_type FROM orders o LEFT JOIN customers c ON o.customer = c.id
"""


@dataclass
class Shop:
    """Orders and customers, what they hold, and the target as it has to be.

    :param orders: customer and number by id.
    :param customers: name by id.
    """

    flow: Flow
    orders: dict[int, tuple[int, int]] = field(default_factory=dict)
    customers: dict[int, str] = field(default_factory=dict)
    applied: dict[int, tuple[int, int]] = field(default_factory=dict)
    expected: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spark, plain = self.flow.spark, "USING iceberg TBLPROPERTIES ('format-version' = '3')"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS flows")
        spark.sql(f"CREATE TABLE {self.flow.table}_orders (id BIGINT NOT NULL, customer BIGINT, n INT) {plain}")
        spark.sql(f"ALTER TABLE {self.flow.table}_orders SET IDENTIFIER FIELDS id")
        spark.sql(f"CREATE TABLE {self.flow.table}_customers (id BIGINT, name STRING) {plain}")

    @property
    def source(self) -> Query:
        orders, customers = (f"{self.flow.table}_{name}" for name in ("orders", "customers"))
        return Query(JOINED, over={"orders": Changes(orders), "customers": LakeTable(customers)}, name="shop")

    def put_orders(self, changed: dict[int, tuple[int, int] | None]) -> str:
        self.orders = put(self.flow, "orders", self.orders, changed)
        return self.head("orders")

    def put_customers(self, changed: dict[int, tuple[str] | None]) -> str:
        names = put(self.flow, "customers", {id_: (name,) for id_, name in self.customers.items()}, changed)
        self.customers = {id_: name for id_, (name,) in names.items()}
        return self.head("customers")

    def head(self, table: str) -> str:
        return str(self.on(table).loaded().metadata.current_snapshot_id)

    def on(self, table: str) -> Flow:
        return replace(self.flow, table=f"{self.flow.table}_{table}")

    def apply(self, run: str, **changes: Any) -> Any:
        report = self.flow.apply(run, **{"source": self.source, **PLAIN, **changes})
        if report.outcome is Outcome.APPLIED:
            # Rows that did not change keep the name that they were joined with.
            changed = {id_ for id_ in self.orders if self.orders[id_] != self.applied.get(id_)}
            gone = self.applied.keys() - self.orders.keys()
            joined = {id_: (self.customers.get(self.orders[id_][0]), self.orders[id_][1]) for id_ in changed}
            self.expected = {id_: each for id_, each in {**self.expected, **joined}.items() if id_ not in gone}
            self.applied = dict(self.orders)
        return report


def put(flow: Flow, table: str, held: dict[int, Any], changed: dict[int, Any]) -> dict[int, Any]:
    """Put rows into a table, None for a delete, in one commit; return what it holds then."""
    remaining = {id_: values for id_, values in {**held, **changed}.items() if values is not None}
    if not any(changed.values()):
        flow.spark.sql(f"DELETE FROM {flow.table}_{table} WHERE id IN ({', '.join(map(str, changed))})")
        return remaining
    if not changed.keys() & held.keys():
        rows = ", ".join(str((id_, *values)) for id_, values in changed.items())
        flow.spark.sql(f"INSERT INTO {flow.table}_{table} VALUES {rows}")
        return remaining
    names = {"orders": ("customer", "n"), "customers": ("name",)}[table]
    changes = [(id_, *(values or (None,) * len(names)), values is None) for id_, values in changed.items()]
    kinds = {"orders": "customer BIGINT, n INT", "customers": "name STRING"}[table]
    flow.spark.createDataFrame(changes, f"id BIGINT, {kinds}, gone BOOLEAN").createOrReplaceTempView("changed_rows")
    flow.spark.sql(
        f"MERGE INTO {flow.table}_{table} t USING changed_rows s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in names)} "
        f"WHEN NOT MATCHED THEN INSERT (id, {', '.join(names)}) VALUES (s.id, {', '.join(f's.{n}' for n in names)})"
    )
    flow.spark.catalog.dropTempView("changed_rows")
    return remaining


def test_changes_joined_with_a_table_are_applied_once_through_retries_kills_roll_backs_and_expiry(flow: Flow) -> None:
    shop = Shop(flow)
    shop.put_customers({1: ("ann",), 2: ("bob",)})
    shop.put_orders({10: (1, 5), 11: (2, 6), 12: (3, 7)})
    first = shop.apply("run 1")
    assert (first.outcome, first.batch_rows, flow.rows()) == (Outcome.APPLIED, 3, shop.expected)
    assert flow.loaded().schema().column_names == ["id", "name", "n"]
    positions = json.loads(flow.properties()["lake.position.shop"])["positions"]
    assert positions == {f"snapshot:{name}": shop.head(name) for name in ("orders", "customers")}
    for run, outcome in (("run 1", Outcome.ALREADY_APPLIED), ("run 2", Outcome.NOTHING_NEW)):
        assert shop.apply(run).outcome is outcome
    # Customers alone are no work: orders decide.
    shop.put_customers({1: ("anna",), 3: ("cyd",)})
    assert shop.apply("run 3").outcome is Outcome.NOTHING_NEW
    base = shop.put_orders({10: (1, 50), 11: None, 13: (3, 8)})
    with pytest.raises(Killed):
        flow.apply("run 4", progress=InterruptedProgress(at="commit", then=kill), source=shop.source, **PLAIN)
    retried = shop.apply("run 4")
    assert (retried.outcome, retried.batch_rows) == (Outcome.APPLIED, 3)
    assert flow.rows() == shop.expected == {10: ("anna", 50), 12: (None, 7), 13: ("cyd", 8)}
    # What is not read yet is kept from an expiry by the tag of what is.
    shop.put_orders({14: (2, 9)})
    newest = shop.put_orders({12: None})
    orders = shop.on("orders")
    flow.spark.sql(f"CALL system.expire_snapshots('{orders.table}', TIMESTAMP '2100-01-01 00:00:00', 1)")
    assert {str(each.snapshot_id) for each in orders.loaded().metadata.snapshots} == {base, newest}
    assert shop.apply("run 5").outcome is Outcome.APPLIED
    assert flow.rows() == shop.expected
    tags = {name: ref.snapshot_id for name, ref in orders.loaded().metadata.refs.items() if name != "main"}
    assert list(tags.values()) == [int(newest)]
    # Rolled back, the orders are what they were.
    shop.put_orders({15: (1, 1)})
    assert shop.apply("run 6").outcome is Outcome.APPLIED
    flow.spark.sql(f"CALL system.rollback_to_snapshot('{orders.table}', {newest})")
    shop.orders = {10: (1, 50), 13: (3, 8), 14: (2, 9)}
    assert shop.apply("run 7").outcome is Outcome.APPLIED
    assert flow.rows() == shop.expected
    # Without the tag the start is gone, and nothing is guessed.
    shop.put_orders({10: None})
    for name in tags:
        flow.spark.sql(f"ALTER TABLE {orders.table} DROP TAG `{name}`")
    flow.spark.sql(f"CALL system.expire_snapshots('{orders.table}', TIMESTAMP '2100-01-01 00:00:00', 1)")
    with pytest.raises(RangeUnavailableError, match="on_repeat='apply' applies every row that is there now"):
        shop.apply("run 8")
    assert shop.apply("run 8", on_repeat=OnRepeat.APPLY).outcome is Outcome.APPLIED
    assert flow.rows() == {10: ("anna", 50), 13: ("cyd", 8), 14: ("bob", 9)}
    assert shop.apply("run 9").outcome is Outcome.NOTHING_NEW


def test_a_table_is_read_as_of_an_id_a_tag_and_a_time_with_its_rows_and_columns_chosen(flow: Flow) -> None:
    shop = Shop(flow)
    table = f"{flow.table}_customers"
    first = shop.put_customers({1: ("a",), 2: ("b",)})
    flow.spark.sql(f"ALTER TABLE {table} CREATE TAG month_end")
    between = datetime.now(UTC)
    second = shop.put_customers({1: ("a2",), 3: ("c",)})
    then, now = {1: ("a",), 2: ("b",)}, {1: ("a2",), 2: ("b",), 3: ("c",)}
    moments = (first, "month_end", between, between.isoformat(), second, "main", None, datetime(2100, 1, 1, tzinfo=UTC))
    for number, moment in enumerate(moments):
        source = LakeTable(table, as_of=moment, name="customers")
        report = flow.apply(f"run {number}", source=source, **PLAIN)
        # The same snapshot by another name is none to apply again; an older one than before is, as it was asked for.
        assert (report.outcome is Outcome.APPLIED) == (number in (0, 4)), moment
        rows = {id_: each for id_, each in flow.rows().items() if number >= 4 or id_ != 3}
        assert rows == (then if number < 4 else now)
    assert (
        "applied before" in flow.apply("run 9", source=LakeTable(table, as_of=first, name="customers"), **PLAIN).reason
    )
    assert flow.rows() == {**now, **then}
    for wrong, said in (("1", "expired"), ("no_tag", "month_end"), ("2001-01-01T00:00:00Z", "its log goes back to")):
        with pytest.raises(BadInputError, match=said):
            flow.apply("run 10", source=LakeTable(table, as_of=wrong), **PLAIN)
    chosen = LakeTable(table, where="name LIKE 'a%'", columns=["ID"], as_of="main", name="chosen")
    other = replace(flow, table=f"{flow.table}_chosen")
    other.apply("run 1", source=chosen, **PLAIN)
    assert other.rows() == {1: ()}
    with pytest.raises(InvalidSpecError, match="a function"):
        other.apply("run 2", source=replace(chosen, where="upper(name) = 'A2'", name="other"), **PLAIN)
    taken = replace(chosen, where="upper(name) <> 'A2'", on_source_change="replay")
    assert "where of the source changed" in other.apply("run 2", source=taken, allow_sql=True, **PLAIN).reason
    assert other.rows() == {1: (), 2: (), 3: ()}


def test_inputs_of_files_and_changes_give_each_what_is_new_of_them(flow: Flow) -> None:
    shop = Shop(flow)
    files = Files(f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA, name="sums")
    flow.arrive("1.jsonl", row(1, "a", 10))
    sums: dict[str, Any] = {
        "merge_engine": Aggregation(aggregates={"n": "sum"}),
        "delete_when": None,
        "exclude_columns": ("op", "name"),
    }
    both = "SELECT id, n FROM events UNION ALL SELECT id, n FROM orders"
    orders = Changes(f"{flow.table}_orders", mode="upserts")
    source = Query(both, over={"events": replace(files, name=None), "orders": orders}, name="sums")
    shop.put_orders({1: (1, 5)})
    expected = 0
    for number, (of_file, of_order) in enumerate([(10, 5), (None, 7), (3, None), (None, None)]):
        if of_file is not None and number:
            flow.arrive(f"{number + 1}.jsonl", row(1, "a", of_file))
        if of_order is not None and number:
            shop.put_orders({1: (1, of_order)})
        report = flow.apply(f"run {number}", source=source, **sums)
        expected += (of_file or 0) + (of_order or 0)
        assert report.outcome is (Outcome.APPLIED if of_file or of_order else Outcome.NOTHING_NEW)
        assert (report.batch_files or 0, flow.rows()) == (int(of_file is not None), {1: (expected,)})
    empty = Files(f"{flow.inbox}/none-*.csv", options={"header": True})
    without = replace(source, over={"events": empty, "orders": orders})
    with pytest.raises(BadInputError, match="nothing tells the columns"):
        flow.apply("run 9", source=without, on_repeat=OnRepeat.APPLY, **sums)


def test_changes_alone_delete_what_was_deleted_and_store_no_type_of_change(flow: Flow) -> None:
    shop = Shop(flow)
    shop.put_orders({1: (1, 1), 2: (1, 2), 3: (2, 3)})
    source = Changes(f"{flow.table}_orders", where="n < 9", protect_source=False, name="orders")
    flow.apply("run 1", source=source, **PLAIN)
    shop.put_orders({1: None, 2: (1, 20), 3: (2, 4), 4: (3, 4)})
    report = flow.apply("run 2", source=source, **PLAIN)
    # 2 is no more below 9.
    assert flow.rows() == {3: (2, 4), 4: (3, 4)}
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 2)
    assert [name for name in shop.on("orders").loaded().metadata.refs if name != "main"] == []
    shop.put_orders({3: None, 4: None})
    kept: dict[str, Any] = {"delete_when": "_change_type = 'delete' AND id = 3", "exclude_columns": ()}
    flow.apply("run 3", source=source, **kept)
    assert flow.rows() == {4: (3, 4)}
    flow.spark.sql(f"DELETE FROM {flow.table}_orders")
    assert flow.apply("run 4", source=source, **PLAIN).outcome in (Outcome.EMPTY_BATCH, Outcome.APPLIED)


@pytest.mark.parametrize("kind", ["alone", "a query over them", "beside a table"])
def test_commits_that_change_no_row_of_the_batch_are_passed_and_not_compared_in_each_run(flow: Flow, kind: str) -> None:
    shop = Shop(flow)
    shop.put_orders({1: (10, 1), 2: (20, 2)})
    orders: Any = Changes(f"{flow.table}_orders")
    alone = replace(orders, name="shop")
    source = {"alone": alone, "a query over them": Query("SELECT * FROM source WHERE n < 9", over=orders, name="shop")}
    source["beside a table"] = replace(shop.source, sql=f"{JOINED} WHERE o.n < 9")
    flow.apply("run 1", source=source[kind], **PLAIN)
    rows = flow.rows()
    flow.spark.sql(
        f"CALL lake_default.system.rewrite_data_files(table => '{flow.table}_orders', "
        "options => map('rewrite-all', 'true'))"
    )
    passed = flow.apply("run 2", source=source[kind], **PLAIN)
    assert (flow.rows(), passed.outcome, passed.warnings) == (rows, Outcome.EMPTY_BATCH, ())
    refs = shop.on("orders").loaded().metadata.refs
    assert {name.startswith("lake.consumer.") and str(ref.snapshot_id) for name, ref in refs.items()} == {
        False,
        shop.head("orders"),
    }
    assert flow.apply("run 3", source=source[kind], **PLAIN).outcome is Outcome.NOTHING_NEW
    shop.put_orders({2: (20, 5)})
    assert flow.apply("run 4", source=source[kind], **PLAIN).rows_updated == 1


def test_changes_alone_delete_by_the_keys_of_the_load_though_the_table_has_others(flow: Flow) -> None:
    shop = Shop(flow)
    orders, source = f"{flow.table}_orders", Changes(f"{flow.table}_orders", protect_source=False, name="orders")
    shop.put_orders({1: (10, 1), 2: (20, 2), 3: (30, 3), 4: (40, 4)})
    for run, change in enumerate(
        (
            "SELECT 1",
            # A customer that nobody has any more, two that change places, and one that is deleted.
            f"UPDATE {orders} SET customer = CASE id WHEN 1 THEN 11 WHEN 2 THEN 30 WHEN 3 THEN 20 ELSE customer END",
            f"DELETE FROM {orders} WHERE id = 4",
        )
    ):
        flow.spark.sql(change)
        flow.apply(f"run {run}", source=source, keys=("CUSTOMER",), **PLAIN)
        stored = sorted((each["customer"], each["id"], each["n"]) for each in flow.records())
        assert stored == sorted((row.customer, row.id, row.n) for row in flow.spark.table(orders).collect())


def test_a_query_may_spell_the_type_of_a_change_in_capitals_as_spark_does(flow: Flow) -> None:
    shop = Shop(flow)
    shop.put_orders({1: (1, 1), 2: (1, 2)})
    changes = Changes(f"{flow.table}_orders", protect_source=False)
    source = Query("SELECT id, customer, n, _CHANGE_TYPE FROM source", over=changes, name="orders")
    flow.apply("run 1", source=source, **PLAIN)
    shop.put_orders({1: None, 2: (1, 20)})
    report = flow.apply("run 2", source=source, **PLAIN)
    assert (flow.rows(), report.rows_deleted) == ({2: (1, 20)}, 1)


@pytest.mark.parametrize("kind", ["upper(_change_type)", "'DELETE'", "'d'", "''"])
def test_another_word_for_the_type_of_a_change_is_refused_and_makes_no_row_of_a_delete(flow: Flow, kind: str) -> None:
    shop = Shop(flow)
    shop.put_orders({1: (1, 1), 2: (1, 2)})
    changes = Changes(f"{flow.table}_orders", protect_source=False)
    asked = "SELECT id, customer, n, {} AS _change_type FROM source"
    source = Query(asked.format("nullif(_change_type, 'upsert')"), over=changes, name="o", on_source_change="continue")
    flow.apply("run 1", source=source, **PLAIN)
    shop.put_orders({1: None})
    other = replace(source, sql=asked.format(kind))
    with pytest.raises(BadInputError, match=r"_change_type .*'upsert' or 'delete'"):
        flow.apply("run 2", source=other, **PLAIN)
    # Who says what deletes has words of their own.
    flow.apply("run 2", source=other, **{**PLAIN, "delete_when": "id = 1"})
    assert flow.rows() == {2: (1, 2)}


_TOLD = "SELECT id, name, n, IF(op = 'd', 'delete', 'upsert') AS _change_type FROM source"
_TOLD_BY_CODE = """
def told(spark, inputs, params):
    return inputs["orders"].selectExpr("id", "name", "n", "IF(op = 'd', 'delete', 'insert') AS _change_type")
"""


@pytest.mark.parametrize("kind", ["query", "function"])
def test_what_an_author_makes_of_files_may_tell_deletes_as_changes_of_a_table_do(flow: Flow, kind: str) -> None:
    files = Files(f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA)
    source: Any = Query(_TOLD, over=files, name="o")
    if kind == "function":
        source = PySparkFunction("own:told", function_code=_TOLD_BY_CODE, over={"orders": files}, name="o")
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"))
    flow.apply("run 1", source=source, **PLAIN)
    flow.arrive("2.jsonl", row(1, "a", op="d"), row(3, "c"))
    assert flow.apply("run 2", source=source, **PLAIN).rows_deleted == 1
    assert flow.rows() == {2: ("b", 0), 3: ("c", 0)}


def test_loads_that_delete_nothing_refuse_a_column_that_tells_deletes(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b", op="d"))
    source = Query(_TOLD, over=Files(f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA), name="o")
    identity = RunIdentity.of("dag", "run 1", "task", "-1")
    spec = AppendSpec(catalog="lake_default", table=flow.table, run=identity, source=source)
    told = r"_change_type.*Iceberg reserves.*say so to an upsert as well: delete_when=\"_change_type = 'delete'\""
    with pytest.raises(BadInputError, match=told):
        append_batch(flow.spark, spec, Progress())
    with pytest.raises(BadInputError, match=told):
        flow.apply("run 1", source=source, is_complete=True, **PLAIN)


def test_what_is_cached_of_inputs_is_given_back(flow: Flow) -> None:
    code = "def joined(spark, inputs, params):\n    return inputs['a'].join(inputs['b'].select('id'), 'id', 'left')"
    files = {name: Files(f"{flow.inbox}/{name}/*.jsonl", format="json", schema=SCHEMA) for name in "ab"}
    for name in files:
        (flow.inbox / name).mkdir(parents=True)
        flow.arrive(f"{name}/1.jsonl", row(1, name))
    sources: list[Any] = [
        Query("SELECT * FROM source", over=files["a"], name="one"),
        Query("SELECT a.* FROM a LEFT JOIN b USING (id)", over=files, name="two"),
        PySparkFunction("own:joined", function_code=code, over=files, name="function"),
    ]
    flow.catalog()
    cached = cached_rdds(flow.spark)
    for number in (1, 2):
        # Nothing of the second input is new the second time.
        flow.arrive(f"a/{number}.jsonl", row(number, "a"))
        for source in sources:
            run = RunIdentity.of("dag", f"run {number}", source.name)
            spec = AppendSpec(catalog="lake_default", table=f"{flow.table}_{source.name}", run=run, source=source)
            assert append_batch(flow.spark, spec, Progress()).outcome is Outcome.APPLIED
            assert cached_rdds(flow.spark) <= cached, (number, source)
