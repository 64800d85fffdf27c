"""A model of one source table with replica identity DEFAULT, and of the events its connector writes.

The table ``items`` has the key ``id``, a number ``n`` and a text ``note``. A note that begins with "long" is stored out
of line: an update that leaves it alone sends the placeholder instead, as PostgreSQL does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACEHOLDER = "__debezium_unavailable_value"
UNCHANGED = object()


@dataclass
class SourceTable:
    """Rows by key, and the lines written so far.

    :param kafka: write ``{"topic", "key", "value", "headers"}`` with tombstones, else bare envelopes.
    :param headers: name the other key on key changes.
    :param lists_headers: write headers as ``[{"key", "value"}]``, as Aiven's sinks do, on each record.
    :param position: in the log, of the newest event.
    :param began: epoch milliseconds of position 0.
    """

    kafka: bool = True
    headers: bool = True
    lists_headers: bool = False
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    position: int = 100
    began: int = 1_760_000_000_000

    def insert(self, key: int, n: int, note: str | None) -> None:
        self.rows[key] = {"id": key, "n": n, "note": note}
        self._write("c", self.rows[key])

    def update(self, key: int, n: int, note: Any = UNCHANGED) -> None:
        sent = self._changed(key, key, n, note)
        self._write("u", sent)

    def delete(self, key: int) -> None:
        del self.rows[key]
        self._write("d", {"id": key})

    def move(self, key: int, new_key: int, n: int) -> None:
        """Change the key: a delete and a create with one sequence."""
        sent = self._changed(key, new_key, n, UNCHANGED)
        self._write("d", {"id": key}, {"__debezium.newkey": {"id": new_key}})
        self.position -= 10
        self._write("c", sent, {"__debezium.oldkey": {"id": key}})

    def take_lines(self) -> list[str]:
        taken, self.lines = self.lines, []
        return taken

    def _changed(self, key: int, new_key: int, n: int, note: Any) -> dict[str, Any]:
        row = self.rows.pop(key)
        kept = note is UNCHANGED
        self.rows[new_key] = {"id": new_key, "n": n, "note": row["note"] if kept else note}
        hidden = kept and str(row["note"]).startswith("long")
        return {**self.rows[new_key], "note": PLACEHOLDER} if hidden else self.rows[new_key]

    def _write(self, op: str, image: dict[str, Any], headers: dict[str, Any] | None = None) -> None:
        self.position += 10
        sequence = [str(self.position - 1), str(self.position)]
        event = envelope(op, image, sequence)
        event["source"]["ts_ms"] = self.began + self.position
        if not self.kafka:
            self.lines.append(json.dumps(event))
            return
        key = {"id": image["id"]}
        record = {"topic": "shop.public.items", "key": key, "value": event}
        more: dict[str, Any] = {"headers": headers} if headers and self.headers else {}
        if self.lists_headers:
            more = {"headers": [{"key": name, "value": value} for name, value in (headers or {}).items()]}
        self.lines.append(json.dumps({**record, **more}))
        if op == "d":
            self.lines.append(json.dumps({**record, "value": None, **more}))


def envelope(op: str, image: dict[str, Any] | None, sequence: Sequence[str | None] | None, table: str = "items") -> Any:
    """A bare envelope; a delete's other columns are null, as with replica identity DEFAULT."""
    before = {"n": 0, "note": None, **(image or {})} if op == "d" else None
    source: dict[str, Any] = {"schema": "public", "table": table}
    if sequence is not None:
        source["sequence"] = json.dumps(list(sequence))
    return {"before": before, "after": None if op == "d" else image, "source": source, "op": op}


def write_files(folder: Path, *files: list[str]) -> str:
    """Write files of lines, in path order, and return the folder."""
    folder.mkdir(parents=True)
    for number, lines in enumerate(files):
        (folder / f"{number:03}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


@dataclass
class Topic:
    """Gives records their partition, by key, and their offset in it.

    :param name: of the topic.
    """

    partitions: int = 1
    name: str = "shop.public.items"
    ends: dict[int, int] = field(default_factory=dict)

    def produce(self, lines: Sequence[str]) -> list[str]:
        return [json.dumps(self._placed(json.loads(line))) for line in lines]

    def _placed(self, record: dict[str, Any]) -> dict[str, Any]:
        partition = record["key"]["id"] % self.partitions
        offset = self.ends.get(partition, 0)
        self.ends[partition] = offset + 1
        return {**record, "topic": self.name, "partition": partition, "offset": offset}


def of_partition(partition: int, lines: Sequence[str]) -> list[str]:
    return [line for line in lines if json.loads(line)["partition"] == partition]
