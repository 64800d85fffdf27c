"""Topics of change events of a real broker, applied as the driver does and compared with the table of the source."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.sources.debezium.event_writer import SourceTable, envelope
from tests.spark.sources.debezium.event_writer import Topic as Placed
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.upsert_flow import CountedCommits, Flow, Killed, NewFlow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
SCHEMA = "id INT, n INT, note STRING"


def events(name: str, **arguments: Any) -> DebeziumTopic:
    return DebeziumTopic("kafka", name, **{"table": "public.items", "schema": SCHEMA, **arguments})


def records(lines: list[str], partitions: int = 1, *, with_schema: bool = False) -> list[tuple[Any, ...]]:
    """Return lines as records of a topic, each key in a partition of its own."""
    made = []
    for line in map(json.loads, lines):
        key, value = line["key"], line["value"]
        headers = {name: json.dumps(of).encode() for name, of in line.get("headers", {}).items()}
        if with_schema:
            key, value = {"schema": {}, "payload": key}, value and {"schema": {}, "payload": value}
        made.append((line["key"]["id"] % partitions, key, value, headers))
    return made


def rows(flow: Flow) -> dict[int, dict[str, Any]]:
    names = ("id", "n", "note")
    return {row["id"]: {name: row[name] for name in names} for row in flow.records()}


def test_each_event_is_applied_once_whatever_else_is_in_the_topic(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, table = new_flow(**PLAIN), SourceTable()
    cluster.make("items", 2)
    source = events("items")
    for key in range(4):
        table.insert(key, 0, f"long {key}")
    table.update(1, 1)
    cluster.send("items", *records(table.take_lines(), 2))
    # What a connector sends beside: events of other tables, a message, a heartbeat, the begin of a transaction.
    other = envelope("c", {"id": 9, "n": 9}, ["1", "2"], "others")
    message = {"op": "m", "source": {"schema": "", "table": ""}, "message": {}}
    beside = [other, message, {"ts_ms": 1}, {"status": "BEGIN", "id": "1:2", "ts_ms": 1}]
    cluster.send("items", *((0, None, each) for each in beside), (1, {"id": 9}, None))
    report = flow.apply("run 1", source=source)
    assert (report.batch_rows, report.outcome) == (5, Outcome.APPLIED)
    assert rows(flow) == table.rows
    assert flow.apply("run 2", source=source).outcome is Outcome.NOTHING_NEW
    cluster.assert_a_worker_sees_the_same_end("items")
    table.delete(2)
    table.update(1, 2)
    table.move(3, 13, 5)
    cluster.send("items", *records(table.take_lines(), 2, with_schema=True))

    def kill(_: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        flow.apply("run 3", CountedCommits(then=kill), source=source)
    report = flow.apply("run 3", source=source)
    assert report.batch_rows == 4
    assert rows(flow) == table.rows
    assert flow.apply("run 3", source=source).outcome is Outcome.ALREADY_APPLIED


def test_a_run_goes_on_in_shares_and_keeps_one_range_of_offsets(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, table = new_flow(**PLAIN), SourceTable()
    cluster.make("shares", 2)
    for key in range(6):
        table.insert(key, 0, "a")
    for number in range(3):
        table.delete(number)
        table.insert(number, number, "b")
    cluster.send("shares", *records(table.take_lines(), 2))
    report = flow.apply("run 1", source=events("shares", max_records=5, catch_up=True))
    assert "2 more commits followed" in report.reason
    assert rows(flow) == table.rows
    marks = SourcePosition.read(flow.properties(), "inbox").events
    assert marks is not None
    # A tombstone between two events was read, too.
    assert [len(mark.consumed) for mark in marks.partitions.values()] == [1, 1]
    cluster.grow("shares", 3)
    table.update(5, 9, "moved")
    table.update(1, 9, "moved")
    cluster.send("shares", *records(table.take_lines(), 3))
    with pytest.raises(BadInputError, match="partitions 2 are new, which moves keys"):
        flow.apply("run 2", source=events("shares", max_records=1))
    flow.apply("run 2", source=events("shares"))
    assert rows(flow) == table.rows
    # The same table under the name of a mistake.
    cluster.send("shares", (0, {"id": 1}, envelope("c", {"id": 1, "n": 1}, ["1", "2"], "others")))
    with pytest.raises(BadInputError, match="the source was read for another table before"):
        flow.apply("run 3", source=events("shares", table="others"))


def test_a_table_that_is_not_in_the_first_share_is_read_from_a_later_one(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow(**PLAIN)
    cluster.make("two")
    others = [envelope("r", {"id": key, "n": key}, [None, "1"], "others") for key in range(5)]
    cluster.send("two", *((0, {"id": key}, each) for key, each in enumerate(others)))
    table = SourceTable()
    table.insert(1, 1, "a")
    table.insert(2, 2, "b")
    cluster.send("two", *records(table.take_lines()))
    # No table keeps how far the stream was read.
    with pytest.raises(BadInputError, match=r"no table yet .* Leave max_records and catch_up out for this run"):
        flow.apply("run 1", source=events("two", max_records=3, catch_up=True))
    flow.spark.sql(f"CREATE TABLE lake_default.{flow.table} (id INT, n INT, note STRING) USING iceberg")
    flow.apply("run 1", source=events("two", max_records=3, catch_up=True))
    assert rows(flow) == table.rows
    # What its events are called now comes behind the first share, and another name comes nowhere.
    cluster.send("two", (0, {"id": 3}, envelope("c", {"id": 3, "n": 3, "note": "c"}, ["800", "900"], "goods")))
    with pytest.raises(BadInputError, match=r"none of the events belongs to public.gods, .* public.others \(5\)"):
        flow.apply("run 2", source=events("two", table="public.gods", max_records=3))
    flow.apply("run 2", source=events("two", table="public.goods", max_records=3, catch_up=True))
    assert rows(flow) == {**table.rows, 3: {"id": 3, "n": 3, "note": "c"}}


def test_a_misspelled_table_is_told_in_the_last_share(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow(**PLAIN)
    cluster.make("misspelled")
    others = [envelope("r", {"id": key, "n": key}, [None, "1"], "others") for key in range(5)]
    cluster.send("misspelled", *((0, {"id": key}, each) for key, each in enumerate(others)))
    flow.spark.sql(f"CREATE TABLE lake_default.{flow.table} (id INT, n INT, note STRING) USING iceberg")
    with pytest.raises(BadInputError, match=r"none of the events belongs to public.items, .* public.others \(2\)"):
        flow.apply("run 1", source=events("misspelled", max_records=3, catch_up=True))


def test_a_table_without_new_events_is_behind_those_of_others_before_the_broker_removes_them(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow, table = new_flow(**PLAIN), SourceTable()
    cluster.make("busy")
    table.insert(1, 1, "a")
    cluster.send("busy", *records(table.take_lines()))
    flow.apply("run 1", source=events("busy"))
    cluster.send("busy", (0, {"id": 9}, envelope("c", {"id": 9, "n": 9}, ["1", "2"], "others")))
    report = flow.apply("run 2", source=events("busy"))
    assert (report.outcome, report.committed) == (Outcome.EMPTY_BATCH, ())
    flow.forget_commits("(3, 3, 'c')")
    assert flow.apply("run 3", source=events("busy")).reason == "applied the offsets of partitions 0: 1 to 1"
    cluster.cut("busy", 0, 2)
    table.update(1, 2)
    cluster.send("busy", *records(table.take_lines()))
    flow.apply("run 4", source=events("busy"))
    assert rows(flow) == {**table.rows, 3: {"id": 3, "n": 3, "note": "c"}}


def test_events_that_are_gone_or_of_a_topic_made_anew_are_refused(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, table = new_flow(**PLAIN), SourceTable()
    cluster.make("lost")
    table.insert(1, 1, "a")
    cluster.send("lost", *records(table.take_lines()))
    flow.apply("run 1", source=events("lost"))
    table.update(1, 2)
    table.update(1, 3)
    cluster.send("lost", *records(table.take_lines()))
    cluster.cut("lost", 0, 2)
    with pytest.raises(BadInputError, match="removed 1 offsets that no run has applied"):
        flow.apply("run 2", source=events("lost"))
    flow.apply("run 2", source=events("lost", on_gap="skip"))
    assert rows(flow) == table.rows
    cluster.remove("lost")
    cluster.make("lost")
    table.update(1, 4)
    cluster.send("lost", *records(table.take_lines()))
    with pytest.raises(BadInputError, match="lost was made anew"):
        flow.apply("run 3", source=events("lost"))
    flow.apply("run 3", source=events("lost"), on_repeat="apply")
    table.update(1, 5)
    cluster.send("lost", *records(table.take_lines()))
    flow.apply("run 4", source=events("lost"))
    assert rows(flow) == table.rows


@pytest.mark.parametrize("ordering", ["partition", "key"])
def test_events_that_a_connector_sends_again_take_no_row_back(
    cluster: Cluster, new_flow: NewFlow, ordering: str
) -> None:
    flow, table, name = new_flow(**PLAIN), SourceTable(), f"again-{ordering}"
    cluster.make(name)
    table.insert(1, 0, "a")
    table.insert(2, 0, "a")
    table.update(1, 1)
    table.delete(2)
    sent = records(table.take_lines())
    cluster.send(name, *sent)
    flow.apply("run 1", source=events(name, ordering=ordering))
    # The newer ones come in another run.
    cluster.send(name, *sent[:2])
    report = flow.apply("run 2", source=events(name, ordering=ordering))
    assert (report.events_dropped, rows(flow)) == (2, table.rows)
    cluster.assert_a_worker_sees_the_same_end(name)
    assert flow.apply("run 3", source=events(name, ordering=ordering)).outcome is Outcome.NOTHING_NEW


@pytest.mark.parametrize("ordering", ["partition", "key"])
def test_any_life_of_a_topic_ends_as_its_source(cluster: Cluster, new_flow: NewFlow, ordering: str) -> None:
    flow, table, chance = new_flow(**PLAIN), SourceTable(), random.Random(5)
    name, partitions, sent = f"life-{ordering}", 2, list[str]()
    cluster.make(name, partitions)
    by_key = ordering == "key"
    source = events(name, ordering=ordering)
    for run in range(3):
        for _ in range(chance.randrange(1, 12)):
            _change(table, chance)
        if run == 2:
            partitions += 1
            cluster.grow(name, partitions)
        lines = table.take_lines()
        # A connector that starts again sends what it did not note as sent.
        again = sent[-chance.randrange(0, 8) :] if run and chance.random() < 0.6 else []
        sent += lines
        produced = records([*again, *lines], partitions)
        if by_key:
            # Nothing keeps the events of one key in one partition.
            produced = [(chance.randrange(partitions), *rest) for _, *rest in produced]
        cluster.send(name, *produced)
        is_bounded = chance.random() < 0.5 and (by_key or run != 2)
        bound: dict[str, Any] = {"max_records": chance.randrange(5, 10), "catch_up": True} if is_bounded else {}
        flow.apply(f"run {run}", source=replace(source, **bound))
        assert rows(flow) == table.rows, run


def _change(table: SourceTable, chance: random.Random) -> None:
    key, n = chance.randrange(8), chance.randrange(100)
    free = [other for other in range(8) if other not in table.rows]
    if key not in table.rows:
        table.insert(key, n, chance.choice(["short", "long", None]))
    elif chance.random() < 0.25:
        table.delete(key)
    elif free and chance.random() < 0.3:
        table.move(key, chance.choice(free), n)
    else:
        table.update(key, n, *([f"long {n}"] if chance.random() < 0.3 else []))


def test_what_is_no_event_is_named_with_its_place_and_what_cannot_be_applied_is_refused(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    sound = envelope("c", {"id": 1, "n": 1, "note": None}, ["1", "2"])
    cases: dict[str, tuple[Any, Any, type[Exception], str]] = {
        "cut": ({"id": 1}, b'{"op": "c", "source": {"table": "items"', BadInputError, "first is offset 1 of partition"),
        "bytes": ({"id": 1}, b'{"op": "c", "note": "\xff"}', BadInputError, "1 lines are no Debezium change events"),
        "empty": ({"id": 1}, b"", BadInputError, "1 lines are no Debezium change events"),
        "row": ({"id": 1}, {"id": 1, "n": 1}, BadInputError, "1 lines are no Debezium change events"),
        "truncated": (None, envelope("t", None, ["3", "4"]), UnsupportedError, "hold a truncation"),
        "keyless": (None, sound, BadInputError, "have no key"),
        "unplaced": ({"id": 1}, envelope("c", {"id": 1}, None), BadInputError, "have no source.sequence"),
    }
    for name, (key, value, error, says) in cases.items():
        cluster.make(f"bad-{name}")
        cluster.send(f"bad-{name}", (0, {"id": 1}, sound), (0, key, value))
        with pytest.raises(error, match=says):
            new_flow(**PLAIN).apply(source=events(f"bad-{name}"))


def test_events_of_a_key_in_two_partitions_go_by_the_log_and_a_snapshot_is_its_beginning(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow = new_flow(**PLAIN)
    cluster.make("snapshot", 2)
    read = [envelope("r", {"id": key, "n": 0, "note": "a"}, [None, "500"]) for key in range(4)]
    changed = envelope("u", {"id": 1, "n": 7, "note": "b"}, ["500", "600"])
    cluster.send("snapshot", *((n % 2, {"id": n}, each) for n, each in enumerate(read)), (1, {"id": 1}, changed))
    flow.apply("run 1", source=events("snapshot"))
    newest = [(1, {"id": 2}, envelope("u", {"id": 2, "n": 1, "note": "b"}, ["600", "700"]))]
    newest += [(0, {"id": 2}, envelope("u", {"id": 2, "n": 2, "note": "c"}, ["700", "800"]))]
    cluster.send("snapshot", *newest)
    flow.apply("run 2", source=events("snapshot"))
    assert sorted((row["id"], row["n"]) for row in rows(flow).values()) == [(0, 0), (1, 7), (2, 2), (3, 0)]


def test_a_table_goes_over_from_files_to_the_topic_under_one_name(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, table, placed = new_flow(**PLAIN), SourceTable(), Placed(partitions=2, name="both")
    for key in range(4):
        table.insert(key, 0, "a")
    table.delete(2)
    brought = placed.produce(table.take_lines())
    flow.arrive("1.jsonl", *map(json.loads, brought))
    files = Debezium(f"{flow.inbox}/*.jsonl", table="public.items", schema=SCHEMA)
    flow.apply("run 1", source=files)
    table.update(1, 5)
    cluster.make("both", 2)
    cluster.send("both", *records([*brought, *table.take_lines()], 2))
    report = flow.apply("run 2", source=events("both"))
    # The newest of a partition comes once more, unless it is a delete.
    assert (report.batch_rows, report.events_dropped) == (6, 4)
    assert rows(flow) == table.rows
    assert flow.apply("run 3", source=events("both")).outcome is Outcome.NOTHING_NEW
