"""Histories in the table of a :class:`.Flow`, beside the rows of the model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.sources import Files
from tests.spark.history_model import Event, Version
from tests.spark.upsert_flow import Flow, NewFlow

SCHEMA = "id BIGINT, at TIMESTAMP, seq INT, op STRING, city STRING, note STRING"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ENGINE = History(track=["city"])


def moment(number: int | None) -> datetime | None:
    return None if number is None else BEGIN + timedelta(hours=number)


def put(flow: Flow, name: str, events: list[Event]) -> None:
    flow.arrive(
        name,
        *(
            {
                "id": event.key,
                "at": str(moment(event.at)),
                "seq": event.seq,
                "op": "d" if event.deletes else "u",
                "city": event.city,
                "note": event.note,
            }
            for event in events
        ),
    )


def history_of(new_flow: NewFlow, **changes: Any) -> Flow:
    flow = new_flow(merge_engine=ENGINE, order_by=("at", "seq"), **changes)
    flow.changes["source"] = Files(f"{flow.inbox}/*.jsonl", "json", SCHEMA)
    return flow


def table(flow: Flow) -> list[tuple[Any, ...]]:
    names = ("id", "valid_from", "valid_to", "is_current", "city", "note", "at", "seq")
    return sorted(tuple(row[name] for name in names) for row in flow.records())


def expected(model: list[Version]) -> list[tuple[Any, ...]]:
    return [
        (r.key, moment(r.since), moment(r.until), r.until is None, r.city, r.note, moment(r.at), r.seq) for r in model
    ]
