"""Snapshots beside open transactions, late ones and those of a source that started anew, with ordering="key"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.load import OnRepeat
from tests.spark.sources.debezium.event_writer import PLACEHOLDER, SourceTable, envelope
from tests.spark.sources.debezium.test_events_by_key import Deliveries, rows_of

SIDE = "order_by_key.items__deleted_keys"
TAKEN = 1_760_000_000_000


@pytest.fixture
def inbox(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    spark.sql("DROP TABLE IF EXISTS order_by_key.items PURGE")
    spark.sql(f"DROP TABLE IF EXISTS {SIDE} PURGE")


def line(op: str, key: int, n: int, note: str | None, lsn: int, last_commit: int | None, after_ms: int) -> str:
    """An event so many milliseconds after the snapshot was taken."""
    image = {"id": key} if op == "d" else {"id": key, "n": n, "note": note}
    event: Any = envelope(op, image, [None if last_commit is None else str(last_commit), str(lsn)])
    event["source"]["ts_ms"] = TAKEN + after_ms
    return json.dumps({"topic": "shop.public.items", "key": {"id": key}, "value": event})


def snapshot(rows: dict[int, tuple[int, str]], lsn: int, after_ms: int = 0) -> list[str]:
    return [line("r", key, n, note, lsn, None, after_ms) for key, (n, note) in rows.items()]


# Two transactions were open at 100: the first to end has no commit before it, the second ends after 110.
READ = snapshot({1: (1, "long one"), 2: (1, "long two"), 3: (1, "long three"), 4: (1, "long four")}, 100)
WAS_OPEN = [
    line("u", 1, 2, PLACEHOLDER, 80, None, 30_000),
    line("u", 2, 2, "long new", 90, 110, 31_000),
    line("d", 3, 0, None, 92, 110, 31_000),
]
LATER = [line("u", 2, 3, PLACEHOLDER, 130, 120, 40_000)]
EXPECTED = {1: (2, "long one"), 2: (3, "long new"), 4: (1, "long four")}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([READ + WAS_OPEN + LATER], id="together"),
        pytest.param([READ, WAS_OPEN, LATER], id="in order"),
        pytest.param([LATER, WAS_OPEN, READ], id="backwards"),
    ],
)
def test_what_was_open_during_the_snapshot_is_newer_than_its_rows(
    spark: SparkSession, inbox: Path, files: list[list[str]]
) -> None:
    table = Deliveries(spark, inbox)
    for lines in files:
        table.deliver_if_possible(lines)
    assert table.rows() == EXPECTED
    # As a connector tells them that lost its offsets, or that began in the middle of a transaction.
    again = [line("u", 2, 2, "long new", 90, None, 31_000), line("d", 3, 0, None, 92, 90, 31_000)]
    report = table.deliver([*READ, *again, *LATER])
    assert (report.events_dropped, table.rows()) == (7, EXPECTED)


@pytest.mark.parametrize("ordering", [EventOrdering.STREAM, None])
def test_where_positions_decide_a_change_below_its_snapshot_is_refused(
    spark: SparkSession, inbox: Path, ordering: EventOrdering | None
) -> None:
    table = Deliveries(spark, inbox)
    source = replace(table.flow.changes["source"], ordering=ordering)
    told = r"1 changes of public\.items .*transaction was open.*ordering='key'.*Nothing was applied"
    table.bring([*READ, *WAS_OPEN, *LATER])
    for on_repeat in (OnRepeat.SKIP, OnRepeat.APPLY):
        with pytest.raises(BadInputError, match=told):
            table.run(source=source, on_repeat=on_repeat)
    assert not spark.catalog.tableExists("order_by_key.items")


def test_a_snapshot_that_comes_late_gives_only_what_no_event_has_changed(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(began=TAKEN), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    source.insert(2, 2, "short")
    source.delete(2)
    table.deliver(source.take_lines())
    # The clock is read after the place in the log.
    report = table.deliver(snapshot({1: (7, "old"), 2: (7, "old"), 3: (7, "old")}, 100, after_ms=2_000))
    assert report.events_dropped == 2
    assert table.rows() == {1: (1, "short"), 3: (7, "old")}


def test_an_incremental_snapshot_tells_no_time_of_the_server(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(began=TAKEN), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    table.deliver(source.take_lines())
    # The connector was an hour behind when it read these.
    events = [json.loads(text) for text in snapshot({1: (7, "old"), 2: (7, "old")}, 100, after_ms=3_600_000)]
    for event in events:
        event["value"]["source"]["snapshot"] = "incremental"
    table.deliver([json.dumps(event) for event in events])
    assert table.rows() == {1: (1, "short"), 2: (7, "old")}


def test_the_new_snapshot_of_a_restored_source_wins_where_it_was_asked_for(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(began=TAKEN, position=1_000), Deliveries(spark, inbox)
    source.insert(1, 1, "long one")
    source.insert(2, 2, "short")
    source.delete(2)
    table.deliver(source.take_lines())
    restored = snapshot({1: (7, "restored"), 2: (7, "restored")}, 100, after_ms=60_000)
    table.bring(restored)
    with pytest.raises(BadInputError, match=r"positions below \[1029, 1030\].*committed later.*have started again"):
        table.run()
    table.run(on_repeat=OnRepeat.APPLY, source=table.source_of("002"))
    assert table.rows() == {1: (7, "restored"), 2: (7, "restored")}
    table.deliver([line("u", 1, 8, "newer", 130, 120, 70_000)])
    assert table.rows() == {1: (8, "newer"), 2: (7, "restored")}
    held = table.flow.loaded().scan().to_arrow().to_pylist()
    assert {row["id"]: row[POSITION_COLUMN]["epoch"] for row in held} == {1: 2, 2: 2}


def test_events_of_a_restored_source_win_where_it_was_asked_for(spark: SparkSession, inbox: Path) -> None:
    old, table = SourceTable(began=TAKEN, position=1_000), Deliveries(spark, inbox)
    old.insert(1, 1, "long one")
    old.insert(2, 2, "short")
    table.deliver(old.take_lines())
    restored = SourceTable(began=TAKEN + 60_000, rows=dict(old.rows))
    restored.update(1, 3, "changed")
    restored.delete(2)
    table.bring(restored.take_lines())
    with pytest.raises(BadInputError, match="have started again"):
        table.run()
    assert table.rows() == rows_of(old)
    table.run(on_repeat=OnRepeat.APPLY, source=table.source_of("002"))
    assert table.rows() == rows_of(restored) == {1: (3, "changed")}
    restored.update(1, 4)
    table.deliver(restored.take_lines())
    assert table.rows() == rows_of(restored) == {1: (4, "changed")}
