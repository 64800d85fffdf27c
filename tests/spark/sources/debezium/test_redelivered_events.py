"""Change events that are delivered again, late, or from a source that started anew; the table is read by PyIceberg."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventMarks
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.cdc.stream_state import StreamState
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.shop_oracle import SHOP, oracle
from tests.spark.sources.debezium.debezium_batches import ITEMS, Rows, applied, as_table, read_debezium_changes
from tests.spark.sources.debezium.event_writer import SourceTable, Topic, envelope, of_partition
from tests.spark.sources.debezium.shop_events import ddl_of, events_of
from tests.spark.upsert_flow import Flow

REDELIVERED = SHOP / "redelivered"


@dataclass
class Stream:
    """A folder of events, and the table that a task keeps from them by one name."""

    flow: Flow
    runs: int = 0

    def deliver(self, name: str, lines: list[str], at: int | None = None) -> None:
        self.flow.inbox.mkdir(parents=True, exist_ok=True)
        file = self.flow.inbox / name
        file.write_text("".join(line + "\n" for line in lines))
        if at is not None:
            os.utime(file, (at, at))

    def apply(self, ordering: Any = None, **changes: Any) -> UpsertReport:
        self.runs += 1
        source = Debezium(path=str(self.flow.inbox), table="items", schema=ITEMS, name="items", ordering=ordering)
        plain: dict[str, Any] = {"delete_when": None, "exclude_columns": (), "missing_columns": MissingColumns.NULL}
        return self.flow.apply(f"run {self.runs}", source=source, **plain, **changes)

    def rows(self) -> dict[int, dict[str, Any]]:
        return {key: {"id": key, "n": n, "note": note} for key, (n, note) in self.flow.rows().items()}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Stream:
    return Stream(Flow(spark, f"redelivered.t{abs(hash(request.node.name)) % 10**9}", tmp_path / "inbox"))


@dataclass
class Reader:
    """Batches of ``items`` read one after another, applied to a dict with the marks kept in memory: no commit."""

    spark: SparkSession
    folder: Path
    ordering: Any = None
    rows: Rows = field(default_factory=dict)
    marks: EventMarks | None = None
    read: int = 0

    def apply(self, lines: list[str], name: str = "events.jsonl", **options: Any) -> ChangeBatch:
        return self.apply_files({name: lines}, **options)

    def apply_files(self, files: dict[str, list[str]], **options: Any) -> ChangeBatch:
        self.read += 1
        folder = self.folder / f"{self.read:03}"
        folder.mkdir(parents=True)
        for name, lines in files.items():
            (folder / name).write_text("".join(line + "\n" for line in lines))
        source = Debezium(path=str(folder), table="items", schema=ITEMS, ordering=self.ordering)
        found = list_input_files(self.spark, str(folder))
        before = as_table(self.spark, self.rows, ITEMS)
        target = TargetState(None, before, marks=self.marks, has_had_events=self.marks is not None)
        batch = read_debezium_changes(self.spark, source, found, ["id"], target, **options)
        self.rows, self.marks = applied(self.rows, batch, ["id"]), StreamState.of(batch).marks
        batch.release()
        return batch

    def plain(self) -> dict[int, dict[str, Any]]:
        return {key[0]: row for key, row in self.rows.items()}


@pytest.fixture
def reader(spark: SparkSession, tmp_path: Path) -> Reader:
    return Reader(spark, tmp_path / "read")


def moved_and_used_again() -> tuple[SourceTable, list[list[str]]]:
    """Row 1 with a long note moves to key 2, and key 1 is used again by another row; three deliveries."""
    table = SourceTable()
    table.insert(1, 0, "long of the first")
    table.insert(3, 0, "short")
    first = table.take_lines()
    table.move(1, 2, 1)
    table.update(3, 1, "newer")
    second = table.take_lines()
    table.insert(1, 5, "long of another")
    table.update(2, 2)
    table.delete(3)
    return table, [first, second, table.take_lines()]


def test_events_delivered_again_take_no_row_back_and_are_counted(stream: Stream) -> None:
    table, deliveries = moved_and_used_again()
    topic = Topic()
    first, second, third = (topic.produce(lines) for lines in deliveries)
    for name, lines in (("1.jsonl", first), ("2.jsonl", second), ("3.jsonl", third)):
        stream.deliver(name, lines)
        report = stream.apply()
        assert (report.outcome, report.ordering, report.events_dropped) == (Outcome.APPLIED, "partition", 0)
    assert stream.rows() == table.rows
    stream.deliver("4.jsonl", second)
    stream.deliver("3.jsonl", third, at=1_800_000_000)
    stream.deliver("5.jsonl", [*first[:1], *second[1:3]])
    report = stream.apply()
    assert (report.outcome, report.ordering, report.events_dropped) == (Outcome.NOTHING_NEW, "partition", 8)
    assert "delivered again" in report.reason
    assert stream.rows() == table.rows
    stream.deliver("6.jsonl", second)
    report = stream.apply()
    assert (report.outcome, report.batch_rows, report.events_dropped) == (Outcome.NOTHING_NEW, 3, 3)
    assert stream.apply().reason.startswith("recognised by position")
    table.insert(4, 0, None)
    stream.deliver("7.jsonl", [*second, *topic.produce(table.take_lines())])
    report = stream.apply()
    assert (report.outcome, report.batch_rows, report.events_dropped) == (Outcome.APPLIED, 4, 3)
    assert stream.rows() == table.rows
    # What was wrong and put right has its way; no mark goes back.
    marks = stream.flow.loaded().properties["lake.events.items"]
    stream.deliver("2.jsonl", second, at=1_800_000_000)
    report = stream.apply(on_repeat=OnRepeat.APPLY)
    assert (report.outcome, report.events_dropped) == (Outcome.APPLIED, 0)
    assert stream.flow.loaded().properties["lake.events.items"] == marks
    assert stream.rows() == table.rows


def test_a_connector_that_starts_again_sends_old_events_at_new_offsets(reader: Reader) -> None:
    table, deliveries = moved_and_used_again()
    topic = Topic(partitions=2)
    for lines in deliveries:
        reader.apply(topic.produce(lines))
    assert reader.plain() == table.rows
    table.update(1, 6)
    again = topic.produce([*deliveries[1], *deliveries[2], *table.take_lines()])
    assert reader.apply(again).side.dropped == 5
    assert reader.plain() == table.rows


def test_a_late_file_of_another_partition_is_applied_and_one_of_the_same_is_refused(reader: Reader) -> None:
    table = SourceTable()
    for key in (1, 2, 3, 4):
        table.insert(key, 0, "first")
    topic = Topic(partitions=2)
    first = topic.produce(table.take_lines())
    table.update(2, 1, "second")
    table.delete(1)
    late = topic.produce(table.take_lines())
    table.update(4, 2, "third")
    table.insert(5, 2, "third")
    newest = topic.produce(table.take_lines())
    reader.apply(first)
    reader.apply(of_partition(0, [*late, *newest]))
    batch = reader.apply(of_partition(1, [*late, *newest]))
    assert batch.side.dropped == 0
    assert reader.plain() == table.rows
    table.update(2, 3, "fourth")
    missed = topic.produce(table.take_lines())
    table.update(2, 4, "fifth")
    reader.apply(topic.produce(table.take_lines()))
    marks = reader.marks
    with pytest.raises(BadInputError, match=r"partition shop\.public\.items-0.*never read.*ordering='key'"):
        reader.apply([*missed, *late])
    assert reader.marks == marks
    assert reader.plain() == table.rows


def test_names_of_sinks_tell_the_partition_and_what_was_read_of_it(reader: Reader) -> None:
    table = SourceTable(kafka=False)
    files: list[list[str]] = []
    for number in range(3):
        table.insert(number, 0, "a")
        table.update(number, 1, "b")
        table.update(0, number, "c")
        files.append(table.take_lines())
    names = [f"shop.public.items+0+{3 * number:010}.json" for number in range(3)]
    batch = reader.apply_files(dict(zip(names[:1], files[:1], strict=True)))
    assert batch.side.ordering == "partition"
    reader.apply(files[2], names[2])
    with pytest.raises(BadInputError, match="offsets from 3 to 5"):
        reader.apply(files[1], names[1])
    # The sink wrote the end of a file anew, and Aiven's names mean the same partition.
    assert reader.apply(files[2][1:], "shop.public.items-0-7.json").side.dropped == 1
    assert reader.apply(files[0], "shop.public.items-0-0.json").side.dropped == 3
    with pytest.raises(BadInputError, match="nothing tells"):
        reader.apply(files[0], "items-2026-11.json")


def test_older_events_of_unknown_order_are_refused_and_the_stream_drops_them(reader: Reader) -> None:
    table = SourceTable(kafka=False)
    table.insert(1, 0, "a")
    first = table.take_lines()
    table.update(1, 1, "b")
    second = table.take_lines()
    assert reader.apply(first).side.ordering == "unknown"
    reader.apply(second)
    with pytest.raises(BadInputError, match=r"1 events of items.*ordering='stream'.*ordering='key'"):
        reader.apply([*first, *second])
    reader.ordering = "stream"
    batch = reader.apply([*first, *second])
    marks = reader.marks
    assert (batch.side.ordering, batch.side.dropped) == ("stream", 1)
    assert reader.plain() == table.rows
    # Going over to "key" brings no old event over a row that has no position.
    reader.ordering = "key"
    batch = reader.apply(first)
    assert (batch.side.ordering, batch.side.dropped) == ("key", 1)
    assert reader.plain() == table.rows
    reader.ordering = "stream"
    reader.marks = marks
    reader.ordering = "partition"
    with pytest.raises(BadInputError, match="1 events of items do not tell their partition"):
        reader.apply(first)
    topic = Topic()
    record = [json.dumps({"key": {"id": 1}, "value": json.loads(first[0])})]
    with pytest.raises(BadInputError, match="ordering='stream', and whether"):
        reader.apply(topic.produce(record))


def test_a_restored_database_is_not_taken_for_a_repetition(reader: Reader) -> None:
    table = SourceTable(kafka=False, position=5_000)
    table.insert(1, 0, "before")
    reader.ordering = "stream"
    old_log = table.take_lines()
    reader.apply(old_log)
    restored = SourceTable(kafka=False, position=1_000, began=table.began + 60_000)
    restored.insert(1, 7, "restored")
    lines = restored.take_lines()
    for ordering in ("stream", None):
        reader.ordering = ordering
        with pytest.raises(BadInputError, match=r"started again.*the source a new name.*on_repeat='apply'"):
            reader.apply(lines)
    with pytest.raises(BadInputError, match="two logs of the source"):
        reader.apply([*old_log, *lines], ignore_marks=True)
    batch = reader.apply(lines, ignore_marks=True)
    assert batch.side.dropped == 0
    assert reader.plain() == restored.rows
    by_partition = Reader(reader.spark, reader.folder / "partition")
    table = SourceTable(position=5_000)
    table.insert(1, 0, "before")
    by_partition.apply(Topic().produce(table.take_lines()))
    restored = SourceTable(position=1_000, began=table.began + 60_000)
    restored.insert(2, 7, "restored")
    with pytest.raises(BadInputError, match="started again"):
        by_partition.apply(Topic(ends={0: 1}).produce(restored.take_lines()))


def test_rows_of_one_position_may_come_in_two_runs(reader: Reader) -> None:
    rows = [{"id": key, "n": key, "note": "long snapshot"} for key in (1, 2, 3)]
    snapshot = [json.dumps(envelope("r", row, [None, "50"])) for row in rows]
    reader.ordering = "stream"
    reader.apply(snapshot[:2])
    assert reader.apply(snapshot[1:]).side.dropped == 0
    assert sorted(reader.plain()) == [1, 2, 3]
    # Both halves of a key change stand at the mark and come again, when the old key has gone.
    table = SourceTable(kafka=False, rows=reader.plain())
    table.move(1, 9, 1)
    lines = table.take_lines()
    reader.apply(lines)
    assert reader.plain() == table.rows
    table.update(9, 2)
    assert reader.apply([*lines, *table.take_lines()]).side.dropped == 2
    assert reader.plain() == table.rows


def test_a_real_stream_with_replays_ends_as_the_server_did(spark: SparkSession) -> None:
    ddl = ddl_of("orders", REDELIVERED)
    rows: Rows = {}
    marks: EventMarks | None = None
    dropped = []
    for number in (1, 2, 3, 2, 3):
        files = list_input_files(spark, str(REDELIVERED / f"part-{number}.jsonl.gz"))
        source = replace(events_of("orders", ddl), ordering="stream")
        target = TargetState(None, as_table(spark, rows, ddl), marks=marks)
        batch = read_debezium_changes(spark, source, files, ["order_id"], target, exclude_columns=["item_count"])
        rows, marks = applied(rows, batch, ["order_id"]), StreamState.of(batch).marks
        dropped.append(batch.side.dropped)
        batch.release()
    expected = oracle("orders", REDELIVERED)
    # The source's defaults of columns that were added later reach no event.
    for key, row in rows.items():
        for name in ("currency", "channel", "gift_wrap"):
            row[name] = expected[key][name] if row.get(name) is None else row[name]
    assert rows == expected
    assert all(dropped[3:])


def test_keys_that_are_not_the_streams_are_refused(spark: SparkSession) -> None:
    files = list_input_files(spark, str(REDELIVERED / "audit_log.jsonl.gz"))
    with pytest.raises(BadInputError, match=r"audit_log have no key.*REPLICA IDENTITY FULL.*message\.key\.columns"):
        read_debezium_changes(spark, events_of("audit_log"), files, ["actor"], TargetState())
    files = list_input_files(spark, str(REDELIVERED / "part-3.jsonl.gz"))
    with pytest.raises(BadInputError, match=r"keyed by \['order_id'\].*give keys=\['order_id'\]"):
        read_debezium_changes(spark, events_of("orders"), files, ["customer_id"], TargetState())


def test_keys_that_tell_no_columns_are_taken_and_an_empty_one_is_refused(reader: Reader) -> None:
    def line(key: Any) -> str:
        return json.dumps({"topic": "t", "key": key, "value": envelope("c", {"id": 1, "n": 1, "note": ""}, ["1", "2"])})

    assert reader.apply([line("Struct{id=1}"), line(1), line('"1"')]).keys == 1
    with pytest.raises(BadInputError, match="have no key"):
        reader.apply([line({"schema": None, "payload": None})])


def test_records_that_a_sink_wrote_without_their_keys_are_read(reader: Reader) -> None:
    value = envelope("c", {"id": 1, "n": 1, "note": "x"}, ["1", "2"])
    later = envelope("c", {"id": 2, "n": 1, "note": "x"}, ["2", "3"])
    with pytest.raises(BadInputError, match="items have no key"):
        reader.apply([json.dumps({"key": None, "value": value})])
    place = {"topic": "shop.public.items", "partition": 0, "offset": 1}
    reader.apply([json.dumps({"value": value}), json.dumps({**place, "value": {"payload": later}})])
    assert sorted(reader.plain()) == [1, 2]


def test_lines_of_other_tables_alone_are_an_error_until_the_table_has_had_an_event(reader: Reader) -> None:
    other = [json.dumps(envelope("c", {"id": 1, "n": 1, "note": "x"}, ["1", "2"], table)) for table in ("item", "item")]
    with pytest.raises(BadInputError, match=r"none of the events belongs to items.*public\.item \(2\)"):
        reader.apply(other)
    mysql = [{**json.loads(line), "source": {"db": "shop", "table": "item"}} for line in other]
    with pytest.raises(BadInputError, match=r"there are events of item \(2\)"):
        reader.apply([json.dumps(line) for line in mysql])
    assert reader.apply([]).rows == 0
    reader.apply([json.dumps(envelope("c", {"id": 1, "n": 1, "note": "x"}, ["1", "2"]))])
    assert reader.apply(other).rows == 0
