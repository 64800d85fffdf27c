"""Records that a connector sends beside change events: heartbeats, transactions, schema changes, notifications.

None concerns a row. Each is told by the fields of its value, which no envelope has.
Source: Debezium's ``SchemaFactory`` and ``Notification``, as of August 2026.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sf


class _Fields(NamedTuple):
    """Fields of one kind of record: those it always has, and those it may have."""

    needed: tuple[str, ...]
    others: tuple[str, ...] = ()


_KINDS = (
    # Heartbeat.
    _Fields(("ts_ms",)),
    # Begin or end of a transaction.
    _Fields(("status", "id"), ("event_count", "data_collections", "ts_ms")),
    # Schema change; of connectors that have no schema of tables, without schemaName.
    _Fields(("source", "tableChanges"), ("ts_ms", "databaseName", "schemaName", "ddl")),
    _Fields(("source", "ddl"), ("ts_ms", "databaseName", "schemaName", "tableChanges")),
    # Notification.
    _Fields(("id", "aggregate_type", "type"), ("additional_data", "timestamp")),
)


def is_service_record(line: str) -> Column:
    """Return whether a line of JSON is such a record, in any of the forms that events have.

    :param line: column of text that is no change event.
    """
    forms = ("$.value.payload", "$.value", "$.payload")
    value = sf.coalesce(*(sf.get_json_object(line, form) for form in forms), sf.col(line))
    names = sf.json_object_keys(value)
    return sf.coalesce(reduce(or_, (_has(names, fields) for fields in _KINDS)), sf.lit(False))


def _has(names: Column, fields: _Fields) -> Column:
    needed = sf.array(*map(sf.lit, fields.needed))
    known = sf.array(*map(sf.lit, (*fields.needed, *fields.others)))
    return (sf.size(sf.array_except(needed, names)) == 0) & (sf.size(sf.array_except(names, known)) == 0)
