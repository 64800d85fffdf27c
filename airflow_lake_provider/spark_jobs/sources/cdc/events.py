"""Columns of change events. An envelope fills them, and whatever is behind it reads nothing else of a line.

Values stay the text that the envelope found, until the types of the columns are known.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL

# Types that each log has of its own.
_POSITION, _NUMBER = "position", "number"
# Kinds of events, in ``op``: a row was inserted, read by a snapshot, updated or deleted, or the table was truncated.
CREATE, READ, UPDATE, DELETE, TRUNCATE = "c", "r", "u", "d", "t"
# Events after which the row is there.
UPSERTS = (CREATE, READ, UPDATE)
OPERATIONS = (*UPSERTS, DELETE, TRUNCATE)

_COLUMNS = {
    # Where the line stands, see ``arrival_order``.
    ARRIVAL: "STRUCT<file: INT, block: BIGINT, row: BIGINT>",
    # The line is no event of any table. Nothing else counts in it.
    "bad": "BOOLEAN",
    # Kind of the event; NULL in a line that only takes up a place in Kafka, such as a tombstone.
    "op": "STRING",
    # Full name of the table, which tells two of one name apart; NULL where the event does not tell it.
    "table": "STRING",
    # Place of the event in the log, see :func:`position_of`; NULL where the event does not tell it.
    "position": _POSITION,
    # Where the event was written, as one number that orders the events of one key. Numbers of two records differ by
    # eight at least where the stream has rows of a snapshot, which find their place between.
    "ordinal": _NUMBER,
    # End of the last commit before the event's own, as ``ordinal`` has it; NULL where that is not told.
    "last_commit": _NUMBER,
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
    # Names of columns of the row whose text may be a number, or bytes of one; NULL for none.
    "ambiguous": "ARRAY<STRING>",
    # Texts of the key columns, in their order; before the event where that is told.
    "key": "ARRAY<STRING>",
    "key_before": "ARRAY<STRING>",
    # Of a key change, which is a delete and a create at one place: the create's old key, and the delete's new one.
    "old_key": "ARRAY<STRING>",
    "new_key": "ARRAY<STRING>",
    # A text of the envelope's own that tells the types of the columns; NULL where the event does not.
    "types": "STRING",
}


def event_columns(log: type[TuplePosition]) -> dict[str, str]:
    """Return the columns of events and their types.

    :param log: whose places they have.
    """
    own = {_POSITION: log.sql_type(), _NUMBER: log.number_type}
    return {name: own.get(kind, kind) for name, kind in _COLUMNS.items()}


def position_of(log: type[TuplePosition], **numbers: Column) -> Column:
    """Return the place of an event; NULL where one of its numbers is.

    :param numbers: by the names of the log's fields.
    """
    place = sf.struct(*(numbers[name].alias(name) for name in log.names())).cast(log.sql_type())
    return sf.when(reduce(and_, (number.isNotNull() for number in numbers.values())), place)


def op_is(*kinds: str) -> Column:
    """Return whether an event is of one of some kinds."""
    # As one text: a column of each part would take four commands to the JVM, and a batch asks this some fifty times.
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    return sf.expr(f"op IN ({listed})")


def is_delete() -> Column:
    """Return whether an event deletes its row; any other event upserts it."""
    return op_is(DELETE)
