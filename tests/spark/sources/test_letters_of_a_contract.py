"""Values that break a schema contract as dead letters, compared with lists of what was written into the files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.append_flow import append
from tests.spark.cached_rdds import cached_rdds
from tests.spark.upsert_flow import Flow


def letters_of(flow: Flow, table: str) -> list[dict[str, Any]]:
    """Return the letters by file and line."""
    records = replace(flow, table=table).records()
    return sorted(records, key=lambda letter: (letter["file"], letter["line"] or 0, letter["record"]))


def test_fields_inside_columns_keep_the_contract_too(flow: Flow) -> None:
    inside = "STRUCT<zip: INT, deep: ARRAY<STRUCT<n: INT>>>"
    flow.make_table(f"id BIGINT, a {inside}, m MAP<STRING, INT>")
    flow.inbox.mkdir(parents=True)

    def row(number: int, zip_code: str | None, n: int = 1, new: str | None = None, m: int = 1) -> dict[str, Any]:
        a = {"zip": zip_code, "note": "left out", "deep": [{"n": n, "new": None}, {"n": 2, "new": new}]}
        return {"id": number, "a": a, "m": [("k", m)]}

    rows = [row(1, "7"), row(2, "x"), row(3, "8", n=2**31), row(4, "9", new="b"), row(5, None), row(6, "1", m=2**31)]
    rows.append({"id": 7, "a": None, "m": None})
    deep = pa.list_(pa.struct({"n": pa.int64(), "new": pa.string()}))
    a = pa.struct({"zip": pa.string(), "note": pa.string(), "deep": deep})
    schema = pa.schema({"id": pa.int64(), "a": a, "m": pa.map_(pa.string(), pa.int64())})
    pq.write_table(pa.Table.from_pylist(rows, schema), flow.inbox / "1.parquet")
    actions: Any = {"a.zip": "discard_value", "A.Note": "discard_value", "m": "quarantine"}
    contract = SchemaContract(new_columns="quarantine", wider_types="quarantine", by_column=actions)
    letter = DeadLetter(table="letters.inside", max_share=0.5)
    report = append(
        flow, "run 1", source=Files(f"{flow.inbox}/*.parquet"), dead_letter=letter, schema_contract=contract
    )
    stored = [
        {"id": number, "a": {"zip": code, "deep": [{"n": 1}, {"n": 2}]}, "m": [("k", 1)]}
        for number, code in ((1, 7), (2, None), (5, None))
    ]
    stored.append({"id": 7, "a": None, "m": None})
    assert sorted(flow.records(), key=lambda each: each["id"]) == stored
    assert (report.dead_letters, report.schema_changes) == (3, ())
    letters = {json.loads(each["record"])["id"]: each for each in letters_of(flow, letter.table)}
    assert {number: (each["error_class"], each["reason"]) for number, each in letters.items()} == {
        3: ("OTHER_TYPE", "a value that int does not hold, in a.deep.element.n"),
        4: ("NEW_COLUMN", "a value in the field a.deep.element.new, which the table lacks"),
        6: ("OTHER_TYPE", "a value that int does not hold, in m.value"),
    }
    # Rows of text that are stored in another form stay in no cache.
    flow.arrive("2.jsonl", {"id": 8, "more": "x"})
    cached = cached_rdds(flow.spark)
    nulls = SchemaContract(new_columns="discard_value", missing_columns="null")
    text = Files(f"{flow.inbox}/*.jsonl", schema="id BIGINT, more STRING", name="text")
    append(flow, "run 2", source=text, schema_contract=nulls)
    assert cached_rdds(flow.spark) <= cached


def test_values_that_break_the_contract_are_put_aside_or_left_out_by_column(flow: Flow) -> None:
    flow.make_table("id BIGINT, n INT, m INT")
    flow.inbox.mkdir(parents=True)
    rows = [
        {"id": 1, "n": 1, "m": "10", "new": None, "other": "a"},
        {"id": 2, "n": 2**31, "m": "11", "new": None, "other": None},
        {"id": 3, "n": 3, "m": "x", "new": None, "other": None},
        {"id": 4, "n": None, "m": "012", "new": "b", "other": None},
        {"id": 5, "n": -5, "m": None, "new": None, "other": "c"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), flow.inbox / "1.parquet")
    actions: Any = {"m": "discard_value", "OTHER": "discard_value"}
    letter = DeadLetter(table="letters.contract", max_share=0.5)
    given: dict[str, Any] = {
        "source": Files(f"{flow.inbox}/*.parquet"),
        "schema_contract": SchemaContract(new_columns="quarantine", wider_types="quarantine", by_column=actions),
        "dead_letter": letter,
    }
    stored = [{"id": 1, "n": 1, "m": 10}, {"id": 3, "n": 3, "m": None}, {"id": 5, "n": -5, "m": None}]
    words = [("OTHER_TYPE", "a value that int does not hold, in n"), ("NEW_COLUMN", "a value in the column new, which")]
    loads: list[tuple[Any, dict[str, Any]]] = [(append, {}), (Flow.apply, {"delete_when": None})]
    for number, (load, more) in enumerate(loads, 1):
        # The second load finds the letters of the first, which are of the same file.
        report = load(flow, run=f"run {number}", on_repeat="apply", **given, **more)
        assert (report.dead_letters, report.batch_rows, report.schema_changes) == (2, 3, ())
        assert sorted(flow.records(), key=lambda row: row["id"]) == stored
        letters = letters_of(flow, letter.table)
        assert [json.loads(each["record"]) for each in letters] == [rows[1], rows[3]]
        assert [
            (each["error_class"], each["reason"][: len(start)]) for each, (_, start) in zip(letters, words, strict=True)
        ] == words
        flow.spark.sql(f"DELETE FROM {flow.table}")


def test_a_contract_makes_no_time_of_a_number_and_no_number_of_a_time(flow: Flow) -> None:
    flow.make_table("id BIGINT, at TIMESTAMP, s STRUCT<n: BIGINT>")
    flow.inbox.mkdir(parents=True)
    time = datetime(2026, 1, 1, tzinfo=UTC)
    rows: dict[str, dict[str, Any]] = {
        "at": {"id": 1, "at": 1767225600000, "s": {"n": 1}},
        "n": {"id": 2, "at": time, "s": {"n": time}},
    }
    for column, row in rows.items():
        pq.write_table(pa.Table.from_pylist([row]), flow.inbox / f"{column}.parquet")
        source = Files(f"{flow.inbox}/{column}.parquet")
        with pytest.raises(BadInputError, match=rf"{column}\b.*(bigint.*timestamp|timestamp.*bigint)"):
            append(flow, column, source=source, schema_contract="discard_value")
    assert flow.spark.table(flow.table).count() == 0
