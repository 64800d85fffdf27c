"""Plans of tables of metadata alone: what is planned is due by a dry run, and a well table has no action."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, MaintenancePolicy
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, RewriteManifestsSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.policy import limits_of
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.made_tables import ILL, MIB, MadeDelete, MadeFile, MadeTable, spread, well_table

# Ways to be ill that an action mends, which the package has.
MENDED = {
    "small-files": "compaction minor",
    "position-deletes": "compaction major",
    "deletion-vectors": "compaction major",
    "equality-deletes": "compaction major",
    "snapshots": "snapshot-expiry",
    "manifests": "rewrite-manifests",
    "manifest-overlap": "rewrite-manifests",
}


def planned(
    table: MadeTable, folder: Path, **given: Any
) -> tuple[LoadedIcebergTable, list[tuple[str, dict[str, Any]]]]:
    """Return a table, and its planned actions with their tasks."""
    now, policy = datetime.now(UTC), MaintenancePolicy.from_mapping(given, "policy")
    loaded = LoadedIcebergTable(StaticTable.from_metadata(table.write(folder / "t", now)))
    plan = plan_of(health_of(loaded, now, limits_of(policy)), policy, now)
    return loaded, [(" ".join(filter(None, (each.action, each.level))), each.task) for each in plan.actions]


@pytest.mark.parametrize("illness", sorted(ILL))
def test_what_is_planned_for_an_ill_table_is_due_by_a_dry_run(illness: str, tmp_path: Path) -> None:
    # Its rows change all the time; nobody waits for it.
    loaded, actions = planned(ILL[illness], tmp_path, compaction={"hot_within": "PT1S"})
    assert [name for name, _ in actions] == ([MENDED[illness]] if illness in MENDED else [])
    for _, task in actions:
        spec = written_task({**task, "table": "shop.orders"}, "task")
        if isinstance(spec, CompactionSpec):
            assert loaded.plan_compaction(spec).outcome is Outcome.PLANNED
        elif isinstance(spec, RewriteManifestsSpec):
            assert loaded.plan_manifests(spec).outcome is Outcome.PLANNED
        else:
            assert isinstance(spec, SnapshotExpirySpec)
            assert loaded.plan_expiry(spec.asked(datetime.now(UTC))).outcome is Outcome.PLANNED


@pytest.mark.parametrize(
    ("settings", "expirable"),
    [({}, 0), ({"history.expire.max-snapshot-age-ms": "3600000"}, 0), ({"history.expire.max-snapshot-age-ms": "9"}, 0)],
    ids=str,
)
def test_snapshots_that_are_younger_than_a_day_are_none_to_expire(
    settings: dict[str, str], expirable: int, tmp_path: Path
) -> None:
    ages = [timedelta(minutes=10 * number) for number in range(140, 0, -1)]
    table = MadeTable(files=[MadeFile(512 * MIB)], ages=ages, properties=settings)
    loaded = LoadedIcebergTable(StaticTable.from_metadata(table.write(tmp_path / "t", now := datetime.now(UTC))))
    assert loaded.expirable(now) == expirable
    assert loaded.plan_expiry(SnapshotExpirySpec(table="shop.orders").asked(now)).outcome is Outcome.NOTHING_DUE


@pytest.mark.parametrize("kind", ["equality", "position"])
@pytest.mark.parametrize("is_named", [True, False], ids=["summaries name partitions", "they do not"])
@pytest.mark.parametrize("size", [450 * MIB, MIB], ids=["large files", "small files"])
def test_a_partition_that_is_hot_by_its_deletes_alone_is_owed_nothing(
    kind: str, is_named: bool, size: int, tmp_path: Path
) -> None:
    named = {1: {"partitions.day=2": "added-delete-files=1"}} if is_named else {}
    files = [*spread(14, 450 * MIB, snapshot=1, manifests=2), *(MadeFile(size, day=2, snapshot=1) for _ in range(6))]
    table = MadeTable(
        files=files,
        deletes=[MadeDelete(kind, 900, day=2) for _ in range(4)],
        ages=(timedelta(days=3), timedelta(hours=1)),
        summaries=named,
    )
    loaded, actions = planned(table, tmp_path, compaction={"hot_within": "PT2H"})
    assert actions == []
    spec = CompactionSpec(table="shop.orders", level=CompactionLevel.MAJOR, where=loaded.rows_outside("day=2"))
    assert loaded.plan_compaction(spec).outcome is Outcome.NOTHING_DUE


def test_a_partition_of_five_minutes_ago_is_left_out_of_an_order_by_a_curve(tmp_path: Path) -> None:
    files = [*spread(30, 450 * MIB, snapshot=1), *(MadeFile(450 * MIB, day=9, snapshot=2) for _ in range(3))]
    table = MadeTable(files=files, ages=(timedelta(days=3), timedelta(minutes=5)))
    asked = {"strategy": "hilbert", "level": "full", "sort_by": ["id", "day"]}
    loaded, actions = planned(table, tmp_path, compaction=asked)
    ((name, task),) = actions
    assert (name, task["where"]) == ("compaction full", loaded.rows_outside("day=9"))


@pytest.mark.parametrize(
    ("deletes", "level", "where", "is_said"),
    [
        (100, "major", None, True),
        (100, "full", None, True),
        (99, "major", None, False),
        (100, "minor", None, False),
        (100, "major", "day < 9", False),
    ],
)
def test_a_dry_run_tells_that_many_equality_deletes_become_positions(
    deletes: int, level: str, where: str | None, is_said: bool, tmp_path: Path
) -> None:
    # They reach no data file, so that nothing else is due but for ``full``.
    keys = [MadeDelete("equality", 1, day=7) for _ in range(deletes)]
    table = MadeTable(files=[MadeFile(512 * MIB, day=2)], deletes=keys)
    loaded = LoadedIcebergTable(StaticTable.from_metadata(table.write(tmp_path / "t", datetime.now(UTC))))
    plan = loaded.plan_compaction(CompactionSpec(table="shop.orders", level=CompactionLevel(level), where=where))
    assert ("100 equality delete files would become positions first" in plan.reason) is is_said
    assert (plan.outcome is Outcome.PLANNED) is (is_said or level == "full")


@pytest.mark.parametrize(
    ("action", "illness", "name"),
    [
        ("compaction", "small-files", "write.target-file-size-bytes"),
        ("compaction", "small-files", "commit.manifest.target-size-bytes"),
        ("rewrite-manifests", "manifests", "commit.manifest.target-size-bytes"),
        ("snapshot-expiry", "snapshots", "history.expire.max-snapshot-age-ms"),
        ("snapshot-expiry", "snapshots", "history.expire.min-snapshots-to-keep"),
        ("snapshot-expiry", "snapshots", "history.expire.max-ref-age-ms"),
    ],
)
def test_a_setting_of_the_table_that_the_operator_refuses_plans_nothing_and_is_named(
    action: str, illness: str, name: str, tmp_path: Path
) -> None:
    table = replace(ILL[illness], properties={name: "128MB"})
    now, policy = datetime.now(UTC), MaintenancePolicy()
    loaded = LoadedIcebergTable(StaticTable.from_metadata(table.write(tmp_path / "t", now)))
    plan = plan_of(health_of(loaded, now, limits_of(policy)), policy, now)
    assert action not in [each.action for each in plan.actions]
    (why,) = [each.why for each in plan.not_planned if each.action == action]
    assert f"property '{name}' is '128MB'" in why


@pytest.mark.parametrize("number", range(6))
def test_a_well_table_has_no_action(number: int, tmp_path: Path) -> None:
    assert planned(well_table(number), tmp_path)[1] == []


@pytest.mark.parametrize(("others", "is_due"), [(0, False), (1, False), (40, True)])
def test_manifests_that_no_sort_can_part_are_not_sorted_each_night(others: int, is_due: bool, tmp_path: Path) -> None:
    # One partition fills so many manifests, and a few commits since then have files of several.
    files = [MadeFile(450 * MIB, day=4, manifest=number) for number in range(25)]
    files += [MadeFile(450 * MIB, day=day, manifest=25 + number) for number in range(others) for day in (0, 9)]
    properties = {"commit.manifest.target-size-bytes": "100"}
    _, actions = planned(MadeTable(files=files, sequence=80, properties=properties), tmp_path)
    assert [name for name, task in actions if task.get("sort")] == ["rewrite-manifests"] * is_due
