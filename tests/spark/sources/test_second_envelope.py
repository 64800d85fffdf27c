"""Other envelopes have order, key changes, deletes, redelivery and unavailable values, by the places of their logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState, read_change_events
from airflow_lake_provider.spark_jobs.sources.cdc.events import event_columns
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.source import DebeziumEnvelope
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.shop_events import events_of
from tests.spark.sources.plain_operations import PlainOperations, PlainOperationsEnvelope
from tests.spark.sources.transaction_operations import (
    TransactionOperations,
    TransactionOperationsEnvelope,
    in_transactions,
)
from tests.spark.upsert_flow import Flow

DDL = "id INT, n INT, note STRING"
Rows = dict[int, tuple[Any, ...]]


@dataclass
class Server:
    """A table of a database, the lines that its log becomes, and its rows after each line."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    after: list[Rows] = field(default_factory=list)

    def insert(self, number: int, n: int, note: str) -> None:
        self.rows[number] = {"id": number, "n": n, "note": note}
        self._log("insert", self.rows[number])

    def update(self, number: int, **changed: Any) -> None:
        """Write what has changed, and the key; everything else is left out."""
        row = self.rows.pop(number)
        new = {**row, **changed}
        self.rows[new["id"]] = new
        self._log("update", {"id": new["id"], **changed}, {name: row[name] for name in changed})

    def delete(self, number: int) -> None:
        del self.rows[number]
        self._log("delete", {"id": number})

    def run(self, draw: Random, steps: int) -> None:
        for step in range(steps):
            kind = draw.choice(["insert", "insert", "update", "update", "move", "delete"])
            free, held = sorted({*range(6)} - self.rows.keys()), sorted(self.rows)
            if kind == "insert" and free:
                self.insert(draw.choice(free), step, f"note {step}")
            elif kind == "update" and held:
                changed: dict[str, Any] = {"n": step} if draw.random() < 0.5 else {"note": f"note {step}"}
                self.update(draw.choice(held), **changed)
            elif kind == "move" and held and free:
                self.update(draw.choice(held), id=draw.choice(free), n=step)
            elif kind == "delete" and held:
                self.delete(draw.choice(held))

    def _log(self, kind: str, data: dict[str, Any], old: dict[str, Any] | None = None) -> None:
        number = len(self.lines)
        # The log goes on in another file, where offsets begin anew.
        place = {"position": f"binlog.{number // 20:06}:{100 * (number % 20)}", "ts": 1_760_000_000 + number}
        line = {"table": "items", "type": kind, **place, "data": dict(data), "primary_key_columns": ["id"]}
        self.lines.append(line if old is None else {**line, "old": old})
        self.after.append({number: (row["n"], row["note"]) for number, row in self.rows.items()})


class Deliveries:
    """Files of operations into one table."""

    def __init__(self, spark: SparkSession, folder: Path, kind: type[PlainOperations], ordering: EventOrdering) -> None:
        inbox = folder / "inbox"
        source = kind(f"{inbox}/*.jsonl", "items", schema=DDL, ordering=ordering)
        fixed: dict[str, Any] = {"source": source, "delete_when": None, "exclude_columns": ()}
        self.flow = Flow(spark=spark, table="second_envelope.items", inbox=inbox, changes=fixed)
        self.files = 0

    def deliver(self, lines: list[dict[str, Any]]) -> int | None:
        self.files += 1
        self.flow.arrive(f"{self.files:03}.jsonl", *lines)
        return self.flow.apply(f"run {self.files}").events_dropped

    def rows(self) -> Rows:
        return {row["id"]: (row["n"], row["note"]) for row in self.flow.records()}


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in ("items", "items__deleted_keys"):
        spark.sql(f"DROP TABLE IF EXISTS second_envelope.{name} PURGE")


LOGS = pytest.mark.parametrize("kind", [PlainOperations, TransactionOperations], ids=["binlog", "three numbers"])


