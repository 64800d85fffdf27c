"""The rows that the shop's own database held, as plain Python: the oracle of tests and demo. No Spark."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from datetime import date, datetime, timedelta
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
