"""The table of a stream is renamed in the source: its events go on under another name, in files of both names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.job_report import UpsertReport
from airflow_lake_provider.contracts.sources import Debezium
from airflow_lake_provider.contracts.upsert_spec import OnRepeat
from tests.spark.sources.debezium.event_writer import envelope
from tests.spark.upsert_flow import Flow


class Stream:
    """Files of events of a database, read for one of its tables."""

    def __init__(self, spark: SparkSession, folder: Path, ordering: str | None, table: str = "public.items") -> None:
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self.source = Debezium(path=f"{self.inbox}/*.jsonl", table=table, schema="id INT, n INT", ordering=ordering)
        fixed = {"source": self.source, "delete_when": None, "exclude_columns": ()}
        self.flow = Flow(spark=spark, table="renamed.items", inbox=self.inbox, changes=fixed)
        self.events = self.runs = 0

    def event(self, op: str, key: int, n: int, table: str = "items", lsn: int | None = None) -> str:
        self.events += 1
        at = lsn or 100 * self.events
        event = envelope(op, {"id": key, "n": n}, [str(at - 1), str(at)], table)
        event["source"]["ts_ms"] = 1_760_000_000_000 + at
        topic = {"topic": f"shop.public.{table}", "partition": 0, "offset": self.events}
        return json.dumps({**topic, "key": {"id": key}, "value": event})

    def bring(self, *lines: str) -> None:
        (self.inbox / f"{len(list(self.inbox.iterdir())):03}.jsonl").write_text("\n".join(lines) + "\n")

    def run(self, table: str = "public.items", **changes: Any) -> UpsertReport:
        self.runs += 1
        return self.flow.apply(f"run {self.runs}", source=replace(self.source, table=table), **changes)

    def rows(self) -> set[tuple[int, int]]:
        return {(row["id"], row["n"]) for row in self.flow.loaded().scan().to_arrow().to_pylist()}


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    spark.sql("DROP TABLE IF EXISTS renamed.items PURGE")
    spark.sql("DROP TABLE IF EXISTS renamed.items__deleted_keys PURGE")


@pytest.mark.parametrize("ordering", [None, "stream", "key"])
def test_events_under_the_new_name_are_applied_though_their_file_was_read_under_the_old_one(
    spark: SparkSession, folder: Path, ordering: str | None
) -> None:
    stream = Stream(spark, folder, ordering)
    stream.bring(stream.event("c", 1, 1))
    stream.run()
    stream.bring(stream.event("u", 1, 2), stream.event("u", 1, 3, "items_v2"))
    stream.run()
    stream.bring(stream.event("c", 2, 2, "items_v2"))
    assert "all files were read" in stream.run("public.items_v2").reason
    assert stream.rows() == {(1, 3), (2, 2)}
    stream.bring(stream.event("u", 2, 3, "items_v2"))
    assert stream.run("public.items_v2").batch_files == 1
    assert stream.rows() == {(1, 3), (2, 3)}


def test_what_no_renaming_explains_is_refused_and_lost_nowhere(spark: SparkSession, folder: Path) -> None:
    stream = Stream(spark, folder, "stream")
    stream.bring(stream.event("c", 7, 7, "others"), stream.event("c", 1, 1))
    stream.run("items")
    # The same table, with its schema.
    stream.bring(stream.event("u", 1, 2), stream.event("u", 1, 3, "items_v2"))
    with pytest.raises(BadInputError, match=r"1 files .* hold 1 events of public\.items, .*table='public\.items'"):
        stream.run("public.items_v2")
    assert stream.run("public.items").batch_files == 1
    with pytest.raises(BadInputError, match=r"1 events of others are older than what was applied.*a new name"):
        stream.run("others")
    assert stream.rows() == {(1, 2)}
    stream.run("public.items_v2")
    assert stream.rows() == {(1, 3)}
    stream.run("others", on_repeat=OnRepeat.APPLY)
    assert stream.rows() == {(1, 3), (7, 7)}
