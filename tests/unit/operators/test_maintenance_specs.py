"""Operators of compaction and expiry build the specs that they should, and answer from metadata without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.table import Table

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.orphan_files import LakeRemoveOrphanFilesOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.operators.submitted import report_without_spark

if TYPE_CHECKING:
    from airflow.sdk import Context


def test_a_cleared_compaction_is_somebody_new_and_a_retry_is_not(lake_connection: str, context: Context) -> None:
    job = LakeCompactionOperator(task_id="t", table="shop.orders", level="full", retries=1)

    def who(try_number: int, max_tries: int) -> str:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return job.build_spec(context).run.who

    # What it has written is left out by its retries. Cleared, it is asked for all of the table again.
    assert who(1, 1) == who(2, 1) != who(3, 3)


def test_a_compaction_takes_rendered_texts(lake_connection: str, context: Context) -> None:
    job = LakeCompactionOperator(
        task_id="t", table="shop.orders", level="full", strategy="sort", sort_by=["id"], where=""
    )
    spec = job.build_spec(context)
    assert (spec.level, spec.sort_by, spec.where) == (CompactionLevel.FULL, ("id",), None)


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        *((LakeCompactionOperator, name) for name in ("max_commits", "min_input_files", "delete_file_threshold")),
        (LakeSnapshotExpiryOperator, "retain_last"),
    ],
)
def test_a_count_that_iceberg_cannot_hold_is_refused_when_the_dag_is_parsed(operator: Any, name: str) -> None:
    operator(task_id="most", table="shop.orders", **{name: 2**31 - 1})
    with pytest.raises(InvalidSpecError, match=f"{name} must be at most 2147483647, got 2147483648"):
        operator(task_id="more", table="shop.orders", **{name: 2**31})


@pytest.fixture
def fragmented(orders: Table, append: Callable[..., int]) -> Table:
    """Six files, six snapshots."""
    for number in range(6):
        append(orders, number)
    return orders


@pytest.mark.parametrize("dry_run", [True, "True"])
def test_a_dry_run_of_a_compaction_counts_the_files(fragmented: Table, context: Context, dry_run: bool | str) -> None:
    job = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run=dry_run, **NO_SPARK)
    plain = job.execute(context)
    assert (plain["outcome"], plain["files_rewritten"]) == ("planned", 6)
    assert plain["before"]["snapshot"] == str(fragmented.metadata.current_snapshot_id)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strategy": "sort"}, "strategy 'sort' needs an order, and the table has none"),
        ({"strategy": "zorder", "sort_by": ["idd"]}, "sort_by names columns that the table lacks"),
    ],
)
def test_a_dry_run_is_refused_what_its_run_is(
    fragmented: Table, context: Context, arguments: dict[str, Any], words: str, dry_run: bool
) -> None:
    job = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run=dry_run, **arguments, **NO_SPARK)
    with pytest.raises(AirflowFailException, match=words):
        job.execute(context)


COMMITS = ("compaction", "rewrite-manifests", "snapshot-expiry", "expire-rows", "compute-statistics")
OF_FILES = ("compaction", "expire-rows")


@pytest.mark.parametrize(
    ("name", "value", "actions"),
    [
        ("commit.retry.num-retries", "3000000000", COMMITS),
        ("commit.retry.num-retries", " 4 ", COMMITS),
        ("commit.retry.total-timeout-ms", "3000000000", COMMITS),
        ("write.metadata.previous-versions-max", "3000000000", COMMITS),
        ("commit.manifest.min-count-to-merge", "9999999999", OF_FILES),
        ("write.summary.partition-limit", "few", OF_FILES),
        ("commit.retry.num-retries", "-1", ()),
        ("commit.status-check.num-retries", "many", ()),
        ("write.distribution-mode", "any", ()),
    ],
)
def test_a_setting_that_iceberg_cannot_read_is_refused_before_files_are_written_in_vain(
    fragmented: Table, context: Context, name: str, value: str, actions: tuple[str, ...]
) -> None:
    with fragmented.transaction() as change:
        change.set_properties({name: value})
    broken = {action: LoadedIcebergTable(fragmented).broken_setting(action) for action in COMMITS}
    assert {action for action, why in broken.items() if why} == set(actions)
    for dry_run in (True, False):
        job = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run=dry_run, **NO_SPARK)
        if "compaction" in actions:
            with pytest.raises(AirflowFailException, match=f"shop.orders: property '{name}' is "):
                job.execute(context)
        else:
            report = report_without_spark(job, job.build_spec(context))
            assert (report is not None) == dry_run


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_setting_that_iceberg_cannot_read_is_in_no_way_where_nothing_is_due(
    orders: Table, append: Callable[..., int], context: Context, dry_run: bool
) -> None:
    append(orders, 1)
    with orders.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "3000000000"})
    job = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run=dry_run, **NO_SPARK)
    assert job.execute(context)["outcome"] == "nothing-due"


def test_a_compaction_with_work_is_for_spark(fragmented: Table, context: Context) -> None:
    job = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run="False", **NO_SPARK)
    assert report_without_spark(job, job.build_spec(context)) is None


def test_a_healthy_table_costs_no_spark(orders: Table, append: Callable[..., int], context: Context) -> None:
    append(orders, 1)
    for job in (
        LakeCompactionOperator(task_id="c", table="shop.orders", **NO_SPARK),
        LakeSnapshotExpiryOperator(task_id="e", table="shop.orders", **NO_SPARK),
    ):
        assert job.execute(context)["outcome"] == "nothing-due"


def test_a_dry_run_of_an_expiry_names_the_snapshots(fragmented: Table, context: Context) -> None:
    job = LakeSnapshotExpiryOperator(
        task_id="t",
        table="shop.orders",
        older_than="PT0.000001S",
        retain_last="2",
        minimum_age=timedelta(0),
        dry_run="true",
        **NO_SPARK,
    )
    plain = job.execute(context)
    oldest_first = sorted(fragmented.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    assert plain["outcome"] == "planned"
    assert set(plain["snapshots_expired"]) == {str(snapshot.snapshot_id) for snapshot in oldest_first[:-2]}


@pytest.mark.parametrize("name", ["older_than", "stage_branches_older_than"])
@pytest.mark.parametrize("age", ["PT1S", "PT23H", timedelta(hours=23)])
def test_what_is_younger_than_a_day_is_not_removed_unless_the_code_says_so(
    orders: Table, context: Context, name: str, age: timedelta | str
) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} is .*, less than minimum_age=1 day"):
        LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", **{name: age}, **NO_SPARK)  # type: ignore[arg-type]  # by name
    job = LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", **{name: "{{ params.age }}"}, **NO_SPARK)  # type: ignore[arg-type]  # by name
    setattr(job, name, age)
    with pytest.raises(AirflowFailException, match=rf"{name} is .*, less than minimum_age=1 day"):
        job.execute(context)
    lower: Any = {name: age, "minimum_age": timedelta(seconds=1)}
    assert isinstance(
        LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", **lower).build_spec(context), SnapshotExpirySpec
    )
    assert "minimum_age" not in LakeSnapshotExpiryOperator.template_fields
    for wrong in ("PT1S", "{{ params.age }}", timedelta(seconds=-1)):
        with pytest.raises(InvalidSpecError, match=r"minimum_age (?:must be a timedelta|is not templated)"):
            LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", minimum_age=wrong)  # type: ignore[arg-type]  # wrong


@pytest.mark.parametrize("table", ["mart.orders", "shop_orders.x", "my.shop.orders", "SHOP.orders"])
def test_a_table_that_no_pattern_allows_is_refused_as_it_was_rendered(context: Context, table: str) -> None:
    job = LakeCompactionOperator(task_id="t", table=table, allowed_tables=["shop.*", "raw.web_?"], **NO_SPARK)
    with pytest.raises(AirflowFailException, match=r"none of those that this task may work on: shop\.\*, raw\.web_\?"):
        job.execute(context)
    assert "allowed_tables" not in LakeCompactionOperator.template_fields


@pytest.mark.parametrize("wrong", ["shop.*", ["shop.*", ""], [None], 5])
def test_patterns_of_tables_are_not_asked_for_as_columns(wrong: Any) -> None:
    expected = r"allowed_tables must be a list of patterns of table names, such as \['shop\.\*'\], got"
    with pytest.raises(InvalidSpecError, match=expected):
        LakeCompactionOperator(task_id="t", table="shop.orders", allowed_tables=wrong)


@pytest.mark.parametrize(
    ("operator", "given"),
    [
        (LakeSnapshotExpiryOperator, {"older_than": "P3000Y"}),
        (LakeSnapshotExpiryOperator, {"older_than": timedelta(days=999_999)}),
        (LakeSnapshotExpiryOperator, {"stage_branches_older_than": "P3000Y"}),
        (LakeSnapshotExpiryOperator, {"flink_jobs_older_than": timedelta(days=999_999)}),
        (LakeRemoveOrphanFilesOperator, {"older_than": "P3000Y"}),
        (LakeRemoveOrphanFilesOperator, {"quarantine_for": timedelta(days=999_999)}),
        (LakeRemoveOrphanFilesOperator, {"flink_jobs_older_than": "P3000Y"}),
    ],
)
def test_an_age_that_leads_to_no_moment_of_the_calendar_is_refused_when_it_is_given(
    operator: Any, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSpecError, match=f"{next(iter(given))} must be at most P36500D, got P"):
        operator(task_id="t", table="shop.orders", **given)


@pytest.mark.parametrize("older_than", [timedelta(days=5), "P5D", pendulum.duration(days=5)])
def test_the_cutoff_of_an_expiry_is_fixed_when_the_task_runs(
    lake_connection: str, context: Context, older_than: timedelta | str
) -> None:
    spec = LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", older_than=older_than).build_spec(context)
    assert isinstance(spec, SnapshotExpirySpec)
    assert spec.expire_before is not None
    assert abs(datetime.now(UTC) - timedelta(days=5) - spec.expire_before) < timedelta(minutes=1)
    assert spec.expire_before.tzinfo is not None


@pytest.mark.parametrize("nothing", [None, ""])
def test_what_an_author_or_a_form_leaves_out_of_an_expiry_is_left_to_the_table(
    lake_connection: str, context: Context, nothing: str | None
) -> None:
    job = LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", older_than=nothing, retain_last=nothing)
    spec = job.build_spec(context)
    assert (spec.expire_before, spec.retain_last, spec.minimum_age) == (None, None, timedelta(days=1))
    assert spec.asked_at is not None
    assert abs(datetime.now(UTC) - spec.asked_at) < timedelta(minutes=1)
