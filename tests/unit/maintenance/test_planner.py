"""Plans as a table of cases: numbers of a table's health, and the actions and reasons that follow from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.maintenance.health import FileSizes, PartitionDeletes, TableHealth
from airflow_lake_provider.maintenance.history import SnapshotAges
from airflow_lake_provider.maintenance.planner import plan_of
from tests.unit.maintenance.plans_of_numbers import (
    AGED,
    COUNTS,
    FILES,
    MANY,
    MIB,
    NO_DELETES,
    NOW,
    SMALL,
    VECTORS,
    WELL,
    counted,
    in_short,
    plan,
    policy,
)

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
        "an expiry that was cut off",
        {"snapshots": SnapshotAges(snapshots=5, is_unfinished=True)},
        {},
        ["snapshot-expiry unfinished-expiry"],
    ),
    (
        "an expiry that was cut off, and no snapshot is left",
        {"snapshot": None, "snapshots": SnapshotAges(is_unfinished=True)},
        {},
        ["snapshot-expiry unfinished-expiry"],
    ),
    (
        "an expiry that was cut off, and a policy that keeps all",
        {"snapshots": SnapshotAges(snapshots=5, is_unfinished=True)},
        {"expiry": {"enabled": False}},
        [],
    ),
    (
        "no main",
        {"snapshot": None, "files": SMALL, "manifests": MANY, "snapshots": SnapshotAges(snapshots=90, expirable=80)},
        {"tags": {"daily": 7}, "statistics": {"every": "P7D"}, **AGED, **COUNTS},
        ["snapshot-expiry snapshots", "remove-orphans orphans"],
    ),
    ("no main, and nothing due", {"snapshot": None}, {"tags": {"daily": 7}}, []),
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


def test_hours_over_midnight_and_within_a_day_say_when_major_work_may_begin() -> None:
    def may_begin(hours: str, hour: int) -> bool:
        made = plan_of(replace(WELL, deletes=VECTORS), policy(major_hours=hours), NOW.replace(hour=hour))
        return bool(made.actions)

    for first, last in ((22, 6), (1, 5), (0, 24), (6, 22)):
        within = {h for h in range(24) if (first % 24 <= h < last if first % 24 < last else h >= first or h < last)}
        assert {hour for hour in range(24) if may_begin(f"{first}-{last}", hour)} == (within or set(range(24)))


@pytest.mark.parametrize("case", DUE, ids=lambda case: case[0])
def test_each_planned_action_is_a_task_that_the_application_takes(case: tuple[str, Any, Any, Any]) -> None:
    for action in plan(replace(WELL, **case[1]), **case[2]).actions:
        assert written_task(action.task, "task").action == action.action


@pytest.mark.parametrize(
    ("health", "begin"),
    [(WELL, "Orphan files have never been counted;"), (replace(WELL, orphans=counted(days=7)), "Orphan files were")],
)
def test_a_look_for_orphans_says_when_the_last_one_was(health: TableHealth, begin: str) -> None:
    (action,) = plan(health, **COUNTS).actions
    assert action.reasons[0].sentence.startswith(begin)
