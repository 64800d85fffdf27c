"""Hot partitions, and tables compacted a short time ago: what a plan leaves alone, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.health import DeleteDebt, PartitionDeletes
from airflow_lake_provider.maintenance.history import MaintenanceRun
from airflow_lake_provider.maintenance.hot_partitions import HotPartition, hot_partitions
from tests.unit.maintenance.plans_of_numbers import NO_DELETES, NOW, SMALL, VECTORS, WELL, hot, in_short, left_out, plan


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
    assert "Nobody has counted the deletes in hot partitions: day=1. The last compaction was 2 hours ago." in left_out(
        early, "compaction"
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


@pytest.mark.parametrize("partition", [hot(**COLD), hot("id_bucket=3")])
def test_hot_partitions_are_compacted_with_the_others_where_no_part_may_be_left_out(partition: HotPartition) -> None:
    obstacles = {"compaction-of-part": "deletes lie in partitions by 'region'"}
    whole = replace(WELL, files=SMALL, hot_partitions=(partition,), obstacles=obstacles)
    early = plan(replace(whole, last_maintenance=compacted(2)))
    assert "Partitions are hot and nothing leaves them out" in left_out(early, "compaction")
    for late in (compacted(24), {}):
        (action,) = plan(replace(whole, last_maintenance=late)).actions
        assert not {"where", "skip_partitions"} & action.task.keys()
        assert "No part of the table can be left out, so neither can the hot partitions " in action.notes[0]


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


@pytest.mark.parametrize("outside", ["(day <> 1)", None])
def test_partitions_that_are_changed_all_day_are_compacted_once_a_day(outside: str | None) -> None:
    """Left out whenever they are hot, tables by bucket would never be compacted."""
    buckets = tuple(hot(f"id_bucket={each}", outside=outside, mergeable_files=25) for each in range(2))
    for hours, due in ((17, []), (19, ["compaction minor small-files"])):
        partitions = tuple(replace(each, oldest=NOW - timedelta(hours=hours)) for each in buckets)
        made = plan(replace(WELL, files=SMALL, hot_partitions=partitions))
        assert in_short(made) == due
        assert not {"where", "skip_partitions"} & {name for each in made.actions for name in each.task}
    waiting = plan(replace(WELL, files=SMALL, hot_partitions=buckets), compaction={"hot_within": "PT20H"})
    assert "or when their oldest is 20 hours old" in left_out(waiting, "compaction")


def test_a_partition_that_still_cools_is_left_out_beside_one_that_is_changed_all_day() -> None:
    all_day = hot("id_bucket=1", outside="a", mergeable_files=25, oldest=NOW - timedelta(hours=20))
    today = hot("id_bucket=2", outside="b", mergeable_files=5, oldest=NOW - timedelta(hours=2))
    (action,) = plan(replace(WELL, files=SMALL, hot_partitions=(all_day, today))).actions
    assert action.task["where"] == "b"


def test_a_compaction_that_names_a_partition_begins_its_time_anew() -> None:
    def changed(hours: int, operation: str, *partitions: str) -> Snapshot:
        at = int((NOW - timedelta(hours=hours)).timestamp() * 1000)
        summary = {"operation": operation, **{f"partitions.{each}": "added-data-files=1" for each in partitions}}
        return Snapshot(id=str(hours), parent=None, at=at, summary=summary)

    recent = [changed(1, "append", "a", "b", "c"), changed(5, "append", "a", "b"), changed(9, "append", "a", "b", "c")]
    rewrites = [changed(3, "replace", "c"), changed(7, "replace", "b"), changed(8, "replace", "b")]
    oldest = {each.partition: each.oldest for each in hot_partitions(recent, rewrites)}
    assert oldest == {name: NOW - timedelta(hours=hours) for name, hours in {"a": 9, "b": 5, "c": 1}.items()}
