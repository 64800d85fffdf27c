from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, RESET
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.cdc.key_timeline import KeyOrder
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.shop_oracle import SHOP, keys_of, oracle
from tests.spark.sources.debezium.debezium_batches import (
    ITEMS,
    Rows,
    applied,
    as_table,
    by_id,
    read_debezium_changes,
    read_items,
)
from tests.spark.sources.debezium.event_writer import PLACEHOLDER, UNCHANGED, SourceTable, envelope, write_files
from tests.spark.sources.debezium.shop_events import ddl_of, events_of, parts


@pytest.mark.parametrize("table", ["products", "orders", "order_items"])
def test_events_applied_part_by_part_give_the_rows_the_server_held(spark: SparkSession, table: str) -> None:
    keys, ddl = keys_of(table), ddl_of(table)
    rows: Rows = {}
    for number in (1, 2, 3):
        before = as_table(spark, rows, ddl)
        schema = before.schema if before is not None else None
        source = events_of(table, ddl if before is None else None)
        batch = read_debezium_changes(spark, source, parts(spark, number), keys, TargetState(schema, before))
        rows = applied(rows, batch, keys)
        batch.release()
    assert rows == oracle(table)


@pytest.mark.parametrize("table", ["products", "orders", "order_items"])
def test_all_parts_in_one_batch_give_the_rows_the_server_held(spark: SparkSession, table: str) -> None:
    keys = keys_of(table)
    batch = read_debezium_changes(spark, events_of(table, ddl_of(table)), parts(spark, 1, 2, 3), keys, TargetState())
    rows = applied({}, batch, keys)
    assert rows == oracle(table)
    assert batch.upserts == len(rows)
    assert batch.keys == batch.upserts + batch.deletes
    batch.release()


@pytest.mark.parametrize("table", ["customers", "products", "orders", "order_items"])
def test_events_with_their_schema_need_no_declared_types(spark: SparkSession, table: str) -> None:
    folder: Path = SHOP / "schema_enabled"
    keys = keys_of(table, folder)
    files = list_input_files(spark, str(folder / "batch1.jsonl.gz"))
    batch = read_debezium_changes(spark, events_of(table), files, keys, TargetState())
    assert applied({}, batch, keys) == oracle(table, folder)
    types = {field.name: field.dataType.simpleString() for field in batch.changes.schema.fields}
    assert {name: kind for name, kind in types.items() if name != DELETED} == {
        name: kind.lower() for name, kind in (column.split(" ") for column in ddl_of(table, folder).split(", "))
    }
    batch.release()


@st.composite
def histories(draw: st.DrawFn) -> tuple[SourceTable, dict[int, dict[str, Any]], list[list[str]]]:
    """A table with rows from before the batch, its events in one or two files, some of them delivered again."""
    table = SourceTable(kafka=draw(st.booleans()), headers=draw(st.booleans()))
    notes = st.sampled_from([None, "short", "long one", "long two"])
    numbers = st.integers(0, 99)
    for key in draw(st.sets(st.integers(1, 4), max_size=3)):
        table.insert(key, draw(numbers), draw(notes))
    table.take_lines()
    before = dict(table.rows)
    steps: list[int] = []
    for _ in range(draw(st.integers(1, 14))):
        present, free = sorted(table.rows), sorted({1, 2, 3, 4, 5} - table.rows.keys())
        can = [name for name, may in (("insert", free), ("move", present and free), ("change", present)) if may]
        step = draw(st.sampled_from(can))
        steps.append(len(table.lines))
        if step == "insert":
            table.insert(draw(st.sampled_from(free)), draw(numbers), draw(notes))
        elif step == "move":
            table.move(draw(st.sampled_from(present)), draw(st.sampled_from(free)), draw(numbers))
        elif draw(st.integers(0, 3)) == 0:
            table.delete(draw(st.sampled_from(present)))
        else:
            table.update(draw(st.sampled_from(present)), draw(numbers), draw(st.sampled_from([UNCHANGED, "long new"])))
    lines = table.take_lines()
    # The connector stopped and went on from an earlier position: the end is delivered twice.
    again = draw(st.sampled_from([len(lines), *steps]))
    cut = draw(st.sampled_from(steps))
    return table, before, [lines[:cut], lines[cut:] + lines[again:]]


