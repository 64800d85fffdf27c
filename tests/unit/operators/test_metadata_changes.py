"""Rollback, publication, tags and upgrade of real tables, through their operators.

A table of format version 2 needs no Spark: the Spark connection here is nowhere, and what starts Spark fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    CommitConflictError,
    InvalidConnectionError,
    InvalidSpecError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, MetadataChangeSpec, RefMove
from airflow_lake_provider.contracts.table_facts import Reference, Snapshot, TableState
from airflow_lake_provider.hooks.bounded_catalogs.sql_catalog import LakeSqlCatalog
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators import spark_application
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.task_run import UNTOLD
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.table_facts import table_of
from tests.unit.operators.run_of_tests import NO_SPARK, RUN, StateStore
from tests.unit.table_maker import as_version_3

if TYPE_CHECKING:
    from airflow.sdk import Context

Append = Callable[..., int]
ORDERS: dict[str, Any] = {"task_id": "t", "table": "shop.orders", **NO_SPARK}


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_a_rollback_moves_main_and_says_what_it_lost(orders: Table, append: Append, context: Context) -> None:
    first, second, third = (append(orders, number) for number in (1, 2, 3))
    report = LakeRollbackOperator(snapshot_id=first, **ORDERS).execute(context)
    assert (report["outcome"], report["without_spark"], report["ref_after"]) == ("done", True, str(first))
    assert report["snapshots_rolled_back"] == [str(third), str(second)]
    assert report["after"]["rows"] == 1
    assert ids(orders) == [1]


def test_a_run_opens_the_catalog_once_and_the_next_run_again(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = append(orders, 1)
    append(orders, 2)
    opened = []

    def counted(catalog: LakeSqlCatalog, name: str, **properties: str) -> None:
        opened.append(name)
        SqlCatalog.__init__(catalog, name, **properties)

    monkeypatch.setattr(LakeSqlCatalog, "__init__", counted)
    rollback = LakeRollbackOperator(snapshot_id=first, **ORDERS)
    rollback.execute(context)
    assert len(opened) == 1
    rollback.execute(context)
    assert len(opened) == 2


def test_a_retried_rollback_is_recognised_and_a_cleared_one_is_meant(
    orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    append(orders, 2)
    job = LakeRollbackOperator(snapshot_id=str(first), **ORDERS)
    job.execute(context)
    append(orders.refresh(), 3)
    assert job.execute(context)["outcome"] == "already-applied"
    assert ids(orders) == [1, 3]
    # Clearing a task raises its max_tries.
    cleared: Any = {**context, "ti": SimpleNamespace(**{**vars(context["ti"]), "max_tries": 7})}
    assert job.execute(cleared)["outcome"] == "done"
    assert ids(orders) == [1]


def test_an_upgrade_to_version_3_is_a_job_of_spark(orders: Table, append: Append, context: Context) -> None:
    append(orders, 1)
    # PyIceberg 0.12 cannot write it.
    with pytest.raises(InvalidConnectionError, match="nowhere"):
        LakeTableUpgradeOperator(**ORDERS).execute(context)
    assert LakeTableUpgradeOperator(format_version="2", **ORDERS).execute(context)["outcome"] == "nothing-due"


def test_a_table_of_version_3_is_changed_by_spark(
    lake_catalog: SqlCatalog, orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    as_version_3(lake_catalog, orders)
    with pytest.raises(InvalidConnectionError, match="nowhere"):
        LakeCreateTagOperator(tag="x", **ORDERS).execute(context)
    assert LakeTableUpgradeOperator(**ORDERS).execute(context)["outcome"] == "nothing-due"
    assert LakeRollbackOperator(snapshot_id=first, **ORDERS).execute(context)["outcome"] == "nothing-due"


def test_a_tag_that_the_next_expiry_removes_is_made_with_a_warning(
    orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    for number, (max_age, is_past) in enumerate({None: False, "P30D": False, "PT0.001S": True}.items()):
        report = LakeCreateTagOperator(tag=f"t{number}", snapshot_id=first, max_age=max_age, **ORDERS).execute(context)
        assert report["outcome"] == "done"
        assert [f"snapshot {first} is older than" in each for each in report["warnings"]] == [True] * is_past
    # One that is moved keeps its age.
    second = append(orders.refresh(), 2)
    moved = LakeCreateTagOperator(tag="t2", snapshot_id=second, replace=True, **ORDERS).execute(context)
    assert any(f"snapshot {second} is older than the tag's max_age, P0DT" in each for each in moved["warnings"])


def test_a_tag_without_an_age_that_the_table_s_own_ends_is_made_with_a_warning(
    orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    with orders.refresh().transaction() as change:
        change.set_properties({"history.expire.max-ref-age-ms": "1"})
    for number, (max_age, is_past) in enumerate({None: True, "P30D": False}.items()):
        report = LakeCreateTagOperator(tag=f"t{number}", snapshot_id=first, max_age=max_age, **ORDERS).execute(context)
        whose = f"snapshot {first} is older than the table's history.expire.max-ref-age-ms, P0DT"
        assert [whose in each for each in report["warnings"]] == [True] * is_past
    # An expiry refuses a value that is no age.
    with orders.refresh().transaction() as change:
        change.set_properties({"history.expire.max-ref-age-ms": "soon"})
    assert LakeCreateTagOperator(tag="x", snapshot_id=first, **ORDERS).execute(context)["warnings"] == []


def test_a_tag_is_made_once_kept_and_dropped_once(orders: Table, append: Append, context: Context) -> None:
    first = append(orders, 1)
    job = LakeCreateTagOperator(tag="month end", max_age="P30D", **ORDERS)
    assert job.execute(context)["ref_after"] == str(first)
    second = append(orders.refresh(), 2)
    assert job.execute(context)["outcome"] == "nothing-due"
    tag = orders.refresh().metadata.refs["month end"]
    assert (tag.snapshot_id, tag.snapshot_ref_type, tag.max_ref_age_ms) == (first, "tag", 30 * 86_400_000)
    with pytest.raises(UnsupportedError, match="move it with replace=True"):
        LakeCreateTagOperator(tag="month end", snapshot_id=second, **ORDERS).execute(context)
    LakeCreateTagOperator(tag="month end", replace=True, **ORDERS).execute(context)
    moved = orders.refresh().metadata.refs["month end"]
    assert (moved.snapshot_id, moved.max_ref_age_ms) == (second, 30 * 86_400_000)
    longer = LakeCreateTagOperator(tag="month end", max_age="P90D", replace=True, **ORDERS)
    assert [longer.execute(context)["outcome"] for _ in range(2)] == ["done", "nothing-due"]
    kept = orders.refresh().metadata.refs["month end"]
    assert (kept.snapshot_id, kept.max_ref_age_ms) == (second, 90 * 86_400_000)
    drop = LakeDropTagOperator(tag="month end", **ORDERS)
    assert [drop.execute(context)["outcome"] for _ in range(2)] == ["done", "nothing-due"]
    assert list(orders.refresh().metadata.refs) == ["main"]


def test_a_branch_is_published_and_dropped_in_one_commit(orders: Table, append: Append, context: Context) -> None:
    append(orders, 1)
    orders.manage_snapshots().create_branch(orders.metadata.current_snapshot_id or 0, "load").commit()
    on_branch = append(orders.refresh(), 2, branch="load")
    versions = len(orders.refresh().metadata.metadata_log)
    job = LakePublishBranchOperator(branch="load", drop_branch=True, **ORDERS)
    report = job.execute(context)
    assert (report["committed"], report["ref_after"]) == ([str(on_branch)], str(on_branch))
    assert len(orders.refresh().metadata.metadata_log) == versions + 1
    assert (ids(orders), list(orders.metadata.refs)) == ([1, 2], ["main"])
    assert job.execute(context)["outcome"] == "nothing-due"


def test_a_publication_is_an_event_of_main_and_a_rollback_is_none(
    orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_branch(first, "load").commit()
    on_branch = append(orders.refresh(), 2, branch="load")
    asset = lake_table_asset("shop.orders")
    publish = LakePublishBranchOperator(branch="load", outlets=[asset], **ORDERS)
    publish.execute(context)
    told = context["outlet_events"][asset].extra
    assert (told["snapshot_id"], told["previous_snapshot_id"]) == (str(on_branch), str(first))
    rollback = LakeRollbackOperator(snapshot_id=first, outlets=[asset], **ORDERS)
    rollback.execute(context)
    assert (publish.outlets, rollback.outlets) == ([asset], [])


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_publication_whose_try_failed_behind_its_commit_is_told_once_by_a_later_one(
    orders: Table,
    append: Append,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    drops: bool,
    is_cleared: bool,
) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_branch(first, "load").commit()
    append(orders.refresh(), 2, branch="load")
    last = append(orders.refresh(), 3, branch="load")
    asset = lake_table_asset("shop.orders")
    StateStore.of(context)

    def publish(number: int, max_tries: int) -> tuple[str, list[Any]]:
        context["ti"].try_number, context["ti"].max_tries = number, max_tries
        job = LakePublishBranchOperator(branch="load", drop_branch=drops, outlets=[asset], retries=1, **ORDERS)
        return job.execute(context)["outcome"], job.outlets

    with monkeypatch.context() as broken:
        broken.setattr(spark_application, "announce", _fail)
        with pytest.raises(CatalogUnavailableError):
            publish(1, 1)
    append(orders.refresh(), 4)
    assert publish(2, 2 if is_cleared else 1) == ("already-applied", [asset])
    extra: dict[str, Any] = context["outlet_events"][asset].extra
    assert (extra["snapshot_id"], extra["previous_snapshot_id"]) == (str(last), str(first))
    assert extra["commits"] == 2
    assert publish(3, 3) == ("nothing-due", [])


def _fail(*_: Any, **__: Any) -> None:
    raise CatalogUnavailableError("gone")


def test_a_publication_that_another_task_has_made_is_none_of_a_retry(
    orders: Table, append: Append, context: Context
) -> None:
    first = append(orders, 1)
    asset = lake_table_asset("shop.orders")
    StateStore.of(context, **{UNTOLD: "try 1"})
    orders.manage_snapshots().create_branch(first, "load").commit()
    job = LakePublishBranchOperator(branch="load", outlets=[asset], retries=1, **ORDERS)
    context["ti"].try_number, context["ti"].max_tries = 2, 1
    assert job.execute(context)["outcome"] == "nothing-due"
    assert job.outlets == []


@pytest.mark.parametrize("form", [Table, LoadedIcebergTable])
def test_a_change_that_was_decided_on_another_head_is_refused(
    orders: Table, append: Append, form: type[Table | LoadedIcebergTable]
) -> None:
    first = append(orders, 1)
    second = append(orders, 2)
    stale = orders.refresh()
    append(orders.catalog.load_table("shop.orders"), 3)
    change = MetadataChange(
        table_uuid=str(orders.metadata.table_uuid),
        expected_refs={"main": str(second)},
        moved_refs=(RefMove(name="main", kind="branch", snapshot=str(first)),),
    )
    with pytest.raises(CommitConflictError, match="Nothing changed"):
        LakeCatalogHook("lake_default").commit_metadata(stale if form is Table else LoadedIcebergTable(stale), change)
    assert ids(orders) == [1, 2, 3]


@pytest.mark.parametrize("others", [1, 3])
def test_a_change_is_sent_again_when_a_commit_that_moves_none_of_its_refs_came_first(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_tag(first, "old").commit()
    _append_first(monkeypatch, append, range(2, 2 + others))
    report = LakeDropTagOperator(tag="old", **ORDERS).execute(context)
    assert report["outcome"] == "done"
    assert set(orders.refresh().metadata.refs) == {"main"}
    assert ids(orders) == list(range(1, 2 + others))


def test_a_change_is_refused_when_its_ref_moved_between_the_look_and_the_swap(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = append(orders, 1), append(orders, 2)
    _append_first(monkeypatch, append, [3])
    with pytest.raises(CommitConflictError, match=rf"main was at snapshot {second} and is at .* Nothing changed"):
        LakeRollbackOperator(snapshot_id=first, **ORDERS).execute(context)
    assert ids(orders) == [1, 2, 3]


def test_a_change_is_given_up_after_as_many_tries_as_the_owner_of_the_table_says(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = append(orders, 1)
    orders.transaction().set_properties({"commit.retry.num-retries": "2"}).commit_transaction()
    _append_first(monkeypatch, append, range(2, 9))
    with pytest.raises(CommitConflictError, match=r"refused 3 times: .* updated by another process"):
        LakeCreateTagOperator(tag="new", snapshot_id=first, **ORDERS).execute(context)
    assert ids(orders) == [1, 2, 3, 4]


@pytest.mark.parametrize("retries", ["0", "3"])
def test_a_change_that_is_refused_because_it_was_sent_twice_is_made(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch, retries: str
) -> None:
    first = append(orders, 1)
    orders.transaction().set_properties({"commit.retry.num-retries": retries}).commit_transaction()
    commit = LakeSqlCatalog.commit_table

    def sent_twice(catalog: LakeSqlCatalog, table: Table, *given: Any) -> Any:
        commit(catalog, table, *given)
        return commit(catalog, table, *given)

    monkeypatch.setattr(LakeSqlCatalog, "commit_table", sent_twice)
    report = LakeCreateTagOperator(tag="new", snapshot_id=first, **ORDERS).execute(context)
    assert report["outcome"] == "done"
    assert orders.refresh().metadata.refs["new"].snapshot_id == first


def _append_first(monkeypatch: pytest.MonkeyPatch, append: Append, numbers: Iterable[int]) -> None:
    """Let another writer append a row before each swap, between what the swap compares with and the swap."""
    stage, left = LakeSqlCatalog._update_and_stage_table, list(numbers)

    def staged(catalog: LakeSqlCatalog, current: Table, *given: Any) -> Any:
        if left:
            other = SqlCatalog(catalog.name, **catalog.properties)
            append(other.load_table(current.name()), left.pop(0))
        return stage(catalog, current, *given)

    monkeypatch.setattr(LakeSqlCatalog, "_update_and_stage_table", staged)


def test_a_change_whose_table_cannot_be_read_back_is_made_and_says_so(
    orders: Table, append: Append, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = append(orders, 1)
    append(orders, 2)
    commit_table, hidden = LakeSqlCatalog.commit_table, list[Path]()

    def commit_and_hide(catalog: LakeSqlCatalog, *given: Any) -> Any:
        answer = commit_table(catalog, *given)
        hidden.append(Path(answer.metadata_location.removeprefix("file://")))
        hidden[0].rename(hidden[0].with_suffix(".hidden"))
        return answer

    monkeypatch.setattr(LakeSqlCatalog, "commit_table", commit_and_hide)
    report = LakeRollbackOperator(snapshot_id=first, **ORDERS).execute(context)
    hidden[0].with_suffix(".hidden").rename(hidden[0])
    assert (report["outcome"], report["ref_after"], report["after"]) == ("done", str(first), None)
    assert report["warnings"][0].startswith("the table after the commit is not known: the commit was made")
    assert ids(orders) == [1]


@pytest.mark.parametrize(
    ("operator", "wrong", "said"),
    [
        (LakeRollbackOperator, {}, "one of snapshot_id, timestamp and tag"),
        (LakeRollbackOperator, {"snapshot_id": 1, "tag": "x"}, "and only one"),
        (LakeRollbackOperator, {"snapshot_id": "abc"}, "must be a snapshot id"),
        (LakeRollbackOperator, {"timestamp": "2026-01-01"}, "time with a zone"),
        (LakePublishBranchOperator, {"branch": "main"}, "branch 'main' is reserved"),
        (LakePublishBranchOperator, {"branch": "lake_stage_1"}, "is reserved"),
        (LakeCreateTagOperator, {"tag": "lake.consumer.x"}, "does not begin with 'lake'"),
        (LakeCreateTagOperator, {"tag": "x", "max_age": "30"}, "ISO-8601"),
        (LakeDropTagOperator, {"tag": "main"}, "tag 'main' is reserved"),
        (LakeTableUpgradeOperator, {"format_version": 4}, "format_version must be 2 or 3, got 4"),
    ],
)
def test_wrong_arguments_fail_while_the_dag_is_parsed(operator: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said) as refused:
        operator(**wrong, **ORDERS)
    assert isinstance(refused.value, AirflowFailException)


def test_templates_are_taken_and_checked_when_they_are_rendered() -> None:
    LakeRollbackOperator(snapshot_id="{{ params.snapshot_id }}", **ORDERS)
    LakePublishBranchOperator(branch="load_{{ ds_nodash }}", **ORDERS)
    LakeCreateTagOperator(tag="day {{ ds }}", **ORDERS)
    LakeTableUpgradeOperator(format_version="{{ params.version }}", **ORDERS)


def test_a_decided_change_reaches_the_driver_as_it_was() -> None:
    change = MetadataChange(
        table_uuid="u", expected_refs={"t": None}, moved_refs=(RefMove(name="t", kind="tag", snapshot="1"),)
    )
    report = MetadataChangeReport(
        table="shop.orders", outcome=Outcome.DONE, reason="r", operation="create-tag", after=TableState(snapshot="1")
    )
    sent = MetadataChangeSpec(catalog="lake", table="shop.orders", run=RUN, change=change, planned=report)
    assert to_json(from_json(MetadataChangeSpec, to_json(sent))) == to_json(sent)


@pytest.mark.parametrize(("age", "is_made"), [(None, False), (30, False), (90, True)])
def test_another_age_of_a_tag_that_stays_is_not_made_before_the_tag_has_it(age: int | None, is_made: bool) -> None:
    move = RefMove(name="daily", kind="tag", snapshot="1", max_age_ms=90)
    there = Reference(name="daily", snapshot="1", is_branch=False, max_ref_age=age)
    table = replace(table_of(Snapshot(id="1", parent=None, at=0)), references={"daily": there})
    assert MetadataChange(table_uuid=table.uuid, moved_refs=(move,)).is_made(table) is is_made
