"""The clock of an expiry of rows on tables that PyIceberg writes: its overwrite is one commit of several snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.row_age import newest_arrival
from airflow_lake_provider.iceberg import metadata_facts
from airflow_lake_provider.tables.iceberg import pyiceberg_facts


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def arrival(table: Table) -> str | None:
    """The snapshot that worker and driver take for the last that brought rows."""
    text = Path(table.metadata_location.removeprefix("file://")).read_text()
    worker = newest_arrival(pyiceberg_facts.facts_of("shop.orders", table.metadata).ancestors())
    driver = newest_arrival(metadata_facts.facts_of("shop.orders", json.loads(text)).ancestors())
    assert worker == driver
    return None if worker is None else worker.id


# Rows before are 1, 2 and 3, in two files.
CORRECTIONS: dict[str, tuple[Callable[[Table], object], bool]] = {
    "the same rows": (lambda table: table.overwrite(ids(1, 2, 3)), False),
    "fewer rows": (lambda table: table.overwrite(ids(1)), False),
    "a row of a file": (lambda table: table.overwrite(ids(9), "id = 2"), False),
    "more rows": (lambda table: table.overwrite(ids(1, 2, 3, 4)), True),
    "a new row beside the old ones": (lambda table: table.overwrite(ids(9), "id = 8"), True),
    "an upsert of old rows": (lambda table: table.upsert(ids(1, 2), join_cols=["id"]), False),
    "an upsert with a new row": (lambda table: table.upsert(ids(3, 4), join_cols=["id"]), True),
}


@pytest.mark.parametrize(("correct", "brings_rows"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_a_correction_by_pyiceberg_moves_the_clock_only_where_it_brings_rows(
    orders: Table, correct: Callable[[Table], object], brings_rows: bool
) -> None:
    orders.append(ids(1, 2))
    orders.append(ids(3))
    fed = str(orders.current_snapshot().snapshot_id)  # type: ignore[union-attr]  # it has rows

    correct(orders)

    head = str(orders.current_snapshot().snapshot_id)  # type: ignore[union-attr]  # likewise
    assert arrival(orders) == (head if brings_rows else fed)


def test_a_delete_and_an_append_of_two_commits_are_an_arrival(orders: Table) -> None:
    orders.append(ids(1, 2))
    orders.delete("id = 1")
    orders.append(ids(3))
    assert arrival(orders) == str(orders.current_snapshot().snapshot_id)  # type: ignore[union-attr]  # it has rows
