"""A dry run of a load says what the run would do, and leaves no trace."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, LakeProviderError
from airflow_lake_provider.contracts.reports.batch_plan import BatchPlan, SchemaChange, SchemaChangeKind
from airflow_lake_provider.contracts.reports.job import AppendReport, Outcome, UpsertReport
from tests.spark.append_flow import append
from tests.spark.upsert_flow import Flow

SCHEMA = "id BIGINT, n BIGINT, a STRUCT<zip: INT, note: STRING>, m STRING"
LETTERS = "letters.planned"


def run(flow: Flow, way: str, **changes: Any) -> AppendReport | UpsertReport:
    if way == "append":
        return append(flow, "run 1", is_dry_run=True, **changes)
    return flow.apply("run 1", is_dry_run=True, delete_when=None, **changes)


@pytest.mark.parametrize("way", ["append", "upsert"])
def test_it_tells_changes_of_columns_and_records_that_would_be_put_aside(flow: Flow, way: str) -> None:
    flow.make_table("id BIGINT, n INT, a STRUCT<zip: INT>, m INT")
    flow.arrive("1.jsonl", {"id": 1, "n": 1, "a": {"zip": 1}, "m": "1"}, {"id": "x"}, {"id": 2}, {"id": 3, "m": "x"})
    before = flow.loaded().metadata_location
    contract = SchemaContract(new_columns="freeze", by_column={"m": "quarantine"})
    given: dict[str, Any] = {
        "source": Files(f"{flow.inbox}/*.jsonl", schema=SCHEMA),
        "dead_letter": DeadLetter(table=LETTERS, max_share=0.5),
        "schema_contract": contract,
    }
    report = run(flow, way, **given)
    plan = report.plan
    assert plan is not None
    assert (report.outcome, report.committed, report.dead_letters, report.batch_rows) == (Outcome.PLANNED, (), 2, 2)
    assert "read" in report.seconds
    assert [(each.kind.value, each.column, each.action, each.additive) for each in plan.schema_changes] == [
        ("widen-type", "n", "evolve", True),
        ("add-column", "a.note", "freeze", True),
        ("change-type", "m", "quarantine", False),
    ]
    assert [(each.line, each.error_class, each.file.endswith("/1.jsonl")) for each in plan.put_aside] == [
        (2, "LOST_VALUE", True),
        (4, "OTHER_TYPE", True),
    ]
    assert plan.refused == "add-column of a.note (freeze)"
    # Without what is refused, and with a limit that the run would keep to.
    report = run(flow, way, **{**given, "schema_contract": SchemaContract(by_column={"m": "discard_value"})})
    assert (report.plan and report.plan.refused, report.dead_letters, report.batch_rows) == (None, 1, 3)
    report = run(flow, way, **{**given, "dead_letter": DeadLetter(table=LETTERS, max_share=0.1)})
    assert report.plan is not None
    assert "2 of 4 records" in (report.plan.refused or "")
    assert flow.loaded().metadata_location == before
    assert not flow.catalog().table_exists(LETTERS)


def test_values_that_no_contract_takes_out_of_a_row_refuse_the_batch(flow: Flow) -> None:
    flow.make_table("id BIGINT, a STRUCT<zip: INT>, n INT, m INT")
    flow.arrive("1.jsonl", {"id": 1, "a": {"other": 1}, "n": {"x": 1}, "m": "7"})
    source = Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, a STRUCT<other: INT>, n STRUCT<x: INT>, m STRING")
    report = run(flow, "append", source=source, schema_contract="discard_value")
    assert report.plan is not None
    assert report.plan.refused is not None
    assert {each.column for each in report.plan.schema_changes if each.is_refused} >= {"n"}
    assert "m" not in {each.column for each in report.plan.schema_changes if each.is_refused}
    with pytest.raises(LakeProviderError):
        append(flow, "run 1", source=source, schema_contract="discard_value")


def test_a_table_that_is_not_there_is_not_made(flow: Flow) -> None:
    flow.arrive("1.jsonl", {"id": 1, "name": "a"})
    report = run(flow, "append")
    assert report.plan is not None
    assert [(each.column, each.wanted, each.action) for each in report.plan.schema_changes] == [
        ("id", "bigint", "evolve"),
        ("name", "string", "evolve"),
    ]
    assert (report.outcome, report.before, report.batch_rows, report.dead_letters) == (Outcome.PLANNED, None, 1, None)
    report = run(flow, "append", create=None)
    assert report.plan is not None
    assert report.plan.refused == "add-column of id (refuse); add-column of name (refuse)"
    assert not flow.catalog().table_exists(flow.table)


def test_a_whole_table_is_compared_and_left_as_it_is(flow: Flow) -> None:
    whole: dict[str, Any] = {"keys": ("id",), "order_by": (), "delete_when": None, "max_deleted_share": 0.4}
    whole["source"] = Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, n INT")
    flow.arrive("1.jsonl", *({"id": number, "n": 1} for number in range(5)))
    flow.apply("run 1", is_complete=True, **whole)
    before = flow.loaded().metadata_location
    (flow.inbox / "1.jsonl").unlink()
    flow.arrive("2.jsonl", {"id": 0, "n": 1}, {"id": 1, "n": 2}, {"id": 2, "n": 1}, {"id": 9, "n": 1})

    def planned(**changes: Any) -> UpsertReport:
        report = flow.apply("run 2", is_complete=True, is_dry_run=True, **{**whole, **changes})
        assert (report.outcome, report.committed) == (Outcome.PLANNED, ())
        assert flow.loaded().metadata_location == before
        return report

    report = planned()
    assert report.plan is not None
    assert (report.plan.upserts, report.plan.deletes, report.rows_unchanged, report.batch_rows) == (2, 2, 2, 4)
    assert "insert or update 2 keys, delete 2" in report.reason
    report = planned(max_deleted_share=0.3)
    assert report.plan is not None
    assert "lacks the keys of 2 of the table's 5 live rows" in str(report.plan.refused)
    flow.arrive("3.jsonl", {"id": 10, "n": 1, "more": "x"})
    more = {"source": Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, n INT, more STRING")}
    report = planned(**more)
    assert report.plan is not None
    assert ([each.column for each in report.plan.schema_changes], report.plan.upserts) == (["more"], None)
    assert "once they are made" in report.reason
    assert planned(**more, schema_contract=SchemaContract(new_columns="freeze")).plan == BatchPlan(
        schema_changes=(
            SchemaChange(kind=SchemaChangeKind.ADD_COLUMN, column="more", wanted="string", action="freeze"),
        ),
        refused="add-column of more (freeze)",
    )


@pytest.mark.parametrize("is_there", [False, True], ids=["a new table", "a table"])
@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("NULL AS v", "columns ['v'] of the batch hold nothing but NULL"),
        ("1 AS _file", "['_file'], names that Iceberg"),
    ],
)
def test_columns_that_no_table_can_have_are_told_before_a_run_refuses_them(
    flow: Flow, column: str, told: str, *, is_there: bool
) -> None:
    flow.spark.sql("CREATE NAMESPACE IF NOT EXISTS flows")
    if is_there:
        flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT) USING iceberg")
    flow.arrive("1.jsonl", {"id": 1})
    source = Query(f"SELECT id, {column} FROM source", over=Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT"))
    report = run(flow, "append", source=source)
    assert report.plan is not None
    assert told in str(report.plan.refused)
    with pytest.raises(BadInputError, match=re.escape(told)):
        append(flow, "run 1", source=source)
