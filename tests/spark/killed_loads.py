"""Loads of rows, whole tables and histories: a batch, one amid which the driver dies, and the rows after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from tests.soak.batches import Change, Inbox
from tests.soak.lake import Lake

# Number, name, and a number that no other change has; of a version also whether it is current.
Rows = list[tuple[Any, ...]]
DAYS = {"1": "2026-01-01T00:00:00+00:00", "2": "2026-01-02T00:00:00+00:00"}
FIRST = tuple(Change(key, "day 1" if key < 10 else "day 2", key, gone=False) for key in range(20))
# Of the second day alone.
SECOND = tuple(Change(key, "day 2", 100 + key, gone=False) for key in range(15, 25))


@dataclass(frozen=True)
class KilledLoad:
    """A load.

    :param phase: at whose beginning the driver dies.
    :param spec: from what all specs have, an inbox and the number of the batch.
    :param after: rows after the first batch, and after both.
    """

    phase: str
    spec: Callable[[Mapping[str, Any], Inbox, str], JobSpec]
    after: Mapping[str, Rows]


def _rows(changes: Iterable[Change]) -> Rows:
    return [(change.key, change.name, change.n) for change in changes]


def _append(frame: Mapping[str, Any], inbox: Inbox, number: str) -> JobSpec:
    return AppendSpec(**frame, source=inbox.source())


def _overwrite(frame: Mapping[str, Any], inbox: Inbox, number: str, where: str | None = None) -> JobSpec:
    create = TableLayout(partition_by=["name"])
    # The first batch has both days.
    where = where if number == "2" else None
    return OverwritePartitionsSpec(**frame, source=inbox.source(number), where=where, create=create)


def _whole(frame: Mapping[str, Any], inbox: Inbox, number: str) -> JobSpec:
    return UpsertSpec(**frame, source=inbox.source(number), keys=("id",), is_complete=True, max_deleted_share=1.0)


def _history(frame: Mapping[str, Any], inbox: Inbox, number: str) -> JobSpec:
    return UpsertSpec(**frame, source=inbox.source(), keys=("id",), merge_engine=History(at=DAYS[number]))


def _versions(*, are_current: bool) -> Rows:
    ended = {} if are_current else {change.key for change in SECOND}
    return [(*row, row[0] not in ended) for row in _rows(FIRST)]


_OF_DAY_ONE = _rows(change for change in FIRST if change.name == "day 1")
_OVERWRITTEN = {"1": _rows(FIRST), "2": [*_OF_DAY_ONE, *_rows(SECOND)]}
# By the name of the task.
KILLED_LOADS = {
    "append": KilledLoad("commit", _append, {"1": _rows(FIRST), "2": [*_rows(FIRST), *_rows(SECOND)]}),
    "overwrite of the batch's partitions": KilledLoad("commit", _overwrite, _OVERWRITTEN),
    "overwrite of a predicate's partitions": KilledLoad(
        "write", partial(_overwrite, where="name = 'day 2'"), _OVERWRITTEN
    ),
    "whole table": KilledLoad("commit", _whole, {"1": _rows(FIRST), "2": _rows(SECOND)}),
    "history": KilledLoad(
        "stage",
        _history,
        {
            "1": _versions(are_current=True),
            "2": [*_versions(are_current=False), *((*row, True) for row in _rows(SECOND))],
        },
    ),
}


def load_of(name: str, frame: Mapping[str, Any], inbox: Inbox, number: str) -> JobSpec:
    """Return the spec of a batch."""
    excluded = SchemaContract(exclude_columns=("op",))
    return KILLED_LOADS[name].spec({**frame, "schema_contract": excluded}, inbox, number)


def rows_of(lake: Lake, table: str) -> Rows:
    """Return all rows of a table in order, as PyIceberg reads them."""
    rows = lake.catalog().load_table(table).scan().to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in ("id", "name", "n", "is_current") if name in row) for row in rows)
