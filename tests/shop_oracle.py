"""The rows that the shop's own database held, as plain Python: the oracle of tests and demo. No Spark."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parent / "data" / "cdc_shop"


def keys_of(table: str, folder: Path = SHOP) -> list[str]:
    return list(columns_and_keys(folder)[table]["primary_key"])


def oracle(table: str, folder: Path = SHOP) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The server's rows by key, decoded from the text encoding with nothing but Python."""
    types = {c["name"]: c["type"] for c in columns_and_keys(folder)[table]["columns"]}
    (file,) = (folder / "oracle").glob(f"{table}.jsonl.?z")
    rows = [{name: _decode(value, types[name]) for name, value in line.items()} for line in read_lines(file)]
    return {tuple(row[key] for key in keys_of(table, folder)): row for row in rows}


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a compressed file of JSON lines."""
    opened = lzma.open if file.suffix == ".xz" else gzip.open
    with opened(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def order_events(folder: Path = SHOP) -> list[dict[str, Any]]:
    """The events of orders in the order of the log, as dags/load_order_events.py keeps them."""
    values = [line["value"] for part in sorted(folder.glob("part-*.jsonl.gz")) for line in read_lines(part)]
    events = [
        {
            "order_id": (value["after"] or value["before"])["order_id"],
            "status": (value["after"] or {}).get("status"),
            "op": value["op"],
            "lsn": value["source"]["lsn"],
            "changed_at": datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=value["source"]["ts_ms"]),
        }
        for value in values
        if value and value["source"]["table"] == "orders"
    ]
    return sorted(events, key=lambda event: event["lsn"])


def order_history(folder: Path = SHOP) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The versions of each order's status by key and begin. Of one moment the last event counts; a delete ends one."""
    last = {(event["order_id"], event["changed_at"]): event for event in order_events(folder)}
    versions: dict[tuple[Any, ...], dict[str, Any]] = {}
    current: dict[str, dict[str, Any]] = {}
    for (order, at), event in sorted(last.items(), key=lambda each: each[0][1]):
        now, stored = current.get(order), {name: value for name, value in event.items() if name != "op"}
        if now and event["op"] != "d" and now["status"] == event["status"]:
            now.update(stored)
            continue
        if now:
            now.update(valid_to=at, is_current=False)
            del current[order]
        if event["op"] != "d":
            current[order] = {**stored, "valid_from": at, "valid_to": None, "is_current": True}
            versions[order, at] = current[order]
    return versions


def revenue_by_day(folder: Path = SHOP) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The orders of each day that were not cancelled, and what they are worth."""
    days: dict[tuple[Any, ...], dict[str, Any]] = {}
    for order in oracle("orders", folder).values():
        if order["status"] not in (None, "cancelled"):
            placed = order["placed_at"]
            day = placed.astimezone(UTC).date() if placed else None
            row = days.setdefault((day,), {"day": day, "orders": 0, "revenue": Decimal(0)})
            row["orders"] += 1
            row["revenue"] += order["total"] or 0
    return days


def columns_and_keys(folder: Path = SHOP) -> dict[str, Any]:
    tables: dict[str, Any] = json.loads((folder / "oracle" / "_tables.json").read_text())["tables"]
    return tables


def _decode(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("numeric"):
        return Decimal(value)
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if kind == "timestamp with time zone":
        return datetime.fromisoformat(value)
    return float(value) if kind == "double precision" else value
