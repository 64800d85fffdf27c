"""Files of change events of one database, in one folder, and the table that they are applied to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.reports.job import UpsertReport
from tests.spark.sources.debezium.event_writer import envelope
from tests.spark.upsert_flow import Flow


class EventStream:
    """Files of events of a database, read for one of its tables."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        ordering: str | None,
        table: str = "public.items",
        kind: type[Flow] = Flow,
    ) -> None:
        self.folder = folder
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self.source = Debezium(path=f"{self.inbox}/*.jsonl", table=table, schema="id INT, n INT", ordering=ordering)
        fixed: dict[str, Any] = {"source": self.source, "delete_when": None, "exclude_columns": ()}
        self.flow = kind(spark=spark, table="event_stream.items", inbox=self.inbox, changes=fixed)
        self.events = self.runs = 0

    def event(
        self, op: str, key: int, n: int, table: str = "items", *, lsn: int | None = None, ts_ms: int | None = None
    ) -> str:
        """Write the next event of the log; ``lsn`` and ``ts_ms`` are those of an event of another log."""
        self.events += 1
        at = lsn or 100 * self.events
        event = envelope(op, {"id": key, "n": n}, [None if op == "r" else str(at - 1), str(at)], table)
        event["source"]["ts_ms"] = 1_760_000_000_000 + at if ts_ms is None else ts_ms
        topic = {"topic": f"shop.public.{table}", "partition": 0, "offset": self.events}
        return json.dumps({**topic, "key": {"id": key}, "value": event})

    def bring(self, *lines: str) -> None:
        (self.inbox / f"{len(list(self.inbox.iterdir())):03}.jsonl").write_text("\n".join(lines) + "\n")

    def run(self, table: str = "public.items", **changes: Any) -> UpsertReport:
        self.runs += 1
        return self.flow.apply(f"run {self.runs}", source=replace(self.source, table=table), **changes)

    def restart(self) -> None:
        """Follow the source under another name, from another folder, as after a restart of its log."""
        self.inbox = self.folder / "inbox after"
        self.inbox.mkdir()
        self.source = replace(self.source, path=f"{self.inbox}/*.jsonl", name="after")

    def rows(self) -> set[tuple[int, int]]:
        return {(row["id"], row["n"]) for row in self.flow.records()}


def drop(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS event_stream.items PURGE")
    spark.sql("DROP TABLE IF EXISTS event_stream.items__deleted_keys PURGE")
