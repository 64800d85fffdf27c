"""Changes of a table that are applied again leave no key behind that is gone, or the report says which may stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, History
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.load import OnRepeat
from tests.spark.upsert_flow import Flow, InterruptedProgress

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
PAID = "SELECT id, n, _change_type FROM source"
JOINED = "SELECT o.id, o.n, c.name, o._change_type FROM orders o LEFT JOIN customers c ON o.customer = c.id"


class Orders:
    """Orders of a shop, of which some are deleted after the target has applied them."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.name = flow, f"{flow.table}_orders"
        flow.spark.sql("CREATE NAMESPACE IF NOT EXISTS flows")
        flow.spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT NOT NULL, customer BIGINT, n INT) USING iceberg "
            "TBLPROPERTIES ('format-version' = '3')"
        )
        flow.spark.sql(f"ALTER TABLE {self.name} SET IDENTIFIER FIELDS id")
        self.run("INSERT INTO {t} VALUES (1, 1, 10), (2, 1, 20), (7, 2, 70), (8, 2, 80)")

    def run(self, statement: str) -> None:
        self.flow.spark.sql(statement.replace("{t}", self.name))

    def apply(self, run: str, source: Any, **changes: Any) -> Any:
        return self.flow.apply(run, source=source, **{**PLAIN, **changes})

    def tags(self) -> dict[str, int]:
        """Snapshots by the tags of the consumer."""
        references = self.flow.spark.sql(f"SELECT name, snapshot_id FROM {self.name}.refs WHERE type = 'TAG'")
        return {row["name"]: row["snapshot_id"] for row in references.collect()}

    def head(self) -> int:
        newest = f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'"
        return int(self.flow.spark.sql(newest).collect()[0]["snapshot_id"])

    def drop_tags(self) -> None:
        for name in self.tags():
            self.run(f"ALTER TABLE {{t}} DROP TAG `{name}`")

    def forget_snapshots(self) -> None:
        """Expire all but the head, though the consumer has a tag."""
        self.drop_tags()
        self.run("CALL system.expire_snapshots('{t}', TIMESTAMP '2100-01-01 00:00:00', 1)")


@pytest.fixture
def orders(flow: Flow) -> Orders:
    return Orders(flow)


def ids(orders: Orders) -> set[int]:
    return {row["id"] for row in orders.flow.records()}


def test_keys_that_were_deleted_go_where_a_changed_query_replays_its_changes(orders: Orders) -> None:
    source = Query(PAID, over=Changes(orders.name), name="orders", on_source_change="replay")
    orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.run("INSERT INTO {t} VALUES (9, 3, 90)")
    doubled = replace(source, sql=PAID.replace("n,", "n * 2 AS n,"))
    report = orders.apply("run 2", doubled)
    assert orders.flow.rows() == {1: (20,), 2: (40,), 8: (160,), 9: (180,)}
    # What the query of before made of other rows, nobody knows.
    (warning,) = report.warnings
    assert "query changed" in warning
    assert "complete=True" in warning
    orders.run("DELETE FROM {t} WHERE id = 8")
    assert orders.apply("run 3", doubled).warnings == ()
    assert ids(orders) == {1, 2, 9}


@pytest.mark.parametrize("mode", ["net", "upserts"])
def test_keys_that_were_deleted_go_where_changes_are_applied_again_on_purpose(orders: Orders, mode: str) -> None:
    source = Changes(orders.name, name="orders", mode=mode)
    orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 7")
    report = orders.apply("run 2", source, on_repeat=OnRepeat.APPLY)
    assert (ids(orders), report.warnings) == ({1, 2, 8} if mode == "net" else {1, 2, 7, 8}, ())


def test_rows_that_a_changed_predicate_has_no_more_stay_and_the_report_says_so(orders: Orders) -> None:
    source = Changes(orders.name, name="orders", where="n < 75", on_source_change="replay")
    orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 2")
    report = orders.apply("run 2", replace(source, where="n < 50"))
    # 2 was deleted. 7, which is still there, was never one of the rows below 50.
    assert ids(orders) == {1, 7}
    (warning,) = report.warnings
    assert "where changed" in warning
    other = replace(source, where="n < 50", columns=["n", "customer", "id"])
    assert orders.apply("run 3", other).warnings == ()


def test_each_of_several_inputs_tells_its_deletes_again(orders: Orders, flow: Flow) -> None:
    customers = f"{flow.table}_customers"
    flow.spark.sql(f"CREATE TABLE {customers} (id BIGINT, name STRING) USING iceberg")
    flow.spark.sql(f"INSERT INTO {customers} VALUES (1, 'ann'), (2, 'bob')")
    over = {"orders": Changes(orders.name), "customers": LakeTable(customers)}
    source = Query(JOINED, over=over, name="orders", on_source_change="replay")
    orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.apply("run 2", replace(source, sql=JOINED.replace("c.name", "upper(c.name) AS name")))
    assert flow.rows() == {1: (10, "ANN"), 2: (20, "ANN"), 8: (80, "BOB")}


