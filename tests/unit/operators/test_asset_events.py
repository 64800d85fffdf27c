"""One commit, one event: which outlets of a task get one, and what is in it. Tables are real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG, Asset, task_group
from pyiceberg.table import Table

from airflow_lake_provider.assets.lake_table import lake_table_asset, snapshot_event
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    IncrementalReport,
    JobReport,
    Outcome,
    RowExpiryReport,
    UpsertReport,
)
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.operators.asset_events import TaskWithOutlets, announce
from airflow_lake_provider.operators.task_run import UNTOLD, TaskRun
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.run_of_tests import NO_SPARK, StateStore

if TYPE_CHECKING:
    from airflow.sdk import Context

RUN_KEY = "0123456789abcdef"
FOREIGN = Asset(name="dashboard", uri="https://bi.example.com/revenue")


def announce_one(job: TaskWithOutlets, found: JobReport, context: Context) -> None:
    announce(job, {(found.table, getattr(job, "branch", None) or "main"): [found]}, context)


def task(*outlets: Asset, **arguments: Any) -> LakeUpsertOperator:
    given = {"table": "shop.orders", "source": "in/*.csv", "keys": ["id"], **arguments}
    return LakeUpsertOperator(task_id="orders", outlets=list(outlets), **given)


def report(
    cls: type[JobReport] = UpsertReport, *, before: int | None = None, committed: int | None = None
) -> JobReport:
    return cls(
        table="shop.orders",
        outcome=Outcome.APPLIED,
        reason="",
        run_key=RUN_KEY,
        before=TableState(snapshot=str(before)) if before is not None else None,
        committed=(str(committed),) if committed is not None else (),
    )


@pytest.mark.parametrize("cls", [UpsertReport, IncrementalReport, RowExpiryReport])
def test_a_commit_of_rows_is_told_once_in_the_words_of_the_watcher(
    orders: Table, append: Callable[..., int], context: Context, cls: type[JobReport]
) -> None:
    asset = lake_table_asset("shop.orders")
    job = task(asset, FOREIGN)
    before, committed = append(orders, 1), append(orders, 2, 3)
    append(orders, 4)
    announce_one(job, report(cls, before=before, committed=committed), context)
    assert job.outlets == [asset, FOREIGN]
    assert list(context["outlet_events"]) == [asset]
    extra: dict[str, Any] = context["outlet_events"][asset].extra
    assert {name: extra[name] for name in ("table", "branch", "snapshot_id", "previous_snapshot_id", "run_key")} == {
        "table": "shop.orders",
        "branch": "main",
        "snapshot_id": str(committed),
        "previous_snapshot_id": str(before),
        "run_key": "0123456789abcdef",
    }
    assert extra["commits"] == 1
    assert extra["counts"]["added-records"] == 2


def test_the_first_commit_of_a_table_follows_nothing(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    asset = lake_table_asset("shop.orders")
    announce_one(task(asset), report(committed=append(orders, 1)), context)
    assert context["outlet_events"][asset].extra["previous_snapshot_id"] is None


def committed_by_an_earlier_try(orders: Table) -> int | None:
    """Commit a row with the run key of the reports here, and return the snapshot."""
    orders.append(pa.table({"id": pa.array([2], pa.int64())}), snapshot_properties={"lake.run-key": RUN_KEY})
    return orders.metadata.current_snapshot_id


def test_a_retry_tells_of_what_the_try_before_it_committed_and_a_cleared_task_does_not(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    asset = lake_table_asset("shop.orders")
    before = append(orders, 1)
    committed = committed_by_an_earlier_try(orders)
    applied = replace(report(before=committed, committed=committed), outcome=Outcome.ALREADY_APPLIED)
    context["ti"].try_number, context["ti"].max_tries = 2, 1
    announce_one(task(asset, retries=1), applied, context)
    told = context["outlet_events"][asset].extra
    assert (told["snapshot_id"], told["previous_snapshot_id"]) == (str(committed), str(before))

    context["ti"].max_tries = 2
    cleared = task(asset, retries=1)
    announce_one(cleared, applied, context)
    assert cleared.outlets == []


@pytest.mark.parametrize(("submitted_by", "is_told"), [("try 2", True), ("try 3", False), (None, False)])
def test_a_cleared_task_tells_of_what_a_failed_try_before_the_clearing_committed(
    orders: Table, append: Callable[..., int], context: Context, submitted_by: str | None, is_told: bool
) -> None:
    asset = lake_table_asset("shop.orders")
    before = append(orders, 1)
    committed = committed_by_an_earlier_try(orders)
    applied = replace(report(before=before, committed=committed), outcome=Outcome.ALREADY_APPLIED)
    StateStore.of(context, **({UNTOLD: submitted_by} if submitted_by else {}))
    context["ti"].try_number, context["ti"].max_tries = 3, 3
    cleared = task(asset, retries=1)
    announce_one(cleared, applied, context)
    assert (cleared.outlets == [asset], len(context["outlet_events"])) == (is_told, int(is_told))


@pytest.mark.parametrize("committed_since", [True, False])
def test_a_second_driver_of_a_first_try_tells_of_what_the_first_driver_committed(
    orders: Table, append: Callable[..., int], context: Context, committed_since: bool
) -> None:
    asset = lake_table_asset("shop.orders")
    append(orders, 1)
    context["ti"].try_number, context["ti"].max_tries = 1, 1
    job = task(asset, retries=1)
    (one,) = job._tasks = job.table_tasks(context)
    run_key = one.known_spec.run.run_key("", ())

    def commit() -> str:
        orders.append(pa.table({"id": pa.array([2], pa.int64())}), snapshot_properties={"lake.run-key": run_key})
        return str(orders.metadata.current_snapshot_id)

    committed = "" if committed_since else commit()
    one.look_before_submission(None)
    job.forget_catalog()
    repeat = replace(report(), outcome=Outcome.ALREADY_APPLIED, run_key=run_key, committed=(committed or commit(),))
    one.take(repeat)
    job.tell([one], context)
    assert one.is_repeated is not committed_since
    assert (job.outlets == [asset], len(context["outlet_events"])) == (committed_since, int(committed_since))


@pytest.mark.usefixtures("pushed")
def test_a_cleared_task_that_finds_nothing_new_tells_once_of_what_the_failed_try_committed(
    orders: Table, append: Callable[..., int], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = lake_table_asset("shop.orders")
    append(orders, 1)
    who = task(retries=0).build_spec(context).run
    orders.append(
        pa.table({"id": pa.array([2], pa.int64())}), snapshot_properties={"lake.run-key": who.run_key("", ())}
    )
    nothing_new = replace(report(), outcome=Outcome.NOTHING_NEW, run_key=None)
    StateStore.of(context, **{UNTOLD: "try 1"})
    outlets = []
    for cleared in (1, 2):
        context["ti"].try_number, context["ti"].max_tries = cleared + 1, cleared
        job = task(asset, retries=0, **NO_SPARK)
        monkeypatch.setattr(job.action, "report_without_spark", lambda *_: nothing_new)
        job.execute(context)
        outlets.append(job.outlets)
    assert outlets == [[asset], []]
    assert context["outlet_events"][asset].extra["snapshot_id"] == str(orders.metadata.current_snapshot_id)


def test_a_try_is_untold_from_its_submission_until_a_try_has_told(context: Context) -> None:
    def try_of(try_number: int, max_tries: int) -> TaskRun:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return TaskRun(context, retries=0)

    StateStore.of(context)
    first = try_of(1, 0)
    first.note_submission()
    assert not first.may_be_untold
    # The first one failed, was cleared, and was cleared again while it ran.
    for number in (2, 3):
        cleared = try_of(number, number - 1)
        assert cleared.may_be_untold
        cleared.note_submission()
    cleared.note_told()
    assert not try_of(4, 3).may_be_untold


@pytest.mark.parametrize("retries", [1, 0])
def test_a_retry_tells_of_an_untold_commit_though_its_author_has_lowered_the_retries(
    context: Context, retries: int
) -> None:
    StateStore.of(context)
    # Its max_tries is the number of its tries so far and the retries of now, as after a clearing.
    context["ti"].max_tries = 3
    for number in range(1, 4 - retries):
        context["ti"].try_number = number
        TaskRun(context, retries=3).note_submission()
    context["ti"].try_number += 1
    run = TaskRun(context, retries)
    run.note_submission()
    assert run.may_be_untold


def test_the_first_try_of_a_task_follows_none_and_asks_no_store(context: Context) -> None:
    asked = []

    class Asked(StateStore):
        def get(self, key: str, default: Any = None) -> Any:
            asked.append(key)
            return default

    Asked.of(context)
    context["ti"].try_number, context["ti"].max_tries = 1, 2
    assert not TaskRun(context, retries=2).may_be_untold
    assert asked == []


def test_without_a_store_of_the_tasks_state_a_cleared_task_has_told(context: Context) -> None:
    context["ti"].try_number, context["ti"].max_tries = 2, 1
    run = TaskRun(context, retries=0)
    run.note_submission()
    run.note_told()
    assert not run.may_be_untold


def silent(cls: type[JobReport], committed: bool) -> Any:
    return pytest.param(cls, committed, id=f"{cls.action}{' committed' if committed else ''}")


@pytest.mark.parametrize(
    ("cls", "committed"),
    [
        silent(UpsertReport, committed=False),
        silent(IncrementalReport, committed=False),
        silent(CompactionReport, committed=True),
        silent(ExpiryReport, committed=False),
    ],
)
def test_where_no_rows_were_committed_only_other_outlets_stay(
    orders: Table, append: Callable[..., int], context: Context, cls: type[JobReport], committed: bool
) -> None:
    job = task(lake_table_asset("shop.orders"), FOREIGN, lake_table_asset("shop.others"))
    before, after = append(orders, 1), append(orders, 2)
    announce_one(job, report(cls, before=before, committed=after if committed else None), context)
    assert [outlet.uri for outlet in job.outlets] == [FOREIGN.uri, "iceberg://lake_default/shop/others"]
    assert not len(context["outlet_events"])


def test_a_watched_asset_hears_of_it_from_its_watcher_alone(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    job = task(lake_table_asset("shop.orders", watch=True), FOREIGN)
    announce_one(job, report(committed=append(orders, 1)), context)
    assert job.outlets == [FOREIGN]
    assert not len(context["outlet_events"])


def test_a_commit_to_a_branch_is_a_new_snapshot_of_the_branchs_asset(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    on_main, on_branch = lake_table_asset("shop.orders"), lake_table_asset("shop.orders", branch="audit")
    base = append(orders, 1)
    orders.manage_snapshots().create_branch(base, "audit").commit()
    committed = append(orders, 2, branch="audit")
    announce_one(task(on_branch, branch="audit"), report(before=base, committed=committed), context)
    assert context["outlet_events"][on_branch].extra["branch"] == "audit"
    assert on_main not in list(context["outlet_events"])


def test_an_event_of_ours_is_read_like_one_of_the_watcher(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    asset = lake_table_asset("shop.orders")
    committed = append(orders, 1)
    announce_one(task(asset), report(committed=committed), context)
    assert snapshot_event(context["outlet_events"][asset])["snapshot_id"] == str(committed)


def mapped_task(*outlets: Asset, **expanded: list[Any]) -> LakeUpsertOperator:
    """The first instance of a task that is mapped over these arguments, as a worker makes it."""
    shared = {"table": "shop.orders", "source": "in/*.csv", "keys": ["id"]}
    for name in expanded:
        shared.pop(name, None)
    with DAG("mapped", schedule=None) as dag:
        LakeUpsertOperator.partial(task_id="orders", outlets=list(outlets), **shared).expand(**expanded)
    found: Any = dag.task_dict["orders"]
    made: LakeUpsertOperator = found.unmap({name: values[0] for name, values in expanded.items()})
    return made


@pytest.mark.parametrize("written_by_hand", [False, True])
def test_a_task_that_is_mapped_over_tables_tells_of_its_own_table_alone(
    orders: Table, append: Callable[..., int], context: Context, written_by_hand: bool
) -> None:
    names = ["orders", "others", "customers"]
    assets = [lake_table_asset(f"shop.{name}") for name in names]
    if written_by_hand:
        assets = [Asset(f"iceberg://lake_default/shop/{name}") for name in names]
    job = mapped_task(*assets, FOREIGN, table=["shop.orders", "shop.others"])
    announce_one(job, report(committed=append(orders, 1)), context)
    assert job.outlets == [assets[0], FOREIGN]
    assert list(context["outlet_events"]) == [assets[0]]


def test_a_task_that_is_mapped_over_tables_and_commits_nothing_tells_of_no_table(
    orders: Table, context: Context
) -> None:
    assets = [lake_table_asset("shop.orders"), lake_table_asset("shop.others")]
    job = mapped_task(*assets, FOREIGN, table=["shop.orders", "shop.others"])
    announce_one(job, report(), context)
    assert job.outlets == [FOREIGN]


def test_a_task_that_is_mapped_over_something_else_keeps_its_other_outlets(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    assets = [lake_table_asset("shop.orders"), lake_table_asset("shop.others")]
    job = mapped_task(*assets, source=["in/a*.csv", "in/b*.csv"])
    announce_one(job, report(committed=append(orders, 1)), context)
    assert job.outlets == assets


def in_mapped_group(*outlets: Asset, **given: Any) -> LakeUpsertOperator:
    """A task of a group that is expanded over tables: no mapped task, and the group's argument is resolved in it."""
    with DAG("mapped", schedule=None) as dag:

        @task_group
        def of_table(table: str) -> None:
            task(*outlets, **{"table": table, **given})

        of_table.expand(table=["shop.orders", "shop.others"])
    found: Any = dag.get_task("of_table.orders")
    made: LakeUpsertOperator = found
    return made


