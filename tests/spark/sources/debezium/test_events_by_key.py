"""Events with ordering="key": late, shuffled, delivered again, in any pieces; the table ends as the source did."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes
from airflow_lake_provider.contracts.author.schema_contract import schema_contract
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.sources.debezium.event_writer import UNCHANGED, SourceTable
from tests.spark.upsert_flow import Flow, InterruptedProgress

DDL = "id BIGINT, n INT, note STRING"


class Deliveries:
    """Files of events into one table."""

    def __init__(self, spark: SparkSession, folder: Path, **changes: Any) -> None:
        self.inbox = folder / "inbox"
        source = Debezium(path=f"{self.inbox}/*.jsonl", table="public.items", schema=DDL, ordering=EventOrdering.KEY)
        fixed = {"source": source, "delete_when": None, "exclude_columns": (), **changes}
        self.flow = Flow(spark=spark, table="order_by_key.items", inbox=self.inbox, changes=fixed)
        self.files = 0
        self.runs = 0

    def bring(self, lines: list[str]) -> None:
        self.inbox.mkdir(parents=True, exist_ok=True)
        self.files += 1
        (self.inbox / f"{self.files:03}.jsonl").write_text("\n".join(lines) + "\n")

    def run(self, **changes: Any) -> UpsertReport:
        self.runs += 1
        return self.flow.apply(f"run {self.runs}", **changes)

    def deliver(self, lines: list[str], **changes: Any) -> UpsertReport:
        self.bring(lines)
        return self.run(**changes)

    def deliver_if_possible(self, lines: list[str]) -> None:
        """A batch that waits for an event consumes nothing, so the next run has its files as well."""
        self.bring(lines)
        with suppress(BadInputError):
            self.run()

    def source_of(self, file: str) -> Debezium:
        """The source with one of its files only."""
        return replace(self.flow.changes["source"], path=f"{self.inbox}/{file}.jsonl")

    def rows(self) -> dict[int, tuple[Any, ...]]:
        found = self.flow.loaded().scan(selected_fields=("id", "n", "note")).to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: (row["n"], row["note"]) for row in found}


def rows_of(source: SourceTable) -> dict[int, tuple[Any, ...]]:
    return {key: (row["n"], row["note"]) for key, row in source.rows.items()}


@pytest.fixture
def inbox(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    _drop(spark)


def _drop(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS order_by_key.items PURGE")
    spark.sql("DROP TABLE IF EXISTS order_by_key.items__deleted_keys PURGE")


def test_a_table_that_is_misspelled_later_is_an_error_and_loses_no_event(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "first")
    table.deliver(source.take_lines())
    source.insert(2, 2, "second")
    misspelled = replace(table.flow.changes["source"], table="public.item")
    with pytest.raises(BadInputError, match=r"none of the events belongs to public\.item.*public\.items \(2\)"):
        table.deliver(source.take_lines(), source=misspelled)
    table.run()
    assert table.rows() == rows_of(source)


def test_an_older_event_of_a_key_loses_and_a_late_value_finds_its_row(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "long first")
    source.insert(2, 2, "long second")
    first = source.take_lines()
    source.update(1, 3, "long third")
    late = source.take_lines()
    source.update(1, 4)
    source.delete(2)
    source.insert(3, 5, "short")
    newest = source.take_lines()
    table.deliver(first)
    table.deliver(newest)
    assert table.rows() == {1: (4, "long first"), 3: (5, "short")}
    # Older than its row, but it has the value that the newer event has left out.
    table.deliver(late)
    assert table.rows() == rows_of(source) == {1: (4, "long third"), 3: (5, "short")}
    # All of it again, the deleted key's events included.
    report = table.deliver([*newest, *first, *late])
    assert (report.events_dropped, table.rows()) == (6, rows_of(source))
    held = table.flow.loaded().scan().to_arrow().to_pylist()
    assert {row["id"]: row[POSITION_COLUMN]["lsn"] for row in held} == {1: 140, 3: 160}
    older = next(row[POSITION_COLUMN]["older"] for row in held if row["id"] == 1)
    assert [(name, place["lsn"], place["snapshot"]) for name, place in older] == [("note", 130, False)]
    # A row that another writer has changed has no position, so that an event wins over it.
    spark.sql("UPDATE order_by_key.items SET n = 9, _source_position = NULL WHERE id = 3")
    table.deliver(newest[-1:], on_repeat=OnRepeat.APPLY)
    assert table.rows()[3] == (5, "short")


def test_a_late_event_of_an_old_key_reaches_the_row_under_its_new_one(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox, strategy=UpsertStrategy.MERGE)
    source.insert(1, 1, "long first")
    # A value is left out before the table is there.
    source.update(1, 1)
    first = source.take_lines()
    source.update(1, 2, "long late")
    late = source.take_lines()
    source.move(1, 2, 3)
    source.insert(1, 4, "long other")
    source.move(2, 5, 5)
    newest = source.take_lines()
    table.deliver(first)
    table.deliver(newest)
    assert table.rows() == {1: (4, "long other"), 5: (5, "long first")}
    table.deliver(late)
    assert table.rows() == rows_of(source) == {1: (4, "long other"), 5: (5, "long late")}


def executions(spark: SparkSession) -> list[Any]:
    """Return the queries that Spark still knows of: the oldest of a thousand are forgotten, so no count is a place."""
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty()
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [listed.apply(place) for place in range(listed.size())]


def test_rows_that_a_late_value_completes_are_read_from_the_table_once(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "long first")
    source.insert(2, 1, "long second")
    first = source.take_lines()
    source.update(1, 2, "long late")
    late = source.take_lines()
    source.update(1, 3)
    table.deliver(first)
    table.deliver(source.take_lines())
    known = {each.executionId() for each in executions(spark)}
    table.deliver(late)
    assert table.rows() == rows_of(source) == {1: (3, "long late"), 2: (1, "long second")}
    plans = [each.physicalPlanDescription() for each in executions(spark) if each.executionId() not in known]
    scans = [
        scan for plan in plans for scan in re.findall(r"BatchScan \S*order_by_key\.items\[(.*?)\] IcebergScan", plan)
    ]
    read = [re.sub(r"#\d+L?", "", scan).split(", ") for scan in scans]
    # The row to complete, and what else is asked for: where it stands, what is known of its key, its older values.
    assert ["id"] not in read
    assert [names for names in read if "n" in names] == [["id", "n"]], read


def test_flagged_rows_keep_their_position_and_need_no_side_table(spark: SparkSession, inbox: Path) -> None:
    soft = Deduplicate(deletes=Deletes.SOFT)
    source, table = SourceTable(), Deliveries(spark, inbox, merge_engine=soft)
    source.insert(1, 1, "short")
    first = source.take_lines()
    source.update(1, 2, "shorter")
    late = source.take_lines()
    source.delete(1)
    table.deliver(first)
    table.deliver(source.take_lines())
    table.deliver([*first, *late])
    found = table.flow.loaded().scan().to_arrow().to_pylist()
    assert [(row["id"], row["is_deleted"], row[POSITION_COLUMN]["lsn"]) for row in found] == [(1, True, 130)]
    assert not spark.catalog.tableExists("order_by_key.items__deleted_keys")


@pytest.mark.parametrize("first_is_older", [True, False])
def test_of_two_writers_at_once_no_older_event_wins(spark: SparkSession, inbox: Path, first_is_older: bool) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    source.insert(2, 1, "short")
    table.deliver(source.take_lines())
    source.update(1, 2, "older")
    source.update(2, 2, "older")
    table.bring(source.take_lines())
    source.update(1, 3)
    source.delete(2)
    table.bring(source.take_lines())
    ours, theirs = ("002", "003") if first_is_older else ("003", "002")
    other = InterruptedProgress(at="commit", then=lambda: table.run(source=table.source_of(theirs)))
    report = table.flow.apply("run of the other", progress=other, source=table.source_of(ours))
    # The other's commit wins, so ours is decided again. Ours had noted its delete, and the other has carried it out.
    told = (report.outcome, report.attempts, report.events_dropped)
    assert told == ((Outcome.NOTHING_NEW, 2, 2) if first_is_older else (Outcome.APPLIED, 2, 1))
    assert table.rows() == rows_of(source) == {1: (3, "older")}


def test_a_table_that_may_not_change_gets_no_position(spark: SparkSession, inbox: Path) -> None:
    source, table, frozen = SourceTable(), Deliveries(spark, inbox), schema_contract("freeze")
    source.insert(1, 1, "short")
    table.flow.catalog()
    spark.sql("CREATE TABLE order_by_key.items (id BIGINT, n INT, note STRING) USING iceberg")
    spark.sql("INSERT INTO order_by_key.items VALUES (1, 0, 'by another'), (2, 0, 'by another')")
    table.bring(source.take_lines())
    with pytest.raises(BadInputError, match=r"_source_position.*schema_contract"):
        table.run(schema_contract=frozen)
    assert table.rows() == {1: (0, "by another"), 2: (0, "by another")}
    assert table.run().schema_changes
    assert table.rows() == {1: (1, "short"), 2: (0, "by another")}
    # Nothing changes the table any more.
    source.update(1, 2)
    table.deliver(source.take_lines(), schema_contract=frozen)
    assert table.rows() == {1: (2, "short"), 2: (0, "by another")}


def test_positions_of_another_form_are_refused(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    table.flow.catalog()
    former = "STRUCT<epoch: INT, lsn: BIGINT, ts_ms: BIGINT, since: BIGINT, older: MAP<STRING, BIGINT>>"
    spark.sql(
        f"CREATE TABLE order_by_key.items (id BIGINT, n INT, note STRING, _source_position {former}) USING iceberg"
    )
    with pytest.raises(BadInputError, match=r"_source_position.*lsn.*last_commit.*drop the column"):
        table.deliver(source.take_lines())


# By the first of a history's three keys: what its rows, under the first two of them, go through.
_MOVES: dict[int, list[tuple[int, int]]] = {
    10: [(0, 2), (1, 0), (2, 1)],  # a swap
    20: [(0, 2), (2, 0)],  # there and back
    30: [(0, 2), (2, 0), (0, 2), (2, 0)],  # twice
    40: [(1, 2), (0, 1), (2, 0), (0, 2), (1, 0), (2, 1)],  # a swap, and back
    50: [(0, 2), (1, 0), (2, 1), (0, 2), (1, 0), (2, 1)],  # two swaps
    60: [(0, 2), (1, 0)],  # each one further
    70: [(0, 2), (1, 0), (0, 1), (2, 0)],  # a detour
    80: [(0, 2)],  # one change; its old key is used for another row below
}


@pytest.mark.parametrize(
    ("headers", "lists"), [(True, False), (True, True), (False, False)], ids=["mapping", "list", "none"]
)
def test_key_changes_that_come_again_change_nothing(
    spark: SparkSession, inbox: Path, headers: bool, lists: bool
) -> None:
    source = SourceTable(kafka=headers, headers=headers, lists_headers=lists)
    table = Deliveries(spark, inbox)
    for first in _MOVES:
        source.insert(first, first, f"long {first}")
        source.insert(first + 1, first + 1, f"long {first + 1}")
    inserts = source.take_lines()
    for first, moves in _MOVES.items():
        for old, new in moves:
            source.move(first + old, first + new, first)
    source.insert(80, 8, "another row")
    moves_again = source.take_lines()
    table.deliver(inserts)
    table.deliver(moves_again)
    assert table.rows() == rows_of(source)
    for again in (moves_again, moves_again[::3], [*moves_again[::-1], *inserts]):
        assert table.deliver(again).rows_updated in (0, None)
        assert table.rows() == rows_of(source)
    source.update(80, 9)
    source.move(81, 83, 9)
    source.delete(10)
    table.deliver([*moves_again, *source.take_lines()])
    assert table.rows() == rows_of(source)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[SourceTable, list[list[str]]]:
    """A source, and its events in random order and pieces, some of them twice."""
    table = SourceTable()
    notes = st.sampled_from([None, "short", "long one", "long two"])
    for _ in range(draw(st.integers(4, 14))):
        present, free = sorted(table.rows), sorted({1, 2, 3, 4} - table.rows.keys())
        can = [name for name, may in (("insert", free), ("move", present and free), ("change", present)) if may]
        step = draw(st.sampled_from(can))
        number = draw(st.integers(0, 99))
        if step == "insert":
            table.insert(draw(st.sampled_from(free)), number, draw(notes))
        elif step == "move":
            table.move(draw(st.sampled_from(present)), draw(st.sampled_from(free)), number)
        elif draw(st.integers(0, 3)) == 0:
            table.delete(draw(st.sampled_from(present)))
        else:
            table.update(draw(st.sampled_from(present)), number, draw(st.sampled_from([UNCHANGED, "long new", "x"])))
    lines = [line for line in table.take_lines() if '"value": null' not in line]
    shuffled = draw(st.permutations(lines))
    again = draw(st.lists(st.sampled_from(lines), max_size=4))
    cuts = sorted(draw(st.lists(st.integers(0, len(lines)), min_size=1, max_size=3)))
    pieces = [shuffled[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    return table, [piece for piece in [*pieces, again] if piece]


# A failed history is some ten runs of a job, so it is shown as it is.
@settings(
    max_examples=int(os.environ.get("LAKE_EXAMPLES", "2")),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    made=deliveries(),
    version=st.sampled_from(["2", "3"]),
    strategy=st.sampled_from([UpsertStrategy.AUTO, UpsertStrategy.MERGE]),
)
def test_events_in_any_order_leave_the_table_as_the_source_is(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, made: Any, version: str, strategy: UpsertStrategy
) -> None:
    source, pieces = made
    folder = tmp_path_factory.mktemp("order")
    layout = TableLayout(properties={"format-version": version})
    table = Deliveries(spark, folder, strategy=strategy, create=layout)
    try:
        for piece in pieces:
            table.deliver_if_possible(piece)
        # Where a key was used again before its change came, the old row is only in files that were applied.
        table.run(on_repeat=OnRepeat.APPLY)
        found = table.rows() if spark.catalog.tableExists("order_by_key.items") else {}
        assert found == rows_of(source), pieces
    finally:
        _drop(spark)
        shutil.rmtree(folder)