@settings(max_examples=int(os.environ.get("LAKE_EXAMPLES", "6")), deadline=None)
@given(history=histories())
def test_any_history_of_updates_deletes_and_key_changes_ends_as_the_source_did(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, history: Any
) -> None:
    table, before, files = history
    path = write_files(tmp_path_factory.mktemp("history") / "in", *files)
    batch = read_items(spark, path, by_id(before))
    assert applied(by_id(before), batch, ["id"]) == by_id(table.rows)
    batch.release()


def test_a_row_moved_many_times_keeps_the_value_it_had_before_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    table = SourceTable(headers=False)
    table.insert(1, 0, "long before")
    table.take_lines()
    before = by_id(table.rows)
    for key in range(1, 21):
        table.move(key, key + 1, key)
    batch = read_items(spark, write_files(tmp_path / "in", table.take_lines()), before)
    assert applied(before, batch, ["id"]) == {(21,): {"id": 21, "n": 20, "note": "long before"}}
    assert (batch.rows, batch.keys, batch.upserts, batch.deletes) == (40, 21, 1, 20)


def test_two_rows_swapped_through_a_temporary_key_swap_their_values(spark: SparkSession, tmp_path: Path) -> None:
    table = SourceTable()
    table.insert(1, 1, "long first")
    table.insert(2, 2, "long second")
    table.take_lines()
    before = by_id(table.rows)
    table.move(1, 9, 1)
    table.move(2, 1, 2)
    table.move(9, 2, 1)
    batch = read_items(spark, write_files(tmp_path / "in", table.take_lines()), before)
    after = applied(before, batch, ["id"])
    assert {key: row["note"] for key, row in after.items()} == {(1,): "long second", (2,): "long first"}


def test_a_known_null_is_not_taken_for_an_unknown_value(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        json.dumps(envelope("u", {"id": 1, "n": 1, "note": None}, ["1", "10"])),
        json.dumps(envelope("u", {"id": 1, "n": 2, "note": PLACEHOLDER}, ["1", "20"])),
    ]
    before: Rows = {(1,): {"id": 1, "n": 0, "note": "long before"}}
    batch = read_items(spark, write_files(tmp_path / "in", lines), before)
    assert applied(before, batch, ["id"]) == {(1,): {"id": 1, "n": 2, "note": None}}


def test_a_value_that_nothing_fills_is_refused_with_its_column(spark: SparkSession, tmp_path: Path) -> None:
    lines = [json.dumps(envelope("u", {"id": key, "n": 1, "note": PLACEHOLDER}, ["1", str(key)])) for key in (1, 2)]
    path = write_files(tmp_path / "in", lines)
    before: Rows = {(1,): {"id": 1, "n": 0, "note": "long before"}}
    with pytest.raises(BadInputError, match=r"neither earlier in the batch nor in the table: 1 of note"):
        read_items(spark, path, before)


def test_the_greatest_sequence_is_last_whatever_the_order_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    sequences: list[list[str | None]] = [["9", "20"], ["10", "15"], [None, "8"], ["10", "9"]]
    lines = [json.dumps(envelope("u", {"id": 1, "n": n, "note": ""}, s)) for n, s in enumerate(sequences)]
    # A snapshot that was taken again knows no commit before it: it stands at its own place.
    snapshots: list[list[str | None]] = [[None, "5"], ["6", "7"], [None, "30"], ["10", "29"]]
    lines += [json.dumps(envelope("r", {"id": 2, "n": n, "note": ""}, s)) for n, s in enumerate(snapshots)]
    batch = read_items(spark, write_files(tmp_path / "in", lines))
    assert {row["id"]: row["n"] for row in batch.changes.collect()} == {1: 1, 2: 2}


