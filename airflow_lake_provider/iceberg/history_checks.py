"""Refuse a table whose snapshots no writer can have made: a history in a circle, ids twice, times that are none.

Whoever may alter a table or its catalog's answer chooses these numbers. A walk along parents would never end on them,
neither ours nor Iceberg's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.table_facts import REMEDY, circular_history

# Milliseconds from 1970 to the end of the year 9999, the last that Python's datetime knows.
_LAST_MS = 253_402_300_799_999
_LONG = 2**63


def refuse_broken_history(
    table: str,
    snapshots: Iterable[tuple[int, int | None, int]],
    logged_ms: Iterable[int] = (),
    refs: Mapping[str, int] | None = None,
) -> None:
    """Refuse snapshots that are their own ancestors, that are listed twice, or whose numbers are out of range.

    Each snapshot is visited once, those of other branches and of none included.

    :param table: named in the error.
    :param snapshots: id, parent's id and ``timestamp-ms`` of each.
    :param logged_ms: times of the snapshot log and of the metadata log.
    :param refs: snapshot of each branch and tag.
    :raises BrokenMetadataError: naming the snapshot.
    """
    parents: dict[int, int | None] = {}
    for snapshot, parent, at in snapshots:
        if snapshot in parents:
            raise BrokenMetadataError(f"{table}: snapshot {_shown(snapshot)} is listed twice. {REMEDY}.")
        if not (0 <= snapshot < _LONG and 0 <= at <= _LAST_MS):
            raise BrokenMetadataError(
                f"{table}: snapshot {_shown(snapshot)} has timestamp-ms {_shown(at)}; expected an id of 63 bits and a "
                f"time from 1970 to 9999. {REMEDY}."
            )
        parents[snapshot] = parent
    _refuse_circle(table, parents)
    for name, snapshot in (refs or {}).items():
        if snapshot not in parents:
            raise BrokenMetadataError(
                f"{table}: ref {name!a} is on snapshot {_shown(snapshot)}, which the metadata lacks. {REMEDY}."
            )
    for at in logged_ms:
        if not 0 <= at <= _LAST_MS:
            raise BrokenMetadataError(
                f"{table}: a log of the metadata has timestamp-ms {_shown(at)}, expected a time from 1970 to 9999. "
                f"{REMEDY}."
            )


def _refuse_circle(table: str, parents: dict[int, int | None]) -> None:
    finished: set[int] = set()
    for start in parents:
        path: dict[int, None] = {}
        current: int | None = start
        while current in parents and current not in finished:
            if current in path:
                raise circular_history(table, str(current))
            path[current] = None
            current = parents[current]
        finished.update(path)


def _shown(number: int) -> str:
    # Python refuses to write integers of more than 4,300 digits.
    return str(number) if abs(number) < 10**30 else f"of {number.bit_length()} bits"
