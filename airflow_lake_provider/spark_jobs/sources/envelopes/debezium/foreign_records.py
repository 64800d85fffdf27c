"""Records that are no change events of Debezium's PostgreSQL connector, and what to do about each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Before the id of a schema, in values that a registry's converter writes.
_FRAME = "\0"
_READ = "postgresql"


def remedy(text: str) -> str:
    """Return what the first record that is no event seems to be, and what to do; empty where nothing tells.

    :param text: of the record, or of the line.
    """
    if text.startswith(_FRAME):
        return (
            "It begins as a value of Avro behind the id of its schema: give registry, and read a topic, not files; or "
            "let the connector's converter write JSON"
        )
    try:
        value = _unwrapped(json.loads(text))
    except ValueError:
        return ""
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


def _unwrapped(value: Any) -> Any:
    """Return the value of a record, or what is beside its schema."""
    for names in ({"key", "value"}, {"topic", "value"}, {"schema", "payload"}):
        if isinstance(value, Mapping) and names <= value.keys():
            value = value["payload" if "payload" in names else "value"]
    return value
