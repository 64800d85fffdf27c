"""The page on change streams of other tools: each of its tasks leaves the rows that the database had."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.spark.sources import other_streams
from tests.spark.upsert_flow import Flow, NewFlow

Row = tuple[int, str | None, float]
# What a database does in order: rows are put, moved to another key, and deleted. Ten changes and more, so that texts of
# numbers are in another order.
ENDS = {2: ("kept", Decimal("2.00")), 5: ("moved", Decimal("4.50")), 6: ("again", Decimal("6.00"))}


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    made = new_flow(delete_when=None, exclude_columns=())
    made.inbox.mkdir(parents=True, exist_ok=True)
    return made


def state(id_: int, name: str, total: float) -> dict[str, Any]:
    return {"id": id_, "state": name, "total": total}


HISTORY: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("insert", state(1, "new", 1.0), {}),
    ("insert", state(2, "new", 2.0), {}),
    ("insert", state(6, "new", 6.0), {}),
    *(("update", state(2, f"try {n}", 2.0), {"state": "before"}) for n in range(9)),
    ("update", state(2, "kept", 2.0), {"state": "before"}),
    ("delete", state(1, "new", 1.0), {}),
    ("insert", state(4, "new", 4.5), {}),
    ("update", state(5, "moved", 4.5), {"id": 4, "state": "new"}),
    ("delete", state(6, "new", 6.0), {}),
    ("insert", state(6, "again", 6.0), {}),
]


def lines(flow: Flow, name: str, records: list[dict[str, Any]]) -> None:
    # Later events lie before earlier ones: the order is what the events tell, not that of the file.
    (flow.inbox / name).write_text("".join(json.dumps(record) + "\n" for record in reversed(records)))


def run(flow: Flow, task: LakeUpsertOperator, name: str, **source: Any) -> Any:
    """Apply the task's batch, read from the inbox."""
    given: Any = task.source
    files: Any = given.over if isinstance(given, Query) else given
    own: Any = replace(files, **source)
    if isinstance(given, Query):
        own = replace(given, over=own, name="stream")
    contract: Any = task.schema_contract
    return flow.apply(
        name,
        source=own,
        keys=tuple(task.keys),
        order_by=tuple(task.order_by),
        delete_when=task.delete_when,
        schema_contract=SchemaContract(**contract) if isinstance(contract, dict) else SchemaContract(),
    )


def apply(flow: Flow, query: str, schema: str, order_by: tuple[str, ...]) -> Any:
    source = Query(query, over=Files(f"{flow.inbox}/*.json", schema=schema), name="stream")
    return flow.apply("run 1", source=source, order_by=order_by, exclude_columns=order_by)


def test_files_of_dms_are_a_load_and_changes_in_the_order_of_their_names(flow: Flow) -> None:
    def write(name: str, rows: list[dict[str, Any]]) -> None:
        pq.write_table(pa.Table.from_pylist(rows), flow.inbox / name)

    write("LOAD00000001.parquet", [state(1, "new", 1.0), state(2, "new", 2.0), state(6, "new", 6.0)])
    letter = {"insert": "I", "update": "U", "delete": "D"}
    cdc = [{"Op": letter[kind], **row} for kind, row, _ in HISTORY[3:] if row["id"] != 5]
    write("20260101-120000001.parquet", cdc[:10])
    write("20260101-120000002.parquet", cdc[10:])
    for task in (other_streams.load, other_streams.changes):
        files: Any = task.source
        run(flow, task, task.task_id, path=f"{flow.inbox}/{Path(files.path).name}")
    ends = {id_: (name, float(total)) for id_, (name, total) in ENDS.items() if id_ != 5}
    assert flow.rows() == {**ends, 4: ("new", 4.5)}


def test_events_of_maxwell_are_ordered_by_their_place_in_the_binlog(flow: Flow) -> None:
    where = {"database": "shop", "table": "orders"}
    other = {**where, "table": "others", "type": "insert", "position": "db-1.bin.000009:5", "data": state(9, "x", 9.0)}
    bound = {**where, "type": "bootstrap-start", "position": "db-1.bin.000009:5", "data": {}}
    events = [
        {
            **where,
            "type": kind,
            "position": f"db-1.bin.{9 + n // 6:06}:{95 + n % 6}",
            **({"commit": True} if n % 2 else {"xoffset": 0}),
            "data": row,
            "old": old,
        }
        for n, (kind, row, old) in enumerate(HISTORY)
    ]
    # One statement moves two keys up: all its rows have one position, and the last one no place in the transaction.
    moves: list[dict[str, Any]] = [
        {
            **where,
            "type": "update",
            "position": "db-1.bin.000020:5",
            "data": state(id_ + 1, "moved", 1.0),
            "old": {"id": id_},
        }
        for id_ in (21, 20)
    ]
    moves[0]["xoffset"], moves[1]["commit"] = 0, True
    lines(flow, "a.json", [bound, other, *events, *moves])
    run(flow, other_streams.maxwell, "run 1", path=f"{flow.inbox}/*.json")
    assert {id_: row for id_, row in flow.rows().items() if id_ < 20} == ENDS
    assert sorted(id_ for id_ in flow.rows() if id_ >= 20) == [21, 22]