@pytest.mark.parametrize("make", [in_mapped_group, task], ids=["mapped group", "template"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_task_whose_table_the_run_says_tells_of_this_table_alone(
    orders: Table, append: Callable[..., int], context: Context, make: Callable[..., LakeUpsertOperator], is_new: bool
) -> None:
    assets = [lake_table_asset("shop.orders"), lake_table_asset("shop.others")]
    job = make(*assets, FOREIGN, **({"table": "shop.{{ params.table }}"} if make is task else {}))
    # As Airflow renders it.
    job.table = "shop.orders"
    announce_one(job, report(committed=append(orders, 1) if is_new else None), context)
    assert job.outlets == ([assets[0], FOREIGN] if is_new else [FOREIGN])


def test_a_task_of_a_mapped_group_that_names_its_table_keeps_its_other_outlets(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    assets = [lake_table_asset("shop.orders"), lake_table_asset("shop.others")]
    job = in_mapped_group(*assets, table="shop.orders")
    announce_one(job, report(committed=append(orders, 1)), context)
    assert job.outlets == assets


@pytest.mark.parametrize("branches", ["{{ params.branch }}", ["audit", "stage"]], ids=["template", "mapped"])
def test_a_task_whose_branch_the_run_says_tells_of_this_branch_alone(
    orders: Table, append: Callable[..., int], context: Context, branches: Any
) -> None:
    assets = [lake_table_asset("shop.orders", branch=branch) for branch in ("main", "audit", "stage")]
    job = task(*assets, branch=branches) if isinstance(branches, str) else mapped_task(*assets, branch=branches)
    job.branch = "audit"
    base = append(orders, 1)
    orders.manage_snapshots().create_branch(base, "audit").commit()
    committed = append(orders, 2, branch="audit")
    announce_one(job, report(before=base, committed=committed), context)
    assert job.outlets == [assets[1]]


@pytest.mark.parametrize("authority", [None, "corp-lake", "anything"])
def test_the_outlet_of_a_table_is_recognised_by_any_authority(
    orders: Table, append: Callable[..., int], context: Context, authority: str | None
) -> None:
    asset = lake_table_asset("shop.orders", authority=authority)
    job = task(asset)
    announce_one(job, report(committed=append(orders, 1)), context)
    assert context["outlet_events"][asset].extra["table"] == "shop.orders"


def test_a_task_without_outlets_asks_the_catalog_nothing(lake_connection: str, context: Context) -> None:
    job = task(FOREIGN)
    announce_one(job, report(committed=1), context)
    assert job.outlets == [FOREIGN]
