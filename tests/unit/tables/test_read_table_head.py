"""The head that is read from a real table's metadata, and what the decision makes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.table import Table

from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, NoNewSnapshot, TableHead, decide
from airflow_lake_provider.tables.watermark import Since
from tests.table_facts import facts

Append = Callable[..., int]


def new_snapshot(table: Table, since: Since, branch: str = "main") -> NewSnapshot:
    answer = decide(TableHead.of(facts(table.refresh()), branch), since)
    assert isinstance(answer, NewSnapshot), answer
    return answer


def skipped(table: Table, since: Since) -> NoNewSnapshot:
    answer = decide(TableHead.of(facts(table.refresh())), since)
    assert isinstance(answer, NoNewSnapshot), answer
    return answer


def test_a_table_without_a_snapshot_and_an_unknown_branch_have_no_head(orders: Table, append: Append) -> None:
    assert TableHead.of(facts(orders)).head is None
    append(orders, 1)
    assert TableHead.of(facts(orders), "audit").head is None


def test_counts_and_operation_are_those_of_the_commits(orders: Table, append: Append) -> None:
    first = append(orders, 1, 2, 3)
    append(orders, 4, 5)
    orders.delete("id = 1")
    found = new_snapshot(orders, Since(snapshot_id=str(first)))
    # PyIceberg deletes by copy on write: it drops the file of three rows and writes one of two.
    assert (found.commits, found.operation, found.ancestry.value) == (2, "overwrite", "linear")
    assert (found.counts["added-records"], found.counts["deleted-records"]) == (4, 3)


def test_an_append_of_no_rows_is_no_new_snapshot(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    empty = append(orders)
    assert empty != first
    assert skipped(orders, Since(snapshot_id=str(first))).seen == str(empty)


def test_a_compaction_is_no_new_snapshot(orders: Table, append: Append, compact: Callable[[Table], int]) -> None:
    first = append(orders, 1)
    compacted = compact(orders)
    assert skipped(orders, Since(snapshot_id=str(first))).seen == str(compacted)
    last = append(orders, 2)
    found = new_snapshot(orders, Since(snapshot_id=str(first)))
    assert (found.snapshot_id, found.commits, found.counts["added-records"]) == (str(last), 1, 1)


def test_a_rollback_is_told_from_an_expired_start(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    second = append(orders, 2)
    orders.manage_snapshots().rollback_to_snapshot(first).commit()
    assert new_snapshot(orders, Since(snapshot_id=str(second))).ancestry.value == "rolled-back"
    third = append(orders, 3)
    assert new_snapshot(orders, Since(snapshot_id=str(second))).ancestry.value == "rolled-back"
    orders.maintenance.expire_snapshots().by_id(second).commit()
    assert new_snapshot(orders, Since(snapshot_id=str(second))).ancestry.value == "start-expired"
    assert new_snapshot(orders, Since(snapshot_id=str(first))).snapshot_id == str(third)


def test_a_tagged_start_behind_an_expiry_was_not_rolled_back(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    orders.manage_snapshots().create_tag(first, "keep").commit()
    append(orders, 3)
    orders.maintenance.expire_snapshots().by_id(second).commit()
    assert new_snapshot(orders, Since(snapshot_id=str(first))).ancestry.value == "history-expired"


def test_a_branch_has_its_own_head(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_branch(first, "audit").commit()
    audited = append(orders, 2, branch="audit")
    assert new_snapshot(orders, Since(snapshot_id=str(first)), "audit").snapshot_id == str(audited)
    assert skipped(orders, Since(snapshot_id=str(first))).seen == str(first)


def test_a_time_is_when_the_branch_came_to_the_snapshot(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_branch(first, "audit").commit()
    audited = append(orders, 2, branch="audit")
    made = orders.refresh().snapshot_by_id(audited)
    assert made is not None
    after_it_was_made = datetime.fromtimestamp(made.timestamp_ms / 1000, UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) <= after_it_was_made + timedelta(milliseconds=2):
        pass
    orders.manage_snapshots().set_current_snapshot(snapshot_id=audited).commit()
    log = orders.refresh().metadata.snapshot_log
    assert log[-1].snapshot_id == audited
    assert new_snapshot(orders, Since(time=after_it_was_made)).previous_id == str(first)


def test_a_consumers_cursor_is_its_tag_and_else_its_property(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    with orders.transaction() as change:
        change.set_properties({"lake.consumer.a.snapshot": str(first), "lake.consumer.b.snapshot": str(first)})
    orders.manage_snapshots().create_tag(second, "lake.consumer.a").commit()
    assert TableHead.of(facts(orders.refresh())).consumers == {"a": str(second), "b": str(first)}
    assert skipped(orders, Since(consumer="a")).reason.value == "nothing-committed"
    assert new_snapshot(orders, Since(consumer="b")).previous_id == str(first)


def test_an_overwrite_is_one_new_snapshot_of_two_commits_or_one(orders: Table, append: Append) -> None:
    first = append(orders, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg warns of a delete that matches nothing
        orders.overwrite(pa.table({"id": pa.array([7], pa.int64())}))
    found = new_snapshot(orders, Since(snapshot_id=str(first)))
    assert (found.counts["added-records"], found.counts["deleted-records"]) == (1, 2)