def test_all_line_forms_are_read_and_other_tables_left_aside(spark: SparkSession, tmp_path: Path) -> None:
    def event(key: int, table: str = "items") -> Any:
        return envelope("c", {"id": key, "n": key, "note": "x"}, ["1", str(key)], table)

    bare = event(1)
    forms = [
        bare,
        {"schema": None, "payload": event(2)},
        {"topic": "t", "key": {"id": 3}, "value": event(3)},
        {"topic": "t", "key": {"schema": None, "payload": {"id": 4}}, "value": {"schema": None, "payload": event(4)}},
        {"topic": "t", "key": {"id": 5}, "value": None},
        {"topic": "t", "key": {"schema": None, "payload": {"id": 5}}, "value": None},
        # As a sink writes it that leaves keys out, which is the default of Aiven's.
        {"value": None},
        {"value": None, "offset": 7, "timestamp": "2026-01-01T00:00:00Z"},
        event(6, table="others"),
        {**envelope("m", None, None), "message": {}},
    ]
    path = write_files(tmp_path / "in", [json.dumps(form) for form in forms] + ["", "  "])
    batch = read_items(spark, path)
    assert sorted(row["id"] for row in batch.changes.collect()) == [1, 2, 3, 4]
    qualified = events_of("public.items", ITEMS)
    again = read_debezium_changes(spark, qualified, list_input_files(spark, path), ["id"], TargetState())
    assert again.rows == 4


# What a connector sends beside change events, as Debezium's SchemaFactory makes it.
_TRANSACTION = {"status": "BEGIN", "id": "571:53195832", "event_count": None, "data_collections": None, "ts_ms": 1}
_SERVICE_RECORDS: dict[str, dict[str, Any]] = {
    "heartbeat": {"ts_ms": 1_700_000_000_000},
    "begin of a transaction": _TRANSACTION,
    "end of a transaction": {
        **_TRANSACTION,
        "status": "END",
        "event_count": 2,
        "data_collections": [{"data_collection": "public.items", "event_count": 2}],
    },
    "schema change": {
        "source": {"schema": "public", "table": "items"},
        "ts_ms": 1,
        "databaseName": "d",
        "schemaName": "public",
        "ddl": None,
        "tableChanges": [{"type": "CREATE", "id": '"d"."public"."items"', "table": {"columns": []}}],
    },
    "notification": {
        "id": "5563ae14",
        "aggregate_type": "Initial Snapshot",
        "type": "COMPLETED",
        "additional_data": {"connector_name": "x"},
        "timestamp": 1,
    },
    "message of the log": {**envelope("m", None, ["1", "2"], "items"), "message": {"prefix": "p", "content": "aGk="}},
    "row of the table of signals": envelope("c", {"id": "s", "type": "log", "data": "{}"}, ["1", "2"], "signals"),
    "window of an incremental snapshot": envelope(
        "c", {"id": "s-open", "type": "snapshot-window-open", "data": "{}"}, ["1", "2"], "debezium_signal"
    ),
}


@pytest.mark.parametrize("ordering", ["partition", "stream"])
def test_what_a_connector_sends_beside_events_is_left_out_in_every_form(
    spark: SparkSession, tmp_path: Path, ordering: str
) -> None:
    lines: list[str] = []
    for kind, value in _SERVICE_RECORDS.items():
        record = {"topic": f"__{kind}", "partition": 0, "offset": len(lines), "key": {"serverName": "s"}}
        forms = [value, {"schema": {"type": "struct"}, "payload": value}]
        lines += [json.dumps(form) for form in (*forms, *({**record, "value": form} for form in forms))]
    event = {"topic": "t", "partition": 0, "offset": 5, "key": {"id": 1}}
    lines.append(json.dumps({**event, "value": envelope("c", {"id": 1, "n": 7, "note": "x"}, ["1", "7"])}))
    path = write_files(tmp_path / "in", lines)
    source = replace(events_of("items", ITEMS), ordering=ordering)
    batch = read_debezium_changes(spark, source, list_input_files(spark, path), ["id"], TargetState())
    assert (batch.rows, [row["n"] for row in batch.changes.collect()]) == (1, [7])


def _keyed(key: Any, event: Any) -> str:
    return json.dumps({"topic": "t", "key": key, "value": event})


