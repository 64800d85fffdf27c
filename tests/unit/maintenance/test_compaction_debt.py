"""Debt of a compaction beyond shares: what commits have added since the last one, and rows along a curve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.curve_order import CURVE_ORDER, CurveOrder, curve_of
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.health import TableHealth
from airflow_lake_provider.maintenance.history import Growth, curve_order, growth
from airflow_lake_provider.maintenance.policy import limits_of
from tests.table_facts import table_of
from tests.unit.maintenance.plans_of_numbers import (
    FILES,
    GIB,
    MIB,
    SMALL,
    VECTORS,
    WELL,
    hot,
    in_short,
    left_out,
    plan,
    policy,
)

TARGET = 512 * MIB
APPEND = {
    "operation": "append",
    "added-data-files": "3",
    "added-records": "9",
    "added-files-size": "9000",
    "total-delete-files": "2",
}
DELETE = {
    "operation": "overwrite",
    "added-delete-files": "2",
    "added-position-deletes": "5",
    "total-delete-files": "4",
}
MINOR = {"operation": "replace", "deleted-data-files": "9", "added-data-files": "1", "total-delete-files": "4"}
MAJOR = {**MINOR, "removed-delete-files": "4", "total-delete-files": "0"}
LARGE = {**APPEND, "added-files-size": str(3 * GIB)}
HISTORIES: dict[str, tuple[list[dict[str, str]], Growth]] = {
    "no commit": ([], Growth()),
    "two commits": ([DELETE, APPEND], Growth(commits=2, commits_of_deletes=2, small_files=3, delete_files=4)),
    "a compaction came before": (
        [APPEND, MAJOR, DELETE, APPEND],
        Growth(commits=1, commits_of_deletes=1, small_files=3, delete_files=2),
    ),
    "it left the deletes": (
        [DELETE, MINOR, DELETE, APPEND],
        Growth(commits=1, commits_of_deletes=3, delete_files=4),
    ),
    "manifests were merged": (
        [{"operation": "replace"}, APPEND],
        Growth(commits=1, commits_of_deletes=1, small_files=3),
    ),
    "deletes alone were removed": (
        [DELETE, {"operation": "replace", "removed-delete-files": "1"}, APPEND],
        Growth(commits=2, commits_of_deletes=1, small_files=3, delete_files=4),
    ),
    "large files": ([LARGE], Growth(commits=1, commits_of_deletes=1, delete_files=2)),
    "large files beside small ones": (
        [LARGE, APPEND],
        Growth(commits=2, commits_of_deletes=2, small_files=3, delete_files=2),
    ),
    "sizes that nobody wrote": (
        [{"operation": "append", "added-data-files": "4"}],
        Growth(commits=1, commits_of_deletes=1, small_files=4),
    ),
    "numbers of a stranger": (
        [{**APPEND, "added-data-files": "-7", "total-delete-files": "x"}],
        Growth(commits=1, commits_of_deletes=1),
    ),
}


@pytest.mark.parametrize("what", HISTORIES)
def test_what_commits_have_added_counts_from_the_last_compaction_on(what: str) -> None:
    summaries, expected = HISTORIES[what]
    history = [Snapshot(id=str(at), parent=None, at=-at, summary=each) for at, each in enumerate(summaries)]
    assert growth(history, TARGET) == expected


FEW = replace(FILES, data_files=10_000, mergeable_files=30, mergeable_in_groups=30)
COMMITS, SMALLS, DELETES = (
    {"compaction": {f"after_{name}": 20}} for name in ("commits", "small_files", "delete_files")
)
GROWN = Growth(commits=20, commits_of_deletes=20, small_files=20, delete_files=20)
GROWTHS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("shares alone", {"files": FEW}, {}, []),
    ("enough small files", {"files": FEW}, SMALLS, ["compaction minor new-small-files"]),
    ("one fewer", {"files": FEW, "growth": replace(GROWN, small_files=19)}, SMALLS, []),
    ("enough commits", {"files": FEW}, COMMITS, ["compaction minor commits"]),
    ("one commit fewer", {"files": FEW, "growth": replace(GROWN, commits=19)}, COMMITS, []),
    ("commits that left deletes", {"deletes": VECTORS}, COMMITS, ["compaction major commits"]),
    ("commits that left nothing to do", {}, COMMITS, []),
    (
        "a merge since then has left the deletes",
        {"files": FEW, "deletes": VECTORS, "growth": replace(GROWN, commits=3)},
        COMMITS,
        ["compaction major commits"],
    ),
    ("enough delete files", {"files": FEW, "deletes": VECTORS}, DELETES, ["compaction major new-delete-files"]),
    ("delete files on nothing", {"deletes": replace(VECTORS, dangling_files=20)}, DELETES, []),
    ("shares no longer count", {"files": SMALL, "deletes": VECTORS, "growth": Growth()}, SMALLS, []),
    (
        "any of them is enough",
        {"files": FEW, "deletes": VECTORS, "growth": replace(GROWN, commits=3, commits_of_deletes=3)},
        {"compaction": {"after_commits": 20, "after_small_files": 20, "after_delete_files": 20}},
        ["compaction major new-small-files new-delete-files"],
    ),
]


@pytest.mark.parametrize(
    ("given", "asked", "expected"), [each[1:] for each in GROWTHS], ids=[each[0] for each in GROWTHS]
)
def test_a_compaction_is_due_by_what_commits_have_added(
    given: dict[str, Any], asked: dict[str, Any], expected: list[str]
) -> None:
    made = plan(replace(WELL, **{"growth": GROWN, **given}), **asked)
    assert in_short(made) == expected
    if not expected and asked:
        assert left_out(made, "compaction").startswith("Since the last compaction there were ")


def test_a_policy_that_counts_growth_lets_manifests_be_read_whatever_the_share_is() -> None:
    assert (limits_of(policy(**SMALLS)).small_files, limits_of(policy(**SMALLS)).delete_files) == (0.0, 0.0)
    assert limits_of(policy()).small_files > 0


CURVE: dict[str, Any] = {"compaction": {"strategy": "zorder", "sort_by": ["day", "id"], "level": "full"}}
ORDER = CurveOrder(by="zorder(day, id)", rows=1_000, snapshot="7")
CURVES: list[tuple[str, dict[str, Any], bool]] = [
    ("never sorted", {"curve": None}, True),
    ("all in order", {}, False),
    ("by another curve", {"curve": replace(ORDER, by="hilbert(day, id)")}, True),
    ("by other columns", {"curve": replace(ORDER, by="zorder(id)")}, True),
    ("half is new, by commits", {"curve": replace(ORDER, added_since=501)}, True),
    ("less is new, by commits", {"curve": replace(ORDER, added_since=499)}, False),
    ("half is new, and snapshots are gone", {"rows": 2_001}, True),
    ("less is new, and snapshots are gone", {"rows": 1_999}, False),
    ("nobody has counted rows", {"rows": None, "curve": None}, False),
    ("a table without rows", {"rows": 0}, False),
    ("a table without rows that was never sorted", {"rows": 0, "curve": None}, False),
    ("most files are hot", {"curve": None, "hot_partitions": (hot(outside="day <> 1", files=51),)}, False),
    ("few files are hot", {"curve": None, "hot_partitions": (hot(outside="day <> 1", files=49),)}, True),
]


@pytest.mark.parametrize(("given", "is_due"), [each[1:] for each in CURVES], ids=[each[0] for each in CURVES])
def test_rows_are_put_along_a_curve_where_too_few_lie_along_it(given: dict[str, Any], is_due: bool) -> None:
    made = plan(replace(WELL, **{"rows": 1_000, "curve": ORDER, **given}), **CURVE)
    assert in_short(made) == (["compaction full order"] if is_due else [])
    if is_due:
        (action,) = made.actions
        assert (action.task["strategy"], action.task["sort_by"]) == ("zorder", ["day", "id"])
        written_task(action.task, "task")


ALL_NEW = {"operation": "overwrite", "added-records": "1000", "deleted-records": "1000"}
REWRITES: dict[str, tuple[dict[str, str], int]] = {
    "all rows are loaded anew": ({**ALL_NEW, "total-records": "1000"}, 1_000),
    "all rows are loaded anew, and are fewer": (
        {**ALL_NEW, "added-records": "900", "total-records": "900"},
        900,
    ),
    "partitions are loaded anew by Spark": (
        {**ALL_NEW, "replace-partitions": "true", "total-records": "3000"},
        1_000,
    ),
    "partitions are loaded anew by us": (
        {**ALL_NEW, "lake.action": "overwrite-partitions", "total-records": "3000"},
        1_000,
    ),
    "rows of some files are changed": ({**ALL_NEW, "added-records": "1010", "total-records": "3000"}, 10),
    "a writer counts no total": ({**ALL_NEW, "added-records": "1010"}, 10),
    "rows are added": ({"operation": "append", "added-records": "5", "total-records": "1005"}, 5),
    "a compaction": ({**ALL_NEW, "operation": "replace", "total-records": "1000"}, 0),
}


@pytest.mark.parametrize(("summary", "new"), REWRITES.values(), ids=REWRITES)
def test_rows_that_were_loaded_anew_lie_along_no_curve(summary: dict[str, str], new: int) -> None:
    history = [
        Snapshot(id="8", parent="7", at=2, summary=summary),
        Snapshot(id="7", parent=None, at=1, summary={"operation": "replace"}),
    ]
    order = curve_order(table_of(*history, properties={CURVE_ORDER: ORDER.as_property()}), history)
    assert order is not None
    assert order.added_since == new


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "7", '{"by": 1}', '{"rows": "x", "by": "", "snapshot": 1}', "[" * 9999]
)
def test_a_property_of_a_stranger_is_no_order(text: str) -> None:
    assert CurveOrder.of_property(text) is None


def test_an_order_is_read_back_from_its_property() -> None:
    assert CurveOrder.of_property(ORDER.as_property()) == ORDER
    assert curve_of(CompactionStrategy.ZORDER, ("day", "id")) == ORDER.by
    assert CURVE_ORDER.startswith("lake.")


def test_what_the_policy_verifies_and_quarantines_is_asked_of_the_task() -> None:
    asked = {
        "compaction": {"verify": "rows"},
        "orphans": {"mode": "quarantine", "quarantine_for": "P3D"},
    }
    compaction, orphans = plan(replace(WELL, files=SMALL), **asked).actions
    assert compaction.task["verify"] == "rows"
    keys = {"compaction": {"verify": "keys"}}
    for has_identifiers, verified in ((True, "keys"), (False, "rows")):
        (by_keys,) = plan(replace(WELL, files=SMALL, has_identifiers=has_identifiers), **keys).actions
        assert by_keys.task["verify"] == verified
    assert (orphans.task["mode"], orphans.task["quarantine_for"]) == ("quarantine", "P3D")
    for each in (compaction, orphans):
        written_task(each.task, "task")


def test_health_with_growth_and_a_curve_is_read_back_from_json() -> None:
    health = replace(WELL, growth=GROWN, curve=ORDER, rows=7)
    assert TableHealth.from_json(health.to_json()) == health
