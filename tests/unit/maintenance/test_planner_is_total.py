"""Whatever health and policy say, there is a plan; more debt takes no action away, and a paused table has none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionPolicy,
    CompactionStrategy,
    ExpiryPolicy,
    MaintenancePolicy,
    ManifestPolicy,
    OrphanMode,
    OrphanPolicy,
    RowExpiryPolicy,
    TagPolicy,
)
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.maintenance.health import (
    DeleteDebt,
    FileSizes,
    ManifestSizes,
    OrphanCount,
    PartitionDeletes,
    TableHealth,
)
from airflow_lake_provider.maintenance.history import MaintenanceRun, SnapshotAges
from airflow_lake_provider.maintenance.hot_partitions import HotPartition
from airflow_lake_provider.maintenance.packing import ranked
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import ORDER, plan_of

FIRST, LAST = datetime(1970, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001  # hypothesis adds the zone
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
counts = st.one_of(st.none(), st.integers(0, 300), st.integers(-5, 2**64))
shares = st.one_of(st.none(), st.floats(0, 1), st.floats(-1e9, 1e9))
moments = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
near = st.integers(-10_000, 100_000).map(lambda minutes: NOW - timedelta(minutes=minutes))
texts = st.sampled_from(["a", "day=1", "id", "x y", "`id`", ""])

deletes = st.builds(
    DeleteDebt,
    **dict.fromkeys(("delete_files", "deleted_rows", "vector_deletes", "equality_deletes"), counts),
    dangling_files=counts,
    deleted_share=shares,
    partitions=st.lists(st.builds(PartitionDeletes, partition=texts, deleted_share=st.floats(-1, 2)), max_size=2).map(
        tuple
    ),
)
sizes = st.builds(
    FileSizes,
    **dict.fromkeys(("data_files", "data_bytes", "small_files", "small_bytes", "mergeable_files"), counts),
    target_bytes=st.integers(-1, 2**64),
    mergeable_in_groups=counts,
    sorted_by=st.one_of(st.none(), texts),
    sorted_share=shares,
)
hot = st.builds(
    HotPartition,
    partition=texts,
    commits=st.integers(0, 9),
    newest=st.one_of(near, moments),
    mergeable_files=counts,
    outside=st.one_of(st.none(), st.just("day <> 1")),
)
healths = st.builds(
    TableHealth,
    table=st.sampled_from(["a.b", "shop.orders"]),
    read_at=moments,
    error=st.one_of(st.none(), st.none(), st.none(), texts),
    score=st.one_of(st.none(), st.integers(0, 100)),
    manifests_read=st.booleans(),
    snapshot=st.one_of(st.none(), st.just("1"), st.just("1")),
    files=st.one_of(st.none(), sizes, sizes),
    deletes=st.one_of(st.none(), deletes, deletes),
    manifests=st.one_of(
        st.none(), st.builds(ManifestSizes, manifests=counts, bytes=counts, mergeable=counts, overlap=shares)
    ),
    snapshots=st.one_of(st.none(), st.builds(SnapshotAges, expirable=st.integers(-5, 2**40))),
    metadata_bytes=counts,
    hot_partitions=st.lists(hot, max_size=2).map(tuple),
    last_maintenance=st.dictionaries(
        st.sampled_from(["compaction", "replace"]), st.builds(MaintenanceRun, snapshot=texts, at=near), max_size=2
    ),
    last_data_commit=st.one_of(st.none(), moments),
    orphans=st.one_of(st.none(), st.builds(OrphanCount, files=st.just(1), bytes=st.just(1), counted_at=moments)),
    tags=st.lists(st.sampled_from(["daily-2026-11-26", "x"]), max_size=2).map(tuple),
    obstacles=st.dictionaries(st.sampled_from(["compaction", "snapshot-expiry", "remove-orphans"]), texts, max_size=1),
)
fractions = st.floats(0.001, 1)
spans = st.one_of(
    st.integers(1, 10**6).map(lambda minutes: timedelta(minutes=minutes)), st.just(timedelta(days=36_500))
)
many = st.one_of(st.integers(1, 50), st.just(10**9))
compactions = st.builds(
    CompactionPolicy,
    enabled=st.booleans(),
    level=st.sampled_from(CompactionLevel),
    small_file_share=fractions,
    min_input_files=many,
    deleted_share=fractions,
    delete_files_per_data_file=st.floats(0, 1),
    target_file_size=st.one_of(st.none(), st.integers(1, 2**40)),
    strategy=st.sampled_from(CompactionStrategy),
    sort_by=st.lists(st.sampled_from(["id", "day DESC"]), min_size=1, max_size=2),
    sorted_share=fractions,
    hot_within=spans,
)
policies = st.builds(
    MaintenancePolicy,
    paused=st.booleans(),
    compaction=compactions,
    expiry=st.builds(
        ExpiryPolicy,
        enabled=st.booleans(),
        older_than=st.one_of(st.none(), spans),
        retain_last=st.one_of(st.none(), many),
        min_snapshots=many,
    ),
    manifests=st.builds(ManifestPolicy, enabled=st.booleans(), mergeable=many, overlap=fractions),
    orphans=st.builds(
        OrphanPolicy, mode=st.sampled_from(OrphanMode), every=spans.map(lambda each: min(each, timedelta(days=90)))
    ),
    row_expiry=st.one_of(
        st.just(RowExpiryPolicy()),
        st.builds(RowExpiryPolicy, column=st.just("day"), keep=spans.map(lambda each: max(each, timedelta(days=1)))),
    ),
    tags=st.builds(TagPolicy, **{name: st.integers(0, 1_000) for name in ("daily", "weekly", "monthly")}),
    major_hours=st.one_of(st.none(), st.sampled_from(["22-6", "6-22", "0-24", "23-0"])),
    priority=st.integers(-3, 3),
)


def names(plan: TablePlan) -> list[str]:
    return [each.action for each in plan.actions]


@settings(max_examples=100, deadline=None)
@given(healths, policies, st.one_of(near, moments))
def test_any_health_and_policy_have_one_plan_with_each_action_in_it(
    health: TableHealth, policy: MaintenancePolicy, now: datetime
) -> None:
    made = plan_of(health, policy, now)
    assert plan_of(health, policy, now) == made
    assert TablePlan.from_json(made.to_json()) == made
    assert {*names(made), *(each.action for each in made.not_planned)} == set(ORDER)
    assert names(made) == sorted(names(made), key=ORDER.index)
    for action in made.actions:
        assert written_task(action.task, "task").table == health.table
        assert action.reasons
        assert action.effect.core_seconds > 0
        assert min(action.benefit, action.rank, action.effect.bytes_rewritten, action.effect.files_removed) >= 0
    for step in made.not_planned:
        assert step.why
        assert step.instead
    if policy.paused or health.error is not None or health.snapshot is None:
        assert not made.actions
    assert ranked([made, made]) == [made, made]


# What a writer can pile up. Each is raised by itself; the files of the table stay.
DEBTS: dict[str, Any] = {
    "mergeable": lambda health, more: replace(
        health,
        files=health.files
        and replace(
            health.files,
            mergeable_files=(health.files.mergeable_files or 0) + more,
            mergeable_in_groups=(health.files.mergeable_in_groups or health.files.mergeable_files or 0) + more,
        ),
    ),
    "equality": lambda health, more: _deletes(health, "equality_deletes", more),
    "delete files": lambda health, more: _deletes(health, "delete_files", more),
    "share": lambda health, more: _deletes(health, "deleted_share", more),
    "expirable": lambda health, more: replace(
        health,
        snapshots=health.snapshots and replace(health.snapshots, expirable=health.snapshots.expirable + more),
    ),
    "metadata": lambda health, more: replace(health, metadata_bytes=(health.metadata_bytes or 0) + more),
}


def _deletes(health: TableHealth, name: str, more: int) -> TableHealth:
    debt = health.deletes
    raised: dict[str, Any] = {name: (getattr(debt, name) or 0) + more} if debt else {}
    return replace(health, deletes=debt and replace(debt, **raised))


@settings(max_examples=100, deadline=None)
@given(healths, policies, st.sampled_from(sorted(DEBTS)), st.integers(1, 10**9))
def test_more_debt_takes_no_action_away(health: TableHealth, policy: MaintenancePolicy, debt: str, more: int) -> None:
    before = plan_of(health, policy, NOW)
    after = plan_of(DEBTS[debt](health, more), policy, NOW)
    assert set(names(before)) <= set(names(after))


@settings(max_examples=50, deadline=None)
@given(policies.map(lambda policy: replace(policy, tags=TagPolicy())))
def test_a_well_table_has_nothing_to_do_by_any_policy(policy: MaintenancePolicy) -> None:
    well = TableHealth(
        table="a.b",
        read_at=NOW,
        snapshot="1",
        score=100,
        manifests_read=True,
        files=FileSizes(
            target_bytes=512,
            data_files=9,
            data_bytes=9000,
            mergeable_files=0,
            mergeable_in_groups=0,
            sorted_by="id",
            sorted_share=1.0,
        ),
        deletes=DeleteDebt(delete_files=0, deleted_rows=0, deleted_share=0.0, equality_deletes=0, dangling_files=0),
        manifests=ManifestSizes(manifests=1, bytes=1, mergeable=0),
        snapshots=SnapshotAges(snapshots=1, expirable=0),
        orphans=OrphanCount(files=0, bytes=0, counted_at=NOW),
    )
    assert plan_of(well, policy, NOW).actions == ()