@pytest.mark.parametrize("ordering", ["stream", "key"])
def test_a_delete_without_an_old_image_is_applied_by_the_records_key(
    spark: SparkSession, tmp_path: Path, ordering: str
) -> None:
    rows: Rows = {(key,): {"id": key, "n": key, "note": "x"} for key in (1, 2, 3)}
    bare = {**envelope("d", None, ["1", "8"]), "before": None}
    nested = {**envelope("d", None, ["1", "9"]), "before": None}
    added = {"__dbz__physicalTableIdentifier": "t"}
    lines = [_keyed({"id": 1}, bare), _keyed({"schema": {}, "payload": {"id": 2, **added}}, {"payload": nested})]
    source = replace(events_of("items", ITEMS), ordering=ordering)
    files = list_input_files(spark, write_files(tmp_path / "in", lines))
    order = KeyOrder(epoch=0) if ordering == "key" else None
    batch = read_debezium_changes(spark, source, files, ["id"], TargetState(), order=order)
    assert {row["id"] for row in batch.changes.filter(DELETED).collect()} == {1, 2}
    assert (batch.deletes, batch.upserts) == (2, 0)
    if ordering == "stream":
        assert applied(rows, batch, ["id"]) == {(3,): rows[(3,)]}
    undeclared = list_input_files(spark, write_files(tmp_path / "undeclared", lines[:1]))
    alone = read_debezium_changes(spark, replace(source, schema=None), undeclared, ["id"], TargetState(), order=order)
    assert [row["id"] for row in alone.changes.filter(DELETED).collect()] == [1]
    with pytest.raises(BadInputError, match="1 events have a key that is NULL"):
        read_items(spark, write_files(tmp_path / "none", [json.dumps(bare), *lines[1:]]))


