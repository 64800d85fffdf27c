"""Operations of change events: what Debezium's ``op`` does to a row.

``c`` (create), ``u`` (update) and ``r`` (read by a snapshot) are upserts, ``d`` is a delete, ``m`` is a message of the
database's log that concerns no row. Within ``ordering="key"`` more are made of what the table knows, see below; no
table keeps them.

Source: Debezium's documentation, "Change events".
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

# A row that the table holds.
HELD = "held"
# A delete that was applied, or the flagged row of one.
REMOVED = "removed"
# The begin of a key, where a key change or an earlier create put it.
BEGUN = "begun"


def is_delete() -> Column:
    """Tell of an event in the column ``op`` whether it deletes its row; any other event upserts it."""
    return sf.col("op") == "d"


def is_message() -> Column:
    """Tell whether an event concerns no row."""
    return sf.col("op") == "m"
