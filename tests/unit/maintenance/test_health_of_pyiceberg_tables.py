"""Counts of health are those that PyIceberg's own inspection says of tables that PyIceberg has written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.maintenance.health import TableHealth, health_of
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.fixture(params=["1", "2"], ids=["version 1", "version 2"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Twelve appends to two partitions, one delete, and an append by another spec."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    properties = {"format-version": request.param, "write.summary.partition-limit": "100"}
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_REGION, properties=properties)
    for place in range(12):
        table.append(pa.table({"id": [place, place + 100], "region": ["north" if place % 3 else "south"] * 2}))
    table.delete("id = 3")
    with table.update_spec() as change:
        change.add_field("id", IdentityTransform(), "by_id")
    table.append(pa.table({"id": [1000], "region": ["west"]}))
    yield table
    catalog.close()


def health(table: Table) -> TableHealth:
    return health_of(LoadedIcebergTable(table), datetime.now(UTC))


def test_files_are_counted_as_pyiceberg_counts_them(table: Table) -> None:
    found, files = health(table), table.inspect.files().to_pylist()
    assert found.manifests_read
    assert found.files is not None
    sizes = [each["file_size_in_bytes"] for each in files]
    assert (found.files.data_files, found.files.data_bytes) == (len(files), sum(sizes))
    assert (found.files.small_files, found.files.small_bytes) == (len(files), sum(sizes))
    target = 512 * 1024**2
    distance = sum(((target - size) / target) ** 2 for size in sizes) / len(sizes)
    assert found.files.squared_distance == pytest.approx(distance)
    partitions = {str(each["partition"]) for each in files}
    assert found.files.mergeable_files == len(files) - len(partitions)


def test_manifests_are_counted_as_pyiceberg_counts_them(table: Table) -> None:
    found, manifests = health(table).manifests, table.inspect.manifests().to_pylist()
    assert found is not None
    assert (found.manifests, found.bytes) == (len(manifests), sum(each["length"] for each in manifests))
    # All are small, so one of each spec would be left.
    assert found.mergeable == len(manifests) - len({each["partition_spec_id"] for each in manifests})


def test_manifests_of_one_and_the_same_region_are_none_that_a_sort_could_part(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_REGION)
    for place in range(6):
        table.append(pa.table({"id": [place], "region": ["north" if place % 3 else "south"]}))
    assert getattr(health(table).manifests, "overlap", None) == 0
    table.append(pa.table({"id": [8, 9], "region": ["north", "south"]}))
    # That of both regions meets each of the six others: six of twenty-one pairs.
    assert getattr(health(table).manifests, "overlap", None) == pytest.approx(6 / 21, abs=1e-4)
    catalog.close()


def test_history_is_what_pyiceberg_lists(table: Table) -> None:
    found, snapshots = health(table), table.inspect.snapshots().to_pylist()
    assert found.snapshots is not None
    assert found.commits is not None
    assert found.snapshot == str(table.current_snapshot().snapshot_id)  # type: ignore[union-attr]  # it has one
    assert (found.snapshots.snapshots, found.snapshots.expirable) == (len(snapshots), 0)
    assert found.snapshots.newest == max(each["committed_at"] for each in snapshots).replace(tzinfo=UTC)
    assert found.commits.last_day == len(snapshots)
    assert found.format_version == table.format_version


def test_hot_partitions_are_those_of_the_summaries(table: Table) -> None:
    hot = {each.partition: each.commits for each in health(table).hot_partitions}
    said: dict[str, int] = {}
    for snapshot in table.snapshots():
        for key in snapshot.summary.additional_properties if snapshot.summary else ():
            if key.startswith("partitions."):
                said[key.removeprefix("partitions.")] = said.get(key.removeprefix("partitions."), 0) + 1
    assert said
    assert hot == said


def test_old_snapshots_count_by_the_owners_settings(table: Table) -> None:
    kept = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "4"}
    with table.transaction() as change:
        change.set_properties(kept)
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "v1").commit()
    found = health_of(LoadedIcebergTable(table), datetime.now(UTC) + timedelta(days=1, minutes=1)).snapshots
    assert found is not None
    assert found.expirable == len(table.snapshots()) - 4 - 1


def test_branches_of_others_are_no_part_of_main(table: Table) -> None:
    before = health(table)
    table.append(pa.table({"id": [1], "region": ["east"]}), branch="audit")
    found = health(table.refresh())
    assert (found.files, found.snapshot) == (before.files, before.snapshot)
    assert found.snapshots is not None
    assert found.snapshots.snapshots == len(table.snapshots())


@pytest.mark.parametrize("is_rolled_back", [True, False], ids=["rolled back", "another branch"])
def test_statistics_of_what_main_does_not_have_are_none_of_main(table: Table, is_rolled_back: bool) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    daily = MaintenancePolicy.from_mapping({"statistics": {"every": "P7D"}}, "policy")

    def planned() -> list[str]:
        return [each.action for each in plan_of(health(table.refresh()), daily, later).actions]

    def computed(branch: str) -> None:
        newest = table.refresh().metadata.refs[branch].snapshot_id
        file = StatisticsFile.model_validate(
            {
                "snapshot-id": newest,
                "statistics-path": f"{table.location()}/metadata/{newest}.stats",
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
        )
        table.update_statistics().set_statistics(file).commit()

    branch, head = ("main", table.current_snapshot()) if is_rolled_back else ("audit", None)
    table.append(pa.table({"id": [1], "region": ["east"]}), branch=branch)
    computed(branch)
    assert "compute-statistics" not in planned() or not is_rolled_back
    if head is not None:
        table.manage_snapshots().rollback_to_snapshot(head.snapshot_id).commit()
    assert "compute-statistics" in planned()
    computed("main")
    assert "compute-statistics" not in planned()


def test_a_branch_with_the_name_of_a_tag_is_no_tag_and_no_run_tries_to_make_that(table: Table) -> None:
    now, head = datetime(2026, 11, 26, 12, tzinfo=UTC), table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "daily-2026-11-26").commit()
    table.manage_snapshots().create_tag(head.snapshot_id, "weekly-2026-W48").commit()
    found = health(table)
    assert (found.tags, found.branches) == (("weekly-2026-W48",), ("daily-2026-11-26",))
    made = plan_of(
        found, MaintenancePolicy.from_mapping({"tags": {"daily": 7, "weekly": 4, "monthly": 1}}, "policy"), now
    )
    assert [each.task["tag"] for each in made.actions if each.action == "create-tag"] == ["monthly-2026-11"]
    assert [each.is_unsupported for each in made.not_planned if each.action == "create-tag"] == [True]


def test_a_consumer_that_read_what_a_rollback_took_off_main_counts_before_one_that_is_behind(table: Table) -> None:
    snapshots = [each.snapshot_id for each in table.snapshots()]
    changes = table.manage_snapshots()
    changes.create_tag(snapshots[-1], "lake.consumer.lost").create_tag(snapshots[0], "lake.consumer.late").commit()
    assert not [each for each in health(table).findings if each.name == "consumers"]
    table.manage_snapshots().rollback_to_snapshot(snapshots[-2]).commit()
    (part,) = [each for each in health(table).findings if each.name == "consumers"]
    assert part.reason.startswith(f"consumer lost has read up to snapshot {snapshots[-1]}, which main no longer has")
