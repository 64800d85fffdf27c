"""Records that are no change events of Debezium's PostgreSQL connector, and what to do about each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isinf
from typing import Any

# Before the id of a schema, in values that a registry's converter writes.
_FRAME = "\0"
_READ = "postgresql"
_SHOWN = 3


def remedy(text: str) -> str:
    """Return what the first record that is no event seems to be, and what to do; empty where nothing tells.

    :param text: of the record, or of the line.
    """
    if text.startswith(_FRAME):
        return (
            "It begins as a value of Avro behind the id of its schema: give registry, and read a topic, not files; or "
            "let the connector's converter write JSON"
        )
    faults: list[str] = []
    try:
        value = _unwrapped(_loaded(text, faults))
    # Too many levels end Python's parser, too.
    except (ValueError, RecursionError):
        return ""
    if faults:
        return f"It has {'; '.join(faults[:_SHOWN])}"
    if not isinstance(value, Mapping):
        return ""
    source = value.get("source")
    if "specversion" in value:
        return (
            "It is a CloudEvent: set the connector's value.converter to "
            "org.apache.kafka.connect.json.JsonConverter, or to one of Avro"
        )
    if isinstance(source, Mapping):
        if (connector := source.get("connector", _READ)) != _READ:
            return f"It is of the connector {connector!r}, and events of the PostgreSQL connector alone are read"
        return "" if source.get("table") else "Its source names no table: let no transform take source.table away"
    return (
        "It is a row without its envelope, or another tool's record: take ExtractNewRecordState out of the connector, "
        "as the envelope alone has the place in the log"
    )


def _loaded(text: str, faults: list[str]) -> Any:
    """Return a value of JSON, and add what Spark's parser takes in it and reads wrong.

    :raises ValueError: it is none.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        faults.extend(f"the field {name!r} twice, of which one would be lost: write it once" for name in twice)
        return dict(pairs)

    def number(digits: str) -> float:
        if isinf(value := float(digits)):
            faults.append(f"the number {digits}, which no DOUBLE holds: write it as text, in quotes")
        return value

    def constant(name: str) -> float:
        faults.append(f"{name} without quotes, which is no JSON: write it as text")
        return 0

    return json.loads(text, object_pairs_hook=members, parse_float=number, parse_constant=constant)


def _unwrapped(value: Any) -> Any:
    """Return the value of a record, or what is beside its schema."""
    for names in ({"key", "value"}, {"topic", "value"}, {"schema", "payload"}):
        if isinstance(value, Mapping) and names <= value.keys():
            value = value["payload" if "payload" in names else "value"]
    return value
