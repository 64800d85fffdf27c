"""Plans as a table of cases: numbers of a table's health, and the actions and reasons that follow from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.specs.spec_codec import AUTHORED, written_task
from airflow_lake_provider.maintenance.health import (
    DeleteDebt,
    FileSizes,
    ManifestSizes,
    OrphanCount,
    PartitionDeletes,
    TableHealth,
)
from airflow_lake_provider.maintenance.history import HotPartition, MaintenanceRun, SnapshotAges
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import ORDER, plan_of

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
MIB = 1024**2
GIB = 1024**3
FILES = FileSizes(
    target_bytes=512 * MIB,
    data_files=100,
    data_bytes=40 * GIB,
    small_files=10,
    small_bytes=100 * MIB,
    mergeable_files=0,
    mergeable_in_groups=0,
)
NO_DELETES = DeleteDebt(delete_files=0, deleted_rows=0, deleted_share=0.0, equality_deletes=0, dangling_files=0)
WELL = TableHealth(
    table="shop.orders",
    read_at=NOW,
    score=100,
    format_version=2,
    snapshot="7",
    manifests_read=True,
    files=FILES,
    deletes=NO_DELETES,
    manifests=ManifestSizes(manifests=3, bytes=3000, mergeable=2),
    snapshots=SnapshotAges(snapshots=5, expirable=0),
)
SMALL = replace(FILES, small_files=60, mergeable_files=50, mergeable_in_groups=50, small_bytes=600 * MIB)
AGED: dict[str, Any] = {"row_expiry": {"column": "day", "keep": "P30D"}}
MANY = ManifestSizes(manifests=90, bytes=9000, mergeable=89, overlap=0.9)
VECTORS = DeleteDebt(delete_files=20, deleted_rows=900, vector_deletes=900, deleted_share=0.3, equality_deletes=0)


def hot(partition: str = "day=1", minutes: int = 5, **given: Any) -> HotPartition:
    return HotPartition(partition=partition, commits=3, newest=NOW - timedelta(minutes=minutes), **given)


def counted(days: int) -> OrphanCount:
    return OrphanCount(files=1, bytes=1, counted_at=NOW - timedelta(days=days))


COUNTS = {"orphans": {"mode": "dry-run"}}


def policy(**given: Any) -> MaintenancePolicy:
    return MaintenancePolicy.from_mapping(given, "policy")


def plan(health: TableHealth, **given: Any) -> TablePlan:
    return plan_of(health, policy(**given), NOW)


def in_short(plan: TablePlan) -> list[str]:
    """Return each action with its level and the names of its reasons."""
    return [
        " ".join(filter(None, (each.action, each.level, *(reason.name for reason in each.reasons))))
        for each in plan.actions
    ]


def left_out(plan: TablePlan, action: str) -> str:
    (only,) = [each for each in plan.not_planned if each.action == action]
    return f"{only.why} {only.instead}"


DUE: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("a well table", {}, {}, []),
    ("half of the files are mergeable", {"files": SMALL}, {}, ["compaction minor small-files"]),
    (
        "as many as the policy names",
        {"files": replace(SMALL, mergeable_in_groups=20)},
        {},
        ["compaction minor small-files"],
    ),
    ("one fewer", {"files": replace(SMALL, mergeable_in_groups=19)}, {}, []),
    ("orphans were counted a week ago", {"orphans": counted(days=7)}, COUNTS, ["remove-orphans orphans"]),
    ("orphans were never counted", {}, COUNTS, ["remove-orphans orphans"]),
    ("orphans were counted six days ago", {"orphans": counted(days=6)}, {"orphans": {"mode": "delete"}}, []),
    ("orphans are to go", {}, {"orphans": {"mode": "delete"}}, ["remove-orphans orphans"]),
    (
        "a stricter policy",
        {"files": replace(SMALL, mergeable_in_groups=6)},
        {"compaction": {"small_file_share": 0.05}},
        ["compaction minor small-files"],
    ),
    ("a laxer policy", {"files": SMALL}, {"compaction": {"small_file_share": 0.9}}, []),
    ("too few for a group", {"files": replace(SMALL, data_files=4, mergeable_in_groups=4)}, {}, []),
    (
        "enough for a smaller group",
        {"files": replace(SMALL, data_files=4, mergeable_in_groups=3)},
        {"compaction": {"min_input_files": 2}},
        ["compaction minor small-files"],
    ),
    ("pairs in many partitions", {"files": replace(SMALL, mergeable_files=50, mergeable_in_groups=0)}, {}, []),
    (
        "a tenth of the rows is deleted",
        {"deletes": replace(VECTORS, deleted_share=0.1)},
        {},
        ["compaction major deleted-rows"],
    ),
    ("less than a tenth", {"deletes": replace(VECTORS, deleted_share=0.09)}, {}, []),
    (
        "one partition of deletes",
        {
            "deletes": replace(
                VECTORS, deleted_share=0.01, partitions=(PartitionDeletes(partition="day=1", deleted_share=0.5),)
            )
        },
        {},
        ["compaction major partition-deletes"],
    ),
    (
        "an equality delete",
        {"deletes": replace(NO_DELETES, delete_files=1, equality_deletes=1)},
        {},
        ["compaction major equality-deletes"],
    ),
    (
        "deletes that lie on nothing",
        {"deletes": replace(NO_DELETES, delete_files=2, equality_deletes=1, dangling_files=2)},
        {},
        [],
    ),
    (
        "a delete file for each data file",
        {"deletes": replace(NO_DELETES, delete_files=100)},
        {},
        ["compaction major delete-files"],
    ),
    ("both debts", {"files": SMALL, "deletes": VECTORS}, {}, ["compaction major small-files deleted-rows"]),
    (
        "deletes, and a policy of minor",
        {"files": SMALL, "deletes": VECTORS},
        {"compaction": {"level": "minor"}},
        ["compaction minor small-files"],
    ),
    (
        "snapshots past their retention",
        {"snapshots": SnapshotAges(snapshots=50, expirable=20)},
        {},
        ["snapshot-expiry snapshots"],
    ),
    ("one fewer snapshot", {"snapshots": SnapshotAges(snapshots=50, expirable=19)}, {}, []),
    (
        "a large metadata.json",
        {"metadata_bytes": 3 * MIB, "snapshots": SnapshotAges(snapshots=10, expirable=1)},
        {},
        ["snapshot-expiry metadata-size"],
    ),
    (
        "a large metadata.json, and few snapshots of many may go",
        {"metadata_bytes": 3 * MIB, "snapshots": SnapshotAges(snapshots=50, expirable=4)},
        {},
        [],
    ),
    (
        "a large metadata.json, and a tenth of the snapshots may go",
        {"metadata_bytes": 3 * MIB, "snapshots": SnapshotAges(snapshots=50, expirable=5)},
        {},
        ["snapshot-expiry metadata-size"],
    ),
    ("a large metadata.json that has to stay", {"metadata_bytes": 3 * MIB}, {}, []),
    (
        "all of it",
        {"files": SMALL, "deletes": VECTORS, "snapshots": SnapshotAges(snapshots=90, expirable=80)},
        {"tags": {"daily": 7}},
        ["create-tag tag", "snapshot-expiry snapshots", "compaction major small-files deleted-rows"],
    ),
    ("many manifests", {"manifests": replace(MANY, overlap=0.1)}, {}, ["rewrite-manifests manifests"]),
    ("one fewer manifest", {"manifests": replace(MANY, mergeable=19, overlap=0.1)}, {}, []),
    ("manifests that overlap", {"manifests": replace(MANY, mergeable=0)}, {}, ["rewrite-manifests manifest-overlap"]),
    ("manifests beside a compaction", {"manifests": MANY, "files": SMALL}, {}, ["compaction minor small-files"]),
    (
        "manifests after an expiry",
        {"manifests": MANY, "snapshots": SnapshotAges(snapshots=50, expirable=20)},
        {},
        ["snapshot-expiry snapshots", "rewrite-manifests manifests manifest-overlap"],
    ),
    ("rows that go by their age", {"last_arrival": NOW}, AGED, ["expire-rows row-age"]),
    (
        "rows that arrived since the last expiry",
        {"last_arrival": NOW, "rows_expired_at": NOW - timedelta(days=1)},
        AGED,
        ["expire-rows row-age"],
    ),
    ("statistics that are missing", {}, {"statistics": {"every": "P7D"}}, ["compute-statistics statistics"]),
    (
        "statistics of some columns that are old",
        {"statistics_at": NOW - timedelta(days=7), "last_data_commit": NOW},
        {"statistics": {"every": "P7D", "columns": ["id"]}},
        ["compute-statistics statistics"],
    ),
    ("an age without a column", {"last_arrival": NOW}, {"row_expiry": {"keep": "P30D"}}, []),
    ("tags of three kinds", {}, {"tags": {"daily": 7, "weekly": 4, "monthly": 12}}, ["create-tag tag"] * 3),
    ("a tag that is there", {"tags": ("daily-2026-11-26",)}, {"tags": {"daily": 7}}, []),
    (
        "a sort that is due",
        {"files": replace(FILES, sorted_by="id", sorted_share=0.1)},
        {"compaction": {"level": "full", "strategy": "sort"}},
        ["compaction full order"],
    ),
    (
        "a sort that is not",
        {"files": replace(FILES, sorted_by="id", sorted_share=0.6)},
        {"compaction": {"level": "full", "strategy": "sort"}},
        [],
    ),
    (
        "a sort of a lower level",
        {"files": replace(SMALL, sorted_by="id", sorted_share=0.1)},
        {"compaction": {"strategy": "sort"}},
        ["compaction minor small-files"],
    ),
    (
        "a sort beside deletes",
        {"files": replace(FILES, sorted_by="id", sorted_share=0.1), "deletes": VECTORS},
        {"compaction": {"level": "full", "strategy": "sort"}},
        ["compaction full deleted-rows order"],
    ),
    (
        "a level of full without an order",
        {"files": SMALL},
        {"compaction": {"level": "full"}},
        ["compaction minor small-files"],
    ),
    (
        "summaries alone",
        {
            "files": FileSizes(target_bytes=MIB, data_files=100, data_bytes=MIB, mergeable_files=90),
            "manifests_read": False,
            "manifests": None,
        },
        {},
        ["compaction minor small-files"],
    ),
]


@pytest.mark.parametrize(("health", "given", "actions"), [case[1:] for case in DUE], ids=[case[0] for case in DUE])
def test_debts_past_the_policys_thresholds_become_actions(
    health: dict[str, Any], given: dict[str, Any], actions: list[str]
) -> None:
    assert in_short(plan(replace(WELL, **health), **given)) == actions


EVERYTHING: dict[str, Any] = {
    "files": SMALL,
    "deletes": VECTORS,
    "snapshots": SnapshotAges(snapshots=90, expirable=80),
    "manifests": MANY,
}
UNKNOWN_FILES = {"files": None}
NOT_DUE: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("paused", EVERYTHING, {"paused": True}, "compaction", "The policy pauses the table. Set paused to false"),
    (
        "broken",
        {"error": "BrokenMetadataError: it is gone"},
        {},
        "compaction",
        "cannot be read: BrokenMetadataError: it is gone Mend",
    ),
    (
        "a view",
        {"error": "UnsupportedError: shop.v is a view"},
        {},
        "snapshot-expiry",
        "UnsupportedError: shop.v is a view",
    ),
    ("empty", {"snapshot": None}, {}, "snapshot-expiry", "The table has no snapshot. Nothing is needed"),
    (
        "gc.enabled",
        {**EVERYTHING, "obstacles": {"snapshot-expiry": "gc.enabled is false"}},
        {},
        "snapshot-expiry",
        "rules it out: gc.enabled is false",
    ),
    (
        "gc.enabled, orphans",
        {"obstacles": {"snapshot-expiry": "gc.enabled is false"}},
        COUNTS,
        "remove-orphans",
        "rules it out: gc.enabled is false",
    ),
    (
        "columns that Spark lacks",
        {**EVERYTHING, "obstacles": {"compaction": "Spark has no type"}},
        {},
        "compaction",
        "rules it out: Spark has no type",
    ),
    ("nobody counted", UNKNOWN_FILES, {}, "compaction", "The number of data files is not known."),
    ("nobody counted snapshots", {"snapshots": None}, {}, "snapshot-expiry", "Nobody has counted the snapshots."),
    (
        "nothing due",
        {},
        {},
        "compaction",
        "0 of 100 data files would be gone by a merge; the threshold is 20%, and at least 5.",
    ),
    ("nothing due, snapshots", {}, {}, "snapshot-expiry", "0 snapshots are past their retention; the threshold is 20."),
    (
        "compaction is off",
        EVERYTHING,
        {"compaction": {"enabled": False}},
        "compaction",
        "The policy rewrites no files.",
    ),
    ("expiry is off", EVERYTHING, {"expiry": {"enabled": False}}, "snapshot-expiry", "The policy keeps all snapshots."),
    (
        "an age that an expiry refuses",
        EVERYTHING,
        {"expiry": {"older_than": "PT6H"}},
        "snapshot-expiry",
        "expiry.older_than is 6.0 hours; an expiry refuses less than a day. Set it to P1D",
    ),
    (
        "out of hours",
        {"deletes": VECTORS},
        {"major_hours": "22-6"},
        "compaction",
        "Level major is due, outside of its hours. It may begin at 22:00 UTC.",
    ),
    (
        "the level is too low",
        {"deletes": VECTORS},
        {"compaction": {"level": "minor"}},
        "compaction",
        (
            "30% of the rows are deleted; the threshold is 10%. The policy allows level minor. Set "
            "compaction.level to 'auto'"
        ),
    ),
    (
        "manifests that the table rules out",
        {"manifests": MANY, "obstacles": {"rewrite-manifests": "a broken number"}},
        {},
        "rewrite-manifests",
        "The table rules it out: a broken number.",
    ),
    (
        "manifests that overlap, and are sorted already",
        {
            "manifests": replace(MANY, mergeable=0),
            "last_maintenance": {"rewrite-manifests": MaintenanceRun(snapshot="7", at=NOW)},
        },
        {},
        "rewrite-manifests",
        "0 manifests would be gone by a merge; the threshold is 20. Nothing is due.",
    ),
    (
        "manifests, beside a compaction",
        EVERYTHING,
        {},
        "rewrite-manifests",
        "The compaction of this plan merges them at its end.",
    ),
    (
        "manifests are few",
        {},
        {},
        "rewrite-manifests",
        "2 manifests would be gone by a merge; the threshold is 20. Nothing is due.",
    ),
    ("manifests were not read", {"manifests": None}, {}, "rewrite-manifests", "were not counted"),
    (
        "manifests are left",
        EVERYTHING,
        {"manifests": {"enabled": False}},
        "rewrite-manifests",
        "The policy leaves manifests.",
    ),
    (
        "nobody asks for orphans, who once were counted",
        {"orphans": counted(days=70)},
        {},
        "remove-orphans",
        "The policy looks for no orphan files. Set orphans.mode to 'dry-run'",
    ),
    (
        "orphans were counted yesterday",
        {"orphans": OrphanCount(files=1, bytes=1, counted_at=NOW - timedelta(hours=30))},
        COUNTS,
        "remove-orphans",
        "counted 30.0 hours ago; the policy asks every 7.0 days. The next look is due in 5.8 days.",
    ),
    (
        "orphans are nobody's wish",
        {},
        {"orphans": {"mode": "off"}},
        "remove-orphans",
        "The policy looks for no orphan files.",
    ),
    ("rows stay", {}, {}, "expire-rows", "The policy lets no rows go by their age."),
    (
        "no rows arrived since the last expiry",
        {"last_arrival": NOW - timedelta(days=3), "rows_expired_at": NOW - timedelta(days=2)},
        AGED,
        "expire-rows",
        "Old rows were looked for 2.0 days ago; the last commit that brought rows was at 2026-11-23 12:00. It comes",
    ),
    (
        "rows were expired this morning",
        {"last_arrival": NOW, "rows_expired_at": NOW - timedelta(hours=3)},
        AGED,
        "expire-rows",
        "Old rows were looked for 3.0 hours ago",
    ),
    ("nobody knows when rows arrived", {}, AGED, "expire-rows", "No commit that brought rows is in the history"),
    (
        "a version without deletes",
        {"last_arrival": NOW, "obstacles": {"expire-rows": "format version 1 has no deletes"}},
        AGED,
        "expire-rows",
        "The table rules it out: format version 1 has no deletes. Upgrade",
    ),
    ("no statistics", {}, {}, "compute-statistics", "The policy asks for no statistics. Set statistics.every"),
    (
        "statistics of yesterday",
        {"statistics_at": NOW - timedelta(days=1), "last_data_commit": NOW},
        {"statistics": {"every": "P7D"}},
        "compute-statistics",
        "They are of 24.0 hours ago; the policy asks every 7.0 days. The next are due in 6.0 days.",
    ),
    (
        "statistics of the newest rows",
        {"statistics_at": NOW - timedelta(days=9), "last_data_commit": NOW - timedelta(days=9)},
        {"statistics": {"every": "P7D"}},
        "compute-statistics",
        "No rows have changed since those that there are.",
    ),
    ("no tags", {}, {}, "create-tag", "The policy asks for no tags."),
    (
        "all tags are there",
        {"tags": ("monthly-2026-11", "weekly-2026-W48")},
        {"tags": {"weekly": 1, "monthly": 1}},
        "create-tag",
        "The tags of this day, week and month are there.",
    ),
    (
        "all small files are hot",
        {
            "files": replace(SMALL, mergeable_in_groups=30),
            "hot_partitions": (hot(mergeable_files=25, outside="day <> 1"),),
        },
        {},
        "compaction",
        (
            "5 of 100 data files would be gone by a merge; the threshold is 20%, and at least 5. Deletes "
            "are below theirs. 25 more are in hot partitions: day=1. They are merged 1.0 hours after their "
            "last change."
        ),
    ),
    (
        "hot, and without partitions",
        {
            "files": SMALL,
            "hot_partitions": (hot(""),),
            "last_maintenance": {"compaction": MaintenanceRun(snapshot="1", at=NOW - timedelta(hours=2))},
        },
        {},
        "compaction",
        (
            "Partitions are hot and nothing leaves them out: . The last compaction was 2.0 "
            "hours ago. It comes 1.0 hours after their last change, or a day after the last compaction."
        ),
    ),
]


@pytest.mark.parametrize(
    ("health", "given", "action", "why"), [case[1:] for case in NOT_DUE], ids=[case[0] for case in NOT_DUE]
)
def test_an_action_that_is_left_out_says_why_and_what_helps(
    health: dict[str, Any], given: dict[str, Any], action: str, why: str
) -> None:
    made = plan(replace(WELL, **health), **given)
    assert why in left_out(made, action)
    assert action not in [each.action for each in made.actions]


NOTES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "hot partitions",
        {"hot_partitions": (hot(outside="day <> 1"), hot("day=0", 90, outside="day <> 0"))},
        {},
        "Hot partitions are left alone: day=1.",
    ),
    (
        "hot, and no predicate",
        {"hot_partitions": (hot("id_bucket=3", mergeable_files=10),)},
        {},
        "Hot partitions are left alone: id_bucket=3.",
    ),
    ("hours", {"deletes": VECTORS}, {"major_hours": "22-6"}, "Level major may begin at 22:00 UTC."),
    (
        "a lower level",
        {"deletes": VECTORS},
        {"compaction": {"level": "minor"}},
        "The policy's level 'minor' leaves the deletes.",
    ),
    (
        "an order that nobody measured",
        {},
        {"compaction": {"strategy": "sort"}},
        "No sort: nobody has measured the order.",
    ),
    (
        "an order by another column",
        {"files": replace(SMALL, sorted_by="id", sorted_share=0.1)},
        {"compaction": {"strategy": "sort", "sort_by": ["day DESC"]}},
        "No sort: nobody has measured the order.",
    ),
    (
        "files in order",
        {"files": replace(SMALL, sorted_by="id", sorted_share=0.9)},
        {"compaction": {"strategy": "sort", "sort_by": ["id"]}},
        "No sort: 90% of the files are in order, and 50% do.",
    ),
    ("a z-order", {}, {"compaction": {"strategy": "zorder", "sort_by": ["a", "b"]}}, "No zorder: "),
    ("a hilbert curve", {}, {"compaction": {"strategy": "hilbert", "sort_by": ["a", "b"]}}, "No hilbert: "),
    (
        "manifests",
        {"manifests": EVERYTHING["manifests"]},
        {},
        "89 manifests and those of the new files are merged at its end.",
    ),
]


@pytest.mark.parametrize(("health", "given", "note"), [case[1:] for case in NOTES], ids=[case[0] for case in NOTES])
def test_a_compaction_says_what_it_leaves_out(health: dict[str, Any], given: dict[str, Any], note: str) -> None:
    (action,) = plan(replace(WELL, **{"files": SMALL, **health}), **given).actions
    assert [each for each in action.notes if note in each], action.notes
    assert action.level == "minor"


def test_hours_over_midnight_and_within_a_day_say_when_major_work_may_begin() -> None:
    def may_begin(hours: str, hour: int) -> bool:
        made = plan_of(replace(WELL, deletes=VECTORS), policy(major_hours=hours), NOW.replace(hour=hour))
        return bool(made.actions)

    for first, last in ((22, 6), (1, 5), (0, 24), (6, 22)):
        within = {h for h in range(24) if (first % 24 <= h < last if first % 24 < last else h >= first or h < last)}
        assert {hour for hour in range(24) if may_begin(f"{first}-{last}", hour)} == (within or set(range(24)))


def test_nothing_is_hot_where_the_policy_says_so() -> None:
    (compaction,) = plan(
        replace(WELL, files=SMALL, hot_partitions=(hot(minutes=0, outside="day <> 1"), hot(minutes=-1))),
        compaction={"hot_within": "PT0S"},
    ).actions
    assert not {"where", "skip_partitions"} & compaction.task.keys()


def test_hot_partitions_are_left_out_by_a_predicate() -> None:
    heat = (hot(outside="(day <> 1)", mergeable_files=10), hot("day=2", outside="(day <> 2)", mergeable_files=5))
    (action,) = plan(replace(WELL, files=SMALL, hot_partitions=heat)).actions
    assert action.task["where"] == "(day <> 1) AND (day <> 2)"
    assert action.effect.files_removed == 35


def test_hot_partitions_that_no_predicate_names_are_left_out_by_their_paths() -> None:
    heat = (hot("id_bucket=3", mergeable_files=10), hot("day=2", outside="(day <> 2)", mergeable_files=5))
    (action,) = plan(replace(WELL, files=SMALL, hot_partitions=heat)).actions
    assert (action.task["where"], action.task["skip_partitions"]) == ("(day <> 2)", ["id_bucket=3"])
    assert action.effect.files_removed == 35


KEYS = DeleteDebt(delete_files=10, deleted_rows=0, deleted_share=0.0, equality_deletes=100, dangling_files=0)
COLD: dict[str, Any] = {"outside": "day <> 1", "mergeable_files": 0}
ROWS = replace(VECTORS, partitions=(PartitionDeletes(partition="day=1", deleted_share=0.9),))


@pytest.mark.parametrize(
    ("deletes", "counts", "reasons"),
    [
        (KEYS, {"delete_files": 10, "equality_deletes": 100, "deleted_rows": 0}, []),
        (KEYS, {"delete_files": 9, "equality_deletes": 99, "deleted_rows": 0}, ["equality-deletes"]),
        (ROWS, {"delete_files": 20, "equality_deletes": 0, "deleted_rows": 900}, []),
        (ROWS, {"delete_files": 18, "equality_deletes": 0, "deleted_rows": 700}, []),
        (ROWS, {"delete_files": 9, "equality_deletes": 0, "deleted_rows": 300}, ["deleted-rows"]),
        (replace(NO_DELETES, delete_files=100), {"delete_files": 30, "equality_deletes": 0, "deleted_rows": 0}, []),
        (replace(KEYS, dangling_files=4), {"delete_files": 6, "equality_deletes": 60, "deleted_rows": 0}, []),
        (replace(KEYS, dangling_files=4), {"delete_files": 5, "equality_deletes": 50, "deleted_rows": 0}, [
            "equality-deletes"
        ]),
    ],
    ids=str,
)  # fmt: skip
def test_deletes_of_hot_partitions_are_no_debt(deletes: DeleteDebt, counts: dict[str, Any], reasons: list[str]) -> None:
    made = plan(replace(WELL, deletes=deletes, hot_partitions=(hot(**COLD, **counts),)))
    assert [reason.name for each in made.actions for reason in each.reasons] == reasons
    if not reasons:
        assert f"{counts['delete_files']} delete files are in hot partitions: day=1." in left_out(made, "compaction")


def test_a_compaction_waits_for_the_time_between_two_however_ill_the_table_is() -> None:
    ill = replace(WELL, files=SMALL, deletes=VECTORS)
    just_now = {"compaction": MaintenanceRun(snapshot="1", at=NOW - timedelta(minutes=10))}
    early = plan(replace(ill, last_maintenance=just_now))
    assert early.actions == ()
    assert left_out(early, "compaction") == (
        "The last compaction was at 11:50; compaction.every is 0:15:00. It is due from 2026-11-26 12:05 on."
    )
    assert in_short(plan(replace(ill, last_maintenance=just_now), compaction={"every": "PT10M"}))
    other = {"replace": just_now["compaction"]}
    assert in_short(plan(replace(ill, last_maintenance=other)))


def compacted(hours: int) -> dict[str, MaintenanceRun]:
    return {"compaction": MaintenanceRun(snapshot="1", at=NOW - timedelta(hours=hours))}


def test_deletes_that_nobody_counted_by_partition_wait_until_a_day_after_the_last_compaction() -> None:
    untold = replace(WELL, deletes=KEYS, hot_partitions=(hot(**COLD),))
    early = plan(replace(untold, last_maintenance=compacted(2)))
    assert not early.actions
    assert (
        "Nobody has counted the deletes in hot partitions: day=1. The last compaction was 2.0 hours ago."
        in left_out(early, "compaction")
    )
    for late in (compacted(24), {}):
        (action,) = plan(replace(untold, last_maintenance=late)).actions
        assert (action.level, "where" in action.task) == ("major", False)
        assert action.notes[0].startswith("Nobody has counted the deletes in the hot partitions day=1; ")


def test_small_files_are_merged_while_deletes_wait_that_nobody_counted_by_partition() -> None:
    untold = replace(WELL, files=SMALL, deletes=KEYS, hot_partitions=(hot(**COLD),), last_maintenance=compacted(2))
    (action,) = plan(untold).actions
    assert (action.level, action.task["where"]) == ("minor", "day <> 1")
    assert "Level major waits until a day after the last compaction" in action.notes[0]


LONG = "day=" + "x" * 1_000_000


@pytest.mark.parametrize(
    "health",
    [
        {"hot_partitions": (hot(LONG),)},
        {"hot_partitions": (hot(LONG),), "last_maintenance": compacted(2)},
        {"hot_partitions": (hot(LONG, outside="day <> 1"),)},
        {"hot_partitions": (hot(LONG, outside="day <> 1", mergeable_files=50),)},
        {"deletes": replace(NO_DELETES, partitions=(PartitionDeletes(partition=LONG, deleted_share=0.5),))},
        {"deletes": KEYS, "hot_partitions": (hot(LONG, outside="day <> 1"),)},
        {"deletes": KEYS, "hot_partitions": (hot(LONG, outside="day <> 1"),), "last_maintenance": compacted(2)},
    ],
    ids=range(7),
)
def test_names_of_partitions_are_cut(health: dict[str, Any]) -> None:
    made = plan(replace(WELL, **{"files": SMALL, **health})).to_json()
    assert "characters more" in made
    assert len(made) < 5_000


def test_a_table_that_is_always_hot_is_compacted_once_a_day() -> None:
    day_ago = {"compaction": MaintenanceRun(snapshot="1", at=NOW - timedelta(days=1))}
    always = replace(WELL, files=SMALL, hot_partitions=(hot("id_bucket=3"),), last_maintenance=day_ago)
    assert in_short(plan(always)) == ["compaction minor small-files"]


@pytest.mark.parametrize("case", DUE, ids=lambda case: case[0])
def test_each_planned_action_is_a_task_that_the_application_takes(case: tuple[str, Any, Any, Any]) -> None:
    for action in plan(replace(WELL, **case[1]), **case[2]).actions:
        assert written_task(action.task, "task").action == action.action


def test_tasks_have_the_arguments_that_the_policy_names() -> None:
    given = {
        "compaction": {"target_file_size": "64MB", "deleted_share": 0.2, "min_input_files": 7},
        "expiry": {"older_than": "P3D", "retain_last": 4},
        "manifests": {"enabled": False},
        "tags": {"daily": 9},
    }
    tag, expiry, compaction = plan(replace(WELL, **EVERYTHING), **given).tasks
    assert tag == {"action": "create-tag", "table": "shop.orders", "tag": "daily-2026-11-26", "max_age": "P9D"}
    assert expiry == {"action": "snapshot-expiry", "table": "shop.orders", "older_than": "P3D", "retain_last": 4}
    assert compaction == {
        "action": "compaction",
        "table": "shop.orders",
        "level": "major",
        "strategy": "binpack",
        "min_input_files": 7,
        "delete_ratio_threshold": 0.2,
        "rewrite_manifests": False,
        "target_file_size": 64 * MIB,
    }


@pytest.mark.parametrize("mode", ["dry-run", "delete"])
def test_orphan_files_are_looked_for_as_the_policy_says_and_removed_where_it_allows_that(mode: str) -> None:
    given = {"mode": mode, "older_than": "P5D", "max_share": 0.1, "every": "P2D"}
    (task,) = plan(replace(WELL, orphans=counted(days=3)), orphans=given).tasks
    assert task == {
        "action": "remove-orphans",
        "table": "shop.orders",
        "mode": mode,
        "older_than": "P5D",
        "max_share": 0.1,
    }


@pytest.mark.parametrize(
    ("age", "max_age"),
    [
        (timedelta(0), "P7D"),
        (timedelta(days=10), "P17D"),
        (timedelta(days=10, minutes=61), "P17DT7200S"),
        (timedelta(days=-1), "P7D"),
        (timedelta(days=40_000), "P36500D"),
    ],
    ids=str,
)
def test_a_tag_of_an_old_head_is_kept_as_long_as_one_of_a_new_head(age: timedelta, max_age: str) -> None:
    (task,) = plan(replace(WELL, snapshot_at=NOW - age), tags={"daily": 7}).tasks
    assert task["max_age"] == max_age


@pytest.mark.parametrize("given", [{"major_hours": "22-6"}, {"compaction": {"level": "minor"}}, {}], ids=str)
def test_a_minor_compaction_rewrites_no_file_for_its_deletes(given: dict[str, Any]) -> None:
    (task,) = plan(replace(WELL, files=SMALL, deletes=VECTORS if given else NO_DELETES), **given).tasks
    assert (task["level"], task["delete_ratio_threshold"]) == ("minor", 1.0)


def test_a_sort_is_asked_for_by_the_policys_columns() -> None:
    files = replace(FILES, sorted_by="id", sorted_share=0.1)
    sort = {"level": "full", "strategy": "sort", "sort_by": ["id DESC"]}
    (task,) = plan(replace(WELL, files=files), compaction=sort).tasks
    assert (task["level"], task["strategy"], task["sort_by"]) == ("full", "sort", ["id DESC"])


def test_each_action_has_a_task_and_is_planned_or_left_out() -> None:
    made = plan(replace(WELL, **EVERYTHING))
    names = [*(each.action for each in made.actions), *(each.action for each in made.not_planned)]
    assert sorted(names) == sorted(ORDER)
    assert set(ORDER) <= set(AUTHORED)


def test_effect_and_rank_follow_from_the_numbers_and_the_cost_model() -> None:
    (action,) = plan(replace(WELL, files=SMALL)).actions
    assert action.effect.files_removed == 50
    assert action.effect.bytes_rewritten == 600 * MIB
    # A table, 60 files that are opened, and 600 MiB at 55 MB a second.
    assert action.effect.core_seconds == pytest.approx(1.5 + 60 * 0.005 + 600 * MIB / 55e6, abs=0.01)
    assert action.rank == pytest.approx(50 / action.effect.core_seconds, abs=0.01)


def test_vectors_cost_the_files_that_they_lie_on_and_equality_deletes_all() -> None:
    (by_vectors,) = plan(replace(WELL, deletes=VECTORS)).actions
    (by_keys,) = plan(replace(WELL, deletes=replace(NO_DELETES, delete_files=1, equality_deletes=9))).actions
    assert by_vectors.effect.bytes_rewritten == 40 * GIB * 20 // 100
    assert by_keys.effect.bytes_rewritten == 40 * GIB
    # 20 vectors, and 30 % of 40 GiB in files of 4 MiB; one file of keys that is read with each of 100.
    assert by_vectors.benefit == pytest.approx(20 + 0.3 * 40 * 1024 / 4, rel=0.01)
    assert by_keys.benefit == 101


def test_a_plan_travels_as_json() -> None:
    made = plan(replace(WELL, **EVERYTHING), tags={"daily": 7}, priority=3, pool="cluster", owner="data@example.com")
    assert TablePlan.from_json(made.to_json()) == made
    assert (made.priority, made.pool, made.owner) == (3, "cluster", "data@example.com")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"obstacles": {"snapshot-expiry": "gc.enabled is false"}}, {"snapshot-expiry"}),
        ({"obstacles": {"compaction": "Spark has no type"}}, {"compaction"}),
        ({}, set()),
        ({"error": "BrokenMetadataError: gone"}, set()),
    ],
    ids=str,
)
@pytest.mark.parametrize("enabled", [True, False])
def test_what_the_table_rules_out_is_told_from_what_is_not_due(
    given: dict[str, Any], expected: set[str], enabled: bool
) -> None:
    # An owner who turns garbage collection off has asked for no expiry by the same property.
    left_out = plan(replace(WELL, **given), expiry={"enabled": enabled}).not_planned
    assert {each.action for each in left_out if each.is_unsupported} == expected