def history(kind: type[PlainOperations], seed: int) -> tuple[list[dict[str, Any]], list[Rows]]:
    """Return 50 lines of a server, and its rows after each."""
    draw, server = Random(seed), Server()
    server.run(draw, 60)
    lines = in_transactions(server.lines, draw) if kind is TransactionOperations else server.lines
    return lines[:50], server.after[:50]


@LOGS
def test_each_batch_ends_as_the_server_was_though_lines_come_again(
    spark: SparkSession, folder: Path, kind: type[PlainOperations]
) -> None:
    lines, after = history(kind, 7)
    table = Deliveries(spark, folder, kind, EventOrdering.STREAM)
    table.deliver(lines[:20])
    assert table.rows() == after[19]
    assert table.deliver(lines[12:])
    assert table.rows() == after[-1]


@LOGS
def test_lines_in_any_order_end_as_the_server_was(
    spark: SparkSession, folder: Path, kind: type[PlainOperations]
) -> None:
    lines, after = history(kind, 11)
    table = Deliveries(spark, folder, kind, EventOrdering.KEY)
    for piece in (lines[20:30], lines[:20], lines[25:]):
        # A batch that waits for a value consumes nothing, so the next run has its files as well.
        with suppress(BadInputError):
            table.deliver(piece)
    assert table.rows() == after[-1]


def test_a_source_that_goes_over_to_another_log_is_refused(spark: SparkSession, folder: Path) -> None:
    table = Deliveries(spark, folder, PlainOperations, EventOrdering.STREAM)
    table.deliver(history(PlainOperations, 7)[0][:20])
    other = Deliveries(spark, folder, TransactionOperations, EventOrdering.STREAM)
    other.files = 1
    with pytest.raises(BadInputError, match=r"places of the log binlog, and .* of the log transaction-log.*new name"):
        other.deliver(history(TransactionOperations, 7)[0])


def read_lines(spark: SparkSession, folder: Path, *lines: str) -> None:
    (folder / "1.jsonl").write_text("\n".join(lines) + "\n")
    files = list_input_files(spark, f"{folder}/1.jsonl")
    stream = PlainOperationsEnvelope(spark, PlainOperations("1.jsonl", "items", schema=DDL), files)
    read_change_events(stream, ["id"], TargetState())


def test_what_cannot_be_applied_is_refused_in_the_envelopes_words(spark: SparkSession, tmp_path: Path) -> None:
    server = Server()
    server.insert(1, 1, "a note")
    sound = server.lines[0]
    with pytest.raises(BadInputError, match=r"1 lines are no operations, which are JSON with .* is its record 2"):
        read_lines(spark, tmp_path, json.dumps(sound), '{"op": "c"}')
    with pytest.raises(UnsupportedError, match="hold a truncation, which an upsert cannot apply"):
        read_lines(spark, tmp_path, json.dumps({**sound, "type": "truncate"}))
    with pytest.raises(BadInputError, match=r"have the operations \['replace'\]"):
        read_lines(spark, tmp_path, json.dumps({**sound, "type": "replace"}))
    with pytest.raises(BadInputError, match="1 of 1 events of items have no place in the log"):
        read_lines(spark, tmp_path, json.dumps({**sound, "position": "here"}))


def test_every_envelope_fills_the_declared_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text("\n")
    files: tuple[InputFile, ...] = list_input_files(spark, f"{tmp_path}/1.jsonl")
    envelopes = [
        DebeziumEnvelope(spark, events_of("items", DDL), files),
        PlainOperationsEnvelope(spark, PlainOperations("1.jsonl", "items", schema=DDL), files),
        TransactionOperationsEnvelope(spark, TransactionOperations("1.jsonl", "items", schema=DDL), files),
    ]
    for envelope in envelopes:
        columns = event_columns(envelope.log).items()
        declared = spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in columns))
        assert dict(envelope.events(["id"], ()).dtypes) == dict(declared.dtypes)
