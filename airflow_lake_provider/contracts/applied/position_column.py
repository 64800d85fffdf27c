"""The position of a row's newest event, which ``ordering="key"`` keeps with the row.

An epoch is one log of a source: a new ``source_name`` begins the next one, after which every position of before is
older. Within it ``lsn`` orders the events of a key, except beside a snapshot. A snapshot's rows are older than what was
committed after it, wherever that was written. ``since`` and ``older`` are there only in rows with values that are older
than the row. ``since`` is where the row's key began, and ``older`` has by column the place of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_lake_provider.contracts.property_values import checked_number, reading_property
from airflow_lake_provider.contracts.table_properties import EPOCH_PREFIX

POSITION_COLUMN = "_source_position"
# Where an event was written, the end of the last commit before its own where that was told, when it was committed, and
# whether it is no event but a row that a snapshot read.
PLACE_FIELDS = ("lsn", "last_commit", "ts_ms", "snapshot")
DELETED_KEYS_SUFFIX = "__deleted_keys"
# A row keeps it as an INT, and the next may follow.
_LAST_EPOCH = 2**31 - 2
THIRTY_DAYS = 30 * 24 * 60 * 60


@dataclass(frozen=True)
class PlaceTypes:
    """SQL types of the positions that a table keeps.

    :param number: type of ``lsn`` and ``last_commit``, see ``log_positions.TuplePosition``.
    """

    number: str = "BIGINT"

    @property
    def _fields(self) -> str:
        return f"lsn: {self.number}, last_commit: {self.number}, ts_ms: BIGINT, snapshot: BOOLEAN"

    @property
    def place(self) -> str:
        """Type of a place in the log, of :data:`PLACE_FIELDS`."""
        return f"STRUCT<{self._fields}>"

    @property
    def deleted(self) -> str:
        """Type of the position of a deleted key."""
        return f"STRUCT<epoch: INT, {self._fields}>"

    @property
    def row(self) -> str:
        """Type of the position of a row."""
        return f"STRUCT<epoch: INT, {self._fields}, since: {self.place}, older: MAP<STRING, {self.place}>>"


def epoch_of(properties: Mapping[str, str], source_name: str, table: str = "the table") -> int:
    """Return the epoch of a source; of a source that is new to the table, the next one.

    :param table: name, for messages.
    :raises BrokenMetadataError: a property is no number.
    """
    name = EPOCH_PREFIX + source_name
    return _epoch(properties, name, table) if name in properties else next_epoch(properties, table)


def next_epoch(properties: Mapping[str, str], table: str = "the table") -> int:
    """Return an epoch after all of the table's; parameters and errors as of :func:`epoch_of`."""
    names = [name for name in properties if name.startswith(EPOCH_PREFIX)]
    return 1 + max((_epoch(properties, name, table) for name in names), default=0)


def _epoch(properties: Mapping[str, str], name: str, table: str) -> int:
    with reading_property(table, name, properties, "Set it to a number above all that rows have as their epoch"):
        return checked_number(properties[name], _LAST_EPOCH)


def epoch_property(epoch: int, source_name: str) -> dict[str, str]:
    """Return the property to set."""
    return {EPOCH_PREFIX + source_name: str(epoch)}