def test_rows_of_canal_are_ordered_by_offset_and_place(flow: Flow) -> None:
    def texts(row: dict[str, Any]) -> dict[str, str]:
        return {name: str(value) for name, value in row.items()}

    where = {"database": "shop", "table": "orders"}
    events = [
        {
            **where,
            "type": kind.upper(),
            "data": [texts(row)],
            "old": [texts(old)] if old else None,
            "kafka_offset": 95 + n,
        }
        for n, (kind, row, old) in enumerate(HISTORY)
    ]
    altered = {**where, "type": "ALTER", "data": None, "isDdl": True, "sql": "ALTER TABLE orders", "kafka_offset": 1}
    lines(flow, "a.json", [altered, *events])
    task: Any = other_streams.canal
    apply(flow, task.source.sql, f"{task.source.over.schema}, kafka_offset BIGINT", tuple(task.order_by))
    assert flow.rows() == ENDS


def test_a_change_feed_is_ordered_by_version_and_puts_a_row_after_the_delete_of_its_key(flow: Flow) -> None:
    rows = []
    for n, (kind, row, old) in enumerate(HISTORY):
        version = min(n, len(HISTORY) - 2)
        word = {"insert": "insert", "update": "update_postimage", "delete": "delete"}[kind]
        if kind == "update":
            rows.append({**row, **old, "_change_type": "update_preimage", "_commit_version": version})
        if "id" in old:
            # Delta tells a changed key as a delete and an insert.
            rows[-1] = {**row, **old, "_change_type": "delete", "_commit_version": version}
            word = "insert"
        rows.append({**row, "_change_type": word, "_commit_version": version})
    lines(flow, "a.json", rows)
    schema = "id BIGINT, state STRING, total DECIMAL(12,2), _change_type STRING, _commit_version BIGINT"
    apply(flow, other_streams.CHANGE_FEED, schema, ("_commit_version", "step"))
    assert flow.rows() == ENDS


def test_operations_of_golden_gate_are_ordered_by_their_position(flow: Flow) -> None:
    operations: list[dict[str, Any]] = []
    for kind, row, old in HISTORY:
        if "id" in old:
            # As pkUpdateHandling=delete-insert has it.
            operations += [{"op_type": "D", "before": old}, {"op_type": "I", "after": row}]
        else:
            image = "before" if kind == "delete" else "after"
            operations.append({"op_type": kind[0].upper(), image: row})
    where = {"table": "SHOP.ORDERS"}
    lines(flow, "a.json", [{**where, **each, "pos": f"{95 + n:020}"} for n, each in enumerate(operations)])
    row_type = "STRUCT<id: BIGINT, state: STRING, total: DECIMAL(12,2)>"
    schema = f"`table` STRING, op_type STRING, pos STRING, before {row_type}, after {row_type}"
    apply(flow, other_streams.GOLDEN_GATE, schema, ("pos",))
    assert flow.rows() == ENDS


def test_changes_of_wal2json_are_ordered_by_their_place_in_the_log(flow: Flow) -> None:
    def pairs(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "type": "x", "value": value} for name, value in row.items()]

    changes: list[dict[str, Any]] = [{"action": "B"}]
    for n, (kind, row, old) in enumerate(HISTORY):
        key = {"identity": pairs({"id": old.get("id", row["id"])})} if kind != "insert" else {}
        columns = {"columns": pairs(row)} if kind != "delete" else {}
        place = {"schema": "public", "table": "orders", "lsn": f"{9 + n // 8:X}/{0xFFFFFF + n * 8:X}"}
        changes.append({"action": kind[0].upper(), **place, **columns, **key})
    lines(flow, "a.json", [*changes, {"action": "C"}])
    pair = "ARRAY<STRUCT<name: STRING, value: STRING>>"
    schema = f"action STRING, schema STRING, `table` STRING, lsn STRING, columns {pair}, identity {pair}"
    apply(flow, other_streams.WAL2JSON, schema, ("log_place", "step"))
    assert flow.rows() == ENDS


def test_rows_of_airbyte_are_deletes_where_they_have_the_time_of_one(flow: Flow) -> None:
    records = []
    for n, (kind, row, old) in enumerate(HISTORY):
        gone = "2026-01-01T00:00:00Z" if kind == "delete" else None
        if "id" in old:
            data = {**row, **old, "_ab_cdc_lsn": 95 + n, "_ab_cdc_deleted_at": "2026-01-01T00:00:00Z"}
            records.append({"_airbyte_raw_id": "u", "_airbyte_data": data})
        records.append({"_airbyte_data": {**row, "_ab_cdc_lsn": 95 + n, "_ab_cdc_deleted_at": gone}})
    lines(flow, "a.json", records)
    columns = "id: BIGINT, state: STRING, total: DECIMAL(12,2), _ab_cdc_lsn: BIGINT, _ab_cdc_deleted_at: STRING"
    over = Files(f"{flow.inbox}/*.json", schema=f"_airbyte_data STRUCT<{columns}>")
    source = Query("SELECT _airbyte_data.* FROM source", over=over, name="stream")
    flow.apply(
        "run 1",
        source=source,
        delete_when="_ab_cdc_deleted_at IS NOT NULL",
        order_by=("_ab_cdc_lsn",),
        exclude_columns=("_ab_cdc_lsn", "_ab_cdc_deleted_at"),
    )
    assert flow.rows() == ENDS


def test_two_events_of_a_key_that_nothing_orders_are_refused(flow: Flow) -> None:
    rows = [{**state(1, name, 1.0), "_change_type": "insert", "_commit_version": 1} for name in "ab"]
    lines(flow, "a.json", rows)
    schema = "id BIGINT, state STRING, total DECIMAL(12,2), _change_type STRING, _commit_version BIGINT"
    with pytest.raises(BadInputError, match="order_by"):
        apply(flow, other_streams.CHANGE_FEED, schema, ("_commit_version", "step"))
