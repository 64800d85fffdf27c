"""Columns of change events. An envelope fills them, and whatever is behind it reads nothing else of a line.

Values stay the text that the envelope found, until the types of the columns are known.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL

# Kinds of events, in ``op``: a row was inserted, read by a snapshot, updated or deleted, or the table was truncated.
CREATE, READ, UPDATE, DELETE, TRUNCATE = "c", "r", "u", "d", "t"
# Events after which the row is there.
UPSERTS = (CREATE, READ, UPDATE)
OPERATIONS = (*UPSERTS, DELETE, TRUNCATE)

EVENT_COLUMNS = {
    # Where the line stands, see ``arrival_order``.
    ARRIVAL: "STRUCT<file: INT, block: BIGINT, row: BIGINT>",
    # The line is no event of any table. Nothing else counts in it.
    "bad": "BOOLEAN",
    # Kind of the event; NULL in a line that only takes up a place in Kafka, such as a tombstone.
    "op": "STRING",
    # Place of the event in the log, two numbers that are ordered as a pair; NULL where the event does not tell it.
    # ``second`` alone is where it was written, and orders the events of one key.
    "first": "BIGINT",
    "second": "BIGINT",
    # End of the last commit before the event's own; NULL where that is not told.
    "last_commit": "BIGINT",
    # Time of the commit by the database's clock, in epoch milliseconds; NULL without one.
    "ts_ms": "BIGINT",
    # Place of the line in Kafka: ``<topic>-<partition>`` and the offset; NULL where they are not known.
    "partition": "STRING",
    "offset": "BIGINT",
    # Columns by which the stream is keyed: none for one without a key, NULL where the line does not tell.
    "record_key": "ARRAY<STRING>",
    # Row after the event, column -> text; NULL of a delete.
    "after": "MAP<STRING, STRING>",
    # Names of the row's columns; of a delete those of the row before it.
    "image": "ARRAY<STRING>",
    # Names of columns that the server left out of ``after`` since they had not changed; they are keys of it.
    "holes": "ARRAY<STRING>",
    # Texts of the key columns, in their order; before the event where that is told.
    "key": "ARRAY<STRING>",
    "key_before": "ARRAY<STRING>",
    # Of a key change, which is a delete and a create at one place: the create's old key, and the delete's new one.
    "old_key": "ARRAY<STRING>",
    "new_key": "ARRAY<STRING>",
    # A text of the envelope's own that tells the types of the columns; NULL where the event does not.
    "types": "STRING",
}


def op_is(*kinds: str) -> Column:
    """Return whether an event is of one of some kinds."""
    op = sf.col("op")
    return op == kinds[0] if len(kinds) == 1 else op.isin(*kinds)


def is_delete() -> Column:
    """Return whether an event deletes its row; any other event upserts it."""
    return op_is(DELETE)
