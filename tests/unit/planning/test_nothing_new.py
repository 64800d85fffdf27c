"""The range that a consumer reads next follows from the metadata of real tables."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, positions_in_summary
from airflow_lake_provider.contracts.table_properties import SOURCE_POSITION
from airflow_lake_provider.planning.nothing_new import IncrementalRange, nothing_new, position_id
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.table_facts import facts

Append = Callable[..., int]


@pytest.fixture
def target(lake_catalog: SqlCatalog) -> Table:
    return lake_catalog.create_table("shop.target", schema=pa.schema([("id", pa.int64())]))


def unread(source: Table, target: Table | None) -> IncrementalRange:
    return nothing_new(LoadedIcebergTable(source), facts(target) if target is not None else None, "mart")


def consume(source: Table, target: Table, snapshot: int, consumer: str = "mart") -> None:
    """Set the position as a commit to the target does."""
    name = position_id(facts(source), consumer)
    position = SourcePosition.read(target.properties, name).moved(SnapshotPosition(str(snapshot)))
    with target.transaction() as transaction:
        summary = {SOURCE_POSITION: positions_in_summary({name: position})}
        transaction.append(pa.table({"id": [1]}), snapshot_properties=summary)
        transaction.set_properties(position.to_properties(name))


def test_a_source_without_snapshots_has_nothing(orders: Table, target: Table) -> None:
    expected = IncrementalRange(
        from_snapshot=None, to_snapshot=None, nothing_new=True, reason="the source has no snapshot yet"
    )
    assert unread(orders, target) == unread(orders, None) == expected


def test_a_missing_or_fresh_target_has_everything_before_it(orders: Table, target: Table, append: Append) -> None:
    head = str(append(orders, 1))
    for table in (None, target):
        found = unread(orders, table)
        assert (found.from_snapshot, found.to_snapshot, found.nothing_new) == (None, head, False)


def test_a_consumer_at_the_head_has_nothing_and_behind_it_has_the_range(
    orders: Table, target: Table, append: Append
) -> None:
    first = append(orders, 1)
    consume(orders, target, first)
    assert unread(orders, target).nothing_new
    second = append(orders, 2)
    found = unread(orders, target)
    assert (found.from_snapshot, found.to_snapshot, found.nothing_new) == (str(first), str(second), False)
    consume(orders, target, second)
    assert unread(orders, target).nothing_new


def test_positions_of_other_consumers_and_other_sources_do_not_count(
    lake_catalog: SqlCatalog, orders: Table, target: Table, append: Append
) -> None:
    consume(orders, target, append(orders, 1), consumer="other")
    twin = lake_catalog.create_table("shop.twin", schema=pa.schema([("id", pa.int64())]))
    consume(twin, target, append(twin, 1))
    assert unread(orders, target).from_snapshot is None
    assert not unread(orders, target).nothing_new


def test_the_tag_on_the_source_is_no_position(orders: Table, target: Table, append: Append) -> None:
    head = append(orders, 1)
    with orders.manage_snapshots() as manage:
        manage.create_tag(head, "lake.consumer.mart")
    assert not unread(orders, target).nothing_new


def test_commits_that_change_no_row_are_nothing_new(
    orders: Table, target: Table, append: Append, compact: Callable[[Table], int]
) -> None:
    consume(orders, target, append(orders, 1))
    append(orders)
    compacted = compact(orders)
    found = unread(orders, target)
    assert (found.to_snapshot, found.nothing_new) == (str(compacted), True)
    assert found.reason == "only commits that change no rows were made since the consumer's position"
    append(orders, 2)
    assert not unread(orders, target).nothing_new


def test_a_rollback_behind_the_position_is_new(orders: Table, target: Table, append: Append) -> None:
    first = append(orders, 1)
    consume(orders, target, append(orders, 2))
    with orders.manage_snapshots() as manage:
        manage.rollback_to_snapshot(first)
    assert not unread(orders, target).nothing_new


@pytest.mark.parametrize("moves_on", [False, True])
def test_a_target_that_got_a_later_range_than_its_position_tells_reads_all_of_its_source(
    orders: Table, target: Table, append: Append, moves_on: bool
) -> None:
    first = append(orders, 1)
    consume(orders, target, first)
    name = position_id(facts(orders), "mart")
    at_first = SourcePosition.read(target.properties, name)
    head = append(orders, 2)
    consume(orders, target, head)
    # Another tool moved main forward, after a rollback had taken the position back.
    with target.transaction() as transaction:
        transaction.set_properties(at_first.to_properties(name))
    if moves_on:
        append(orders, 3)
    else:
        orders.manage_snapshots().rollback_to_snapshot(first).commit()
    unread_now = unread(orders.refresh(), target)
    assert (unread_now.from_snapshot, unread_now.nothing_new) == (None, False)
    assert unread_now.reason == "main of the target has a later range than its position tells, so that all is read"


def test_an_expired_position_is_left_to_the_driver(orders: Table, target: Table, append: Append) -> None:
    first = append(orders, 1)
    consume(orders, target, first)
    append(orders, 2)
    append(orders, 3)
    orders.maintenance.expire_snapshots().by_id(first).commit()
    found = unread(orders.refresh(), target)
    assert (found.from_snapshot, found.nothing_new) == (str(first), False)