def test_a_field_that_a_router_adds_to_the_key_is_no_column(spark: SparkSession, tmp_path: Path) -> None:
    event = envelope("c", {"id": 1, "n": 1, "note": "x"}, ["1", "8"])
    files = [
        list_input_files(spark, write_files(tmp_path / f"in {name}", [_keyed({"id": 1, name: "t"}, event)]))
        for name in ("__dbz__physicalTableIdentifier", "shard")
    ]
    source = events_of("items", ITEMS)
    assert read_debezium_changes(spark, source, files[0], ["id"], TargetState()).keys == 1
    with pytest.raises(BadInputError, match=r"have no \['shard'\].*key_field_name='shard'"):
        read_debezium_changes(spark, source, files[1], ["id"], TargetState())
    with pytest.raises(BadInputError, match="rows of items have a column id"):
        read_debezium_changes(spark, replace(source, key_field_name="id"), files[1], ["id"], TargetState())
    advised = replace(source, key_field_name="shard")
    assert read_debezium_changes(spark, advised, files[1], ["id"], TargetState()).keys == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"before": null, "after": {"id"',
            r"1 lines are no Debezium change events, which .* source\.table: 1 in .*000\.jsonl, the first is its",
        ),
        (json.dumps(envelope("c", {"id": 1, "n": 1, "note": "x"}, None)), r"1 of 2 events .* no source\.sequence"),
        (json.dumps(envelope("c", {"id": 1, "n": 1, "note": "x"}, ["1"])), r"no source\.sequence"),
        (json.dumps(envelope("x", {"id": 1, "n": 1, "note": "x"}, ["1", "2"])), r"operations \['x'\]"),
        (
            json.dumps(envelope("c", {"id": None, "n": 1, "note": "x"}, ["1", "2"])),
            r"1 events have a key that is NULL .* 1 of id as int\. Give",
        ),
        (json.dumps(envelope("c", {"id": 1, "n": 2**31, "note": "x"}, ["1", "2"])), "1 of n as int"),
        (json.dumps(envelope("c", {"id": 1, "n": "one", "note": "x"}, ["1", "2"])), "1 of n as int"),
        (
            json.dumps(
                {**envelope("u", {"id": 1, "n": 1, "note": ""}, ["1", "2"]), "before": {"id": 3, "n": 1, "note": ""}}
            ),
            "1 updates of items change the key columns",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused_and_told(
    spark: SparkSession, tmp_path: Path, line: str, message: str
) -> None:
    good = json.dumps(envelope("c", {"id": 7, "n": 7, "note": "x"}, ["1", "7"]))
    with pytest.raises(BadInputError, match=message):
        read_items(spark, write_files(tmp_path / "in", [good, line]))


NO_EVENTS = (
    "nonsense",
    json.dumps({**envelope("c", {"id": 1, "n": 1}, ["1", "2"]), "source": {"sequence": '["1", "2"]'}}),
    '{"id": 1, "n": 2}',
    '{"key": 1, "n": 2}',
    '{"ts_ms": 1, "n": 2}',
    '{"status": "BEGIN"}',
    # Rows without their envelope, whose columns are those of a transaction's begin, or hold an event's word.
    '{"id": 1, "status": "NEW"}',
    '{"schema": {}, "payload": {"id": 1, "status": null}}',
    '{"id": 1, "op": "m"}',
    '{"id": 1, "type": "a", "n": 2}',
    '{"ts_ms": 1',
    '{"topic": "t", "key": {"id": 1}, "value": {"id": 1, "n": 2}}',
    '{"topic": "t", "key": {"id": 1}, "value": 5}',
    # A row that is no object, and a key that is cut off.
    json.dumps({**envelope("c", {}, ["1", "2"]), "after": '{"id": 1}'}),
    json.dumps({**envelope("c", {}, ["1", "2"]), "after": [1]}),
    json.dumps({"topic": "t", "key": '{"id": 1, "li', "value": envelope("c", {"id": 1}, ["1", "2"])}),
)


def test_each_line_that_is_no_event_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    good = json.dumps(envelope("c", {"id": 7, "n": 7, "note": "x"}, ["1", "7"]))
    path = write_files(tmp_path / "in", [good, *NO_EVENTS])
    counted = rf"^{len(NO_EVENTS)} lines are no Debezium change events, which are JSON with op and source\.table"
    with pytest.raises(BadInputError, match=counted):
        read_items(spark, path)


def test_a_bad_line_is_told_by_its_place(spark: SparkSession, tmp_path: Path) -> None:
    good = json.dumps(envelope("c", {"id": 7, "n": 7, "note": "x"}, ["1", "7"]))
    path = write_files(tmp_path / "in", [good], [good, good, "broken", good, "broken"])
    with pytest.raises(BadInputError, match=r"2 lines are no .*: 2 in .*/001\.jsonl, the first is its record 3"):
        read_items(spark, path)


def test_a_truncation_is_refused_as_unsupported(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "in", [json.dumps(envelope("t", None, ["1", "7"]))])
    with pytest.raises(UnsupportedError, match=r"skipped\.operations=t"):
        read_items(spark, path)


def test_missing_keys_are_named_with_what_the_events_have(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "in", [json.dumps(envelope("c", {"id": 7, "n": 7}, ["1", "7"]))])
    with pytest.raises(BadInputError, match=r"lack: \['ID'\]; they have \['id', 'n'\]"):
        read_items(spark, path, keys=("ID",))


def test_a_batch_without_events_of_the_table_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "in", [json.dumps(envelope("c", {"id": 7}, ["1", "7"], "others"))])
    batch = read_items(spark, path)
    assert (batch.rows, batch.keys) == (0, 0)
    assert batch.changes.collect() == []


def test_keys_that_were_deleted_and_inserted_again_are_told(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        json.dumps(envelope("d", {"id": 1}, ["1", "1"])),
        json.dumps(envelope("c", {"id": 1, "n": 1}, ["1", "2"])),
        json.dumps(envelope("u", {"id": 2, "n": 1}, ["1", "3"])),
        json.dumps(envelope("d", {"id": 3}, ["1", "4"])),
    ]
    files = list_input_files(spark, write_files(tmp_path / "in", lines))
    batch = read_debezium_changes(
        spark, events_of("items", "id INT, n INT"), files, ["id"], TargetState(), tells_resets=True
    )
    assert {row["id"]: row[RESET] for row in batch.changes.collect()} == {1: True, 2: False, 3: False}
