"""Tasks of a plan, their arguments, their effect and cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.specs.spec_codec import AUTHORED
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import ORDER
from tests.unit.maintenance.plans_of_numbers import (
    EVERYTHING,
    FILES,
    GIB,
    MIB,
    NO_DELETES,
    NOW,
    SMALL,
    VECTORS,
    WELL,
    counted,
    plan,
)


def test_tasks_have_the_arguments_that_the_policy_names() -> None:
    given = {
        "compaction": {"target_file_size": "64MB", "deleted_share": 0.2, "min_input_files": 7, "runner": "arrow"},
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
        "runner": "arrow",
        "min_input_files": 7,
        "delete_ratio_threshold": 0.2,
        "rewrite_manifests": False,
        "target_file_size": 64 * MIB,
    }


# A run that deletes also ends what lies in the quarantine, so it needs to know how long that is.
@pytest.mark.parametrize(
    ("mode", "kept"),
    [("dry-run", {}), ("quarantine", {"quarantine_for": "P90D"}), ("delete", {"quarantine_for": "P90D"})],
    ids=["dry-run", "quarantine", "delete"],
)
def test_orphan_files_are_looked_for_as_the_policy_says_and_removed_where_it_allows_that(
    mode: str, kept: dict[str, str]
) -> None:
    given = {"mode": mode, "older_than": "P5D", "max_share": 0.1, "every": "P2D", "quarantine_for": "P90D"}
    (task,) = plan(replace(WELL, orphans=counted(days=3)), orphans=given).tasks
    assert task == {
        "action": "remove-orphans",
        "table": "shop.orders",
        "mode": mode,
        "older_than": "P5D",
        "max_share": 0.1,
        **kept,
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
    assert action.effect.core_seconds == pytest.approx(0.5 + 60 * 0.012 + 600 * MIB / 55e6, abs=0.01)
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
