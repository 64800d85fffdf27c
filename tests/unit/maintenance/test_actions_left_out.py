"""Actions that a plan leaves out, and what a compaction leaves out: why, and what helps instead."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.maintenance.health import OrphanCount
from airflow_lake_provider.maintenance.history import MaintenanceRun, SnapshotAges
from tests.unit.maintenance.plans_of_numbers import (
    AGED,
    COUNTS,
    EVERYTHING,
    MANY,
    NOW,
    SMALL,
    VECTORS,
    WELL,
    counted,
    hot,
    left_out,
    plan,
)

UNKNOWN_FILES = {"files": None}
NOT_DUE: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    (
        "paused",
        EVERYTHING,
        {"paused": True},
        "compaction",
        "The policy pauses the table. `airflow lake policy` says where",
    ),
    (
        "broken",
        {"error": "BrokenMetadataError: it is gone"},
        {},
        "compaction",
        "cannot be read: BrokenMetadataError: it is gone. Mend",
    ),
    (
        "broken, with a full stop",
        {"error": "BrokenMetadataError: it is gone."},
        {},
        "compaction",
        "cannot be read: BrokenMetadataError: it is gone. Mend",
    ),
    (
        "a view",
        {"error": "UnsupportedError: shop.v is a view"},
        {},
        "snapshot-expiry",
        "UnsupportedError: shop.v is a view",
    ),
    (
        "empty",
        {"snapshot": None, "snapshots": SnapshotAges()},
        {},
        "snapshot-expiry",
        "The table has no snapshot. Nothing is needed",
    ),
    (
        "no main",
        {"snapshot": None, "last_arrival": NOW, **EVERYTHING},
        {"tags": {"daily": 7}, **AGED},
        "compaction",
        "Main has no snapshot, though 90 are there. Only an expiry and a look for orphan files are planned",
    ),
    (
        "gc.enabled",
        {**EVERYTHING, "obstacles": {"snapshot-expiry": "gc.enabled is false"}},
        {},
        "snapshot-expiry",
        "rules it out: gc.enabled is false",
    ),
    (
        "statistics that cannot be committed",
        {"obstacles": {"compute-statistics": "property 'commit.retry.num-retries' is 'soon'"}},
        {"statistics": {"every": "P1D"}},
        "compute-statistics",
        "rules it out: property 'commit.retry.num-retries' is 'soon'",
    ),
    (
        "gc.enabled, orphans",
        {"obstacles": {"remove-orphans": "gc.enabled is false"}},
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
        "expiry.older_than is 6 hours; an expiry refuses less than a day. Set it to P1D",
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
        "counted 30 hours ago; the policy asks every 7 days. The next look is due in 5.5 days.",
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
        {
            "last_arrival": NOW - timedelta(days=3),
            "rows_expired_at": NOW - timedelta(days=2),
            "rows_expired_before": "day < 2026-10-24",
        },
        AGED,
        "expire-rows",
        "Old rows were looked for 2 days ago; the last commit that brought rows was at 2026-11-23 12:00. It comes",
    ),
    (
        "rows were expired this morning",
        {"last_arrival": NOW, "rows_expired_at": NOW - timedelta(hours=3)},
        AGED,
        "expire-rows",
        "Old rows were looked for 3 hours ago",
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
        "They are of 24 hours ago; the policy asks every 7 days. The next are due in 5.8 days.",
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
        "a branch has the name of a tag",
        {"branches": ("daily-2026-11-26", "daily-2026-11-27"), "tags": ("weekly-2026-W48",)},
        {"tags": {"daily": 7, "weekly": 1}},
        "create-tag",
        "A branch has the name daily-2026-11-26 of the tag.",
    ),
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
            "are below theirs. 25 more are in hot partitions: day=1. They are merged 1 hour after their "
            "last change, or when their oldest is 18 hours old."
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
            "Partitions are hot and nothing leaves them out: . The last compaction was 2 "
            "hours ago. It comes 1 hour after their last change, or a day after the last compaction."
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


ASKED = {**AGED, **COUNTS}


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        ({"obstacles": {"snapshot-expiry": "gc.enabled is false"}}, {}, ["snapshot-expiry"]),
        ({"obstacles": {"snapshot-expiry": "broken"}}, COUNTS, ["snapshot-expiry"]),
        ({"obstacles": {"remove-orphans": "gc.enabled is false"}}, COUNTS, ["remove-orphans"]),
        ({"obstacles": {"compaction": "Spark has no type"}}, {}, ["compaction"]),
        ({"obstacles": {"rewrite-manifests": "a broken number"}}, {}, ["rewrite-manifests"]),
        ({"obstacles": {"expire-rows": "format version 1 has no deletes"}}, AGED, ["expire-rows"]),
        ({"obstacles": {"expire-rows": "format version 1 has no deletes"}}, {}, []),
        ({}, ASKED, []),
        ({"error": "BrokenMetadataError: gone"}, ASKED, []),
    ],
    ids=str,
)
@pytest.mark.parametrize("enabled", [True, False])
def test_what_the_table_rules_out_is_told_from_what_is_not_due(
    given: dict[str, Any], settings: dict[str, Any], expected: list[str], enabled: bool
) -> None:
    # An owner who turns garbage collection off has asked for no expiry by the same property.
    left_out = plan(replace(WELL, **given), expiry={"enabled": enabled}, **settings).not_planned
    assert sorted(each.action for each in left_out if each.is_unsupported) == expected