def test_a_history_ends_the_keys_that_were_deleted(orders: Orders) -> None:
    source = Changes(orders.name, name="orders")
    orders.apply("run 1", source, merge_engine=History(at="2026-01-01T00:00:00+00:00"))
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.apply("run 2", source, merge_engine=History(at="2026-01-02T00:00:00+00:00"), on_repeat=OnRepeat.APPLY)
    assert {row["id"] for row in orders.flow.records() if row["is_current"]} == {1, 2, 8}
    assert ids(orders) == {1, 2, 7, 8}


def test_deletes_whose_start_is_gone_are_not_known_and_the_report_says_so(orders: Orders) -> None:
    source = Changes(orders.name, name="orders")
    orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.forget_snapshots()
    report = orders.apply("run 2", source, on_repeat=OnRepeat.APPLY)
    assert ids(orders) == {1, 2, 7, 8}
    (warning,) = report.warnings
    assert orders.name in warning
    assert "stay" in warning


def test_both_ends_are_kept_from_expiry_while_deletes_are_told_again(orders: Orders) -> None:
    source = Changes(orders.name, name="orders")
    orders.apply("run 1", source)
    ends = {orders.head()}
    orders.drop_tags()
    orders.run("DELETE FROM {t} WHERE id = 7")
    ends.add(orders.head())
    seen: list[dict[str, int]] = []
    looking = InterruptedProgress(at="commit", then=lambda: seen.append(orders.tags()))
    orders.apply("run 2", source, on_repeat=OnRepeat.APPLY, progress=looking)
    assert {*seen[0].values()} == ends
    assert [*orders.tags().values()] == [orders.head()]


def test_a_roll_back_of_the_target_may_bring_keys_back_and_the_report_says_so(orders: Orders) -> None:
    source = Changes(orders.name, name="orders")
    first = orders.apply("run 1", source)
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.apply("run 2", source)
    orders.flow.spark.sql(f"CALL system.rollback_to_snapshot('{orders.flow.table}', {first.committed[-1]})")
    orders.run("DELETE FROM {t} WHERE id = 8")
    report = orders.apply("run 3", source, on_repeat=OnRepeat.APPLY)
    # The delete of 7 was applied, and its commit is gone.
    assert ids(orders) == {1, 2, 7}
    (warning,) = report.warnings
    assert "rolled back" in warning


@pytest.mark.parametrize(
    ("query", "engine"),
    [("SELECT id, n FROM source", {}), (PAID, {"merge_engine": Aggregation({"n": "sum"})})],
    ids=["a query that keeps rows", "a sum"],
)
def test_rows_that_are_gone_are_no_rows_again_where_nothing_tells_deletes(
    orders: Orders, query: str, engine: dict[str, Any]
) -> None:
    source = Query(query, over=Changes(orders.name), name="orders")
    orders.apply("run 1", source, **engine)
    orders.run("DELETE FROM {t} WHERE id = 7")
    orders.flow.spark.sql(f"DELETE FROM {orders.flow.table}")
    orders.apply("run 2", source, on_repeat=OnRepeat.APPLY, **engine)
    assert orders.flow.rows() == {1: (10,), 2: (20,), 8: (80,)}


def test_a_column_of_ours_in_a_source_table_is_refused_unless_others_are_chosen(orders: Orders) -> None:
    # It would take the place of the flag by which a load deletes, and be lost.
    orders.run("ALTER TABLE {t} ADD COLUMNS (_lake_deleted STRING)")
    query = Query("SELECT * FROM source", over=Changes(orders.name))
    for number, source in enumerate((Changes(orders.name), query, LakeTable(orders.name))):
        with pytest.raises(BadInputError, match=r"columns \['_lake_deleted'\] of source table"):
            orders.apply(f"all {number}", replace(source, name=f"all{number}"))
    for number, read in enumerate((Changes, LakeTable)):
        source = read(orders.name, columns=["id", "n"], name=f"some{number}")
        assert orders.apply(f"some {number}", source).outcome is Outcome.APPLIED
    assert {key: values[-1] for key, values in orders.flow.rows().items()} == {1: 10, 2: 20, 7: 70, 8: 80}


def test_an_earlier_batch_of_a_history_without_a_change_leaves_the_time_of_the_later_one(flow: Flow) -> None:
    orders = Orders(flow)

    def apply(day: int) -> Any:
        engine = History(track=["n"], at=f"2026-01-0{day}T00:00:00+00:00")
        return orders.apply(f"run {day}", Changes(orders.name), merge_engine=engine)

    assert apply(3).outcome is Outcome.APPLIED
    orders.run("INSERT INTO {t} VALUES (9, 1, 90)")
    orders.run("DELETE FROM {t} WHERE id = 9")
    assert apply(1).outcome is Outcome.EMPTY_BATCH
    assert flow.loaded().properties["lake.history-at"] == "2026-01-03T00:00:00+00:00"
    flow.forget_commits("(10, 1, 100, TIMESTAMP '2026-01-03 00:00:00 UTC', NULL, true)")
    orders.run("UPDATE {t} SET n = 11 WHERE id = 1")
    with pytest.raises(BadInputError, match=r"the batch is of 2026-01-02T00:00:00\+00:00, and one of 2026-01-03"):
        apply(2)
