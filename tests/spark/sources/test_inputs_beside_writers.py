"""Named inputs that are listed while their tables change, and loads that read the table they write."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.sources.changes import ChangesSource
from airflow_lake_provider.spark_jobs.sources.lake_table import LakeTableSource
from tests.spark.overwrite_flow import overwrite
from tests.spark.upsert_flow import Flow, row

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
V3 = "USING iceberg TBLPROPERTIES ('format-version' = '3')"


def commit_between_listings(monkeypatch: pytest.MonkeyPatch, flow: Flow, *statements: str) -> None:
    """Run statements once, after the first input was listed and before the next one is."""
    lists = {each: each.list for each in (ChangesSource, LakeTableSource)}
    waiting = list(statements)

    def listed(self: Any) -> Any:
        listing = lists[type(self)](self)
        while waiting:
            flow.spark.sql(waiting.pop(0))
        return listing

    for each in lists:
        monkeypatch.setattr(each, "list", listed)


@pytest.mark.parametrize("whole_first", [True, False])
def test_sums_over_a_table_and_its_changes_have_what_is_committed_between_the_listings(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, whole_first: bool
) -> None:
    flow.catalog()
    orders = f"{flow.table}_orders"
    flow.spark.sql(f"CREATE TABLE {orders} (id BIGINT, customer BIGINT, total INT) {V3}")
    flow.spark.sql(f"INSERT INTO {orders} VALUES (1, 7, 10)")
    over = {"everything": LakeTable(orders), "changed": Changes(orders, mode="upserts", protect_source=False)}
    query = (
        "SELECT customer AS id, CAST(SUM(total) AS INT) AS n FROM everything "
        "WHERE customer IN (SELECT customer FROM changed) GROUP BY customer"
    )
    source = Query(query, over=over if whole_first else dict(reversed(over.items())), name="sums")
    flow.apply("run 1", source=source, **PLAIN)
    flow.spark.sql(f"INSERT INTO {orders} VALUES (2, 7, 20)")
    commit_between_listings(monkeypatch, flow, f"INSERT INTO {orders} VALUES (3, 7, 40)")
    for run in ("run 2", "run 3"):
        flow.apply(run, source=source, **PLAIN)
    assert flow.rows() == {7: (70,)}


def test_a_table_that_is_named_before_changes_has_what_goes_with_them(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.catalog()
    orders, customers = (f"{flow.table}_{name}" for name in ("orders", "customers"))
    flow.spark.sql(f"CREATE TABLE {orders} (id BIGINT, customer BIGINT) {V3}")
    flow.spark.sql(f"CREATE TABLE {customers} (customer BIGINT, name STRING) {V3}")
    flow.spark.sql(f"INSERT INTO {customers} VALUES (1, 'Ana')")
    flow.spark.sql(f"INSERT INTO {orders} VALUES (1, 1)")
    over = {"customers": LakeTable(customers), "orders": Changes(orders, keys=["id"], protect_source=False)}
    query = "SELECT o.id, c.name, o._change_type FROM orders o LEFT JOIN customers c ON o.customer = c.customer"
    added = (f"INSERT INTO {customers} VALUES (9, 'Bea')", f"INSERT INTO {orders} VALUES (3, 9)")
    commit_between_listings(monkeypatch, flow, *added)
    for run in ("run 1", "run 2"):
        flow.apply(run, source=Query(query, over=over, name="q"), **PLAIN)
    assert flow.rows() == {1: ("Ana",), 3: ("Bea",)}


COUNTING = """
def one_more(spark, inputs, params):
    return inputs["t"].selectExpr("id", "name", "n + 1 AS n")
"""


def test_a_retry_of_a_load_that_reads_its_own_table_applies_nothing_twice(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 10))
    flow.apply("run 0")
    own = LakeTable(flow.table)
    function = PySparkFunction("own:one_more", function_code=COUNTING, over={"t": own}, name="own")
    query = Query("SELECT id, name, n + 1 AS n FROM source", over=own, name="own")
    outcomes: list[Outcome] = []
    for number, source in enumerate((function, query), 1):
        outcomes += [flow.apply(f"run {number}", source=source, **PLAIN).outcome for _ in range(2)]
        assert flow.rows() == {1: ("a", 10 + number)}
    runs = ("run 3", "run 3", "run 4")
    outcomes += [overwrite(flow, run, "none", source=query, where="true").outcome for run in runs]
    assert outcomes == [*[Outcome.APPLIED, Outcome.ALREADY_APPLIED] * 3, Outcome.APPLIED]
    assert flow.rows() == {1: ("a", 14)}


def test_a_whole_load_and_an_overwrite_refuse_an_input_whose_files_are_late(flow: Flow) -> None:
    for folder in ("names", "prices"):
        (flow.inbox / folder).mkdir(parents=True)
    flow.arrive("names/1.jsonl", {"id": 1, "name": "a"}, at=1_700_000_000)
    flow.arrive("prices/1.jsonl", {"id": 1, "n": 10})
    over = {
        "names": Files(f"{flow.inbox}/names/*.jsonl", format="json", schema="id BIGINT, name STRING"),
        "prices": Files(f"{flow.inbox}/prices/*.jsonl", format="json", schema="id BIGINT, n INT"),
    }
    source = Query("SELECT id, name, n FROM names LEFT JOIN prices USING (id)", over=over, name="priced")
    flow.apply("run 1", source=source, is_complete=True, **PLAIN)
    (flow.inbox / "prices/1.jsonl").unlink()
    flow.arrive("names/1.jsonl", {"id": 1, "name": "b"})
    with pytest.raises(BadInputError, match="no file is there for the inputs prices, and a load with complete=True"):
        flow.apply("run 2", source=source, is_complete=True, **PLAIN)
    with pytest.raises(BadInputError, match="inputs prices, and an overwrite"):
        overwrite(flow, "run 3", "none", source=source, where="true")
    assert flow.rows() == {1: ("a", 10)}


@pytest.mark.parametrize("kind", ["table", "changes", "named", "function"])
def test_a_head_that_was_expired_before_it_was_read_is_listed_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    flow.catalog()
    orders = f"{flow.table}_orders"
    flow.spark.sql(f"CREATE TABLE {orders} (id BIGINT, n INT) {V3}")
    flow.spark.sql(f"INSERT INTO {orders} VALUES (1, 10)")
    changes, table = Changes(orders, keys=["id"], protect_source=False), LakeTable(orders)
    code = "def plain(spark, inputs, params):\n    return inputs['orders']"
    sources = {
        "table": table,
        "changes": changes,
        "named": Query("SELECT id, n, _change_type FROM orders", over={"orders": changes}),
        "function": PySparkFunction("own:plain", function_code=code, over={"orders": table}),
    }
    gone = f"CALL lake_default.system.expire_snapshots(table => '{orders}', older_than => now(), retain_last => 1)"
    # The file of the first row goes, too.
    replaced = f"INSERT OVERWRITE {orders} VALUES (1, 11), (2, 20)"
    commit_between_listings(monkeypatch, flow, replaced, gone)
    report = flow.apply(source=sources[kind], **PLAIN)
    assert (report.attempts, flow.rows()) == (2, {1: (11,), 2: (20,)})
