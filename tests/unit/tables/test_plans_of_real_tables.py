from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.errors import BrokenMetadataError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec, StatisticsSpec
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry

RUN = RunIdentity.of("dag", "run", "task", "-1")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Six small files in two partitions, each its own snapshot."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_REGION)
    for place in range(6):
        region = "north" if place % 3 else "south"
        table.append(pa.table({"id": [place, place + 10], "region": [region, region]}))
    yield table
    catalog.engine.dispose()


def compaction(**arguments: object) -> CompactionSpec:
    return CompactionSpec(catalog="lake", table="shop.orders", run=RUN, **arguments)  # type: ignore[arg-type]  # as kwargs


def expiry(**arguments: object) -> SnapshotExpirySpec:
    everything = {"expire_before": datetime.now(UTC) + timedelta(minutes=1), "expire_stage_branches_before": LONG_AGO}
    return SnapshotExpirySpec(catalog="lake", table="shop.orders", run=RUN, **{**everything, **arguments})  # type: ignore[arg-type]  # as kwargs


def test_a_plan_counts_the_files_that_each_partition_would_merge(table: Table) -> None:
    report = plan_compaction(LoadedIcebergTable(table), compaction(min_input_files=3))

    sizes = {f["file_path"]: f["file_size_in_bytes"] for f in table.inspect.files().to_pylist()}
    north = [size for path, size in sizes.items() if "region=north" in path]
    assert report.outcome is Outcome.PLANNED
    assert (report.groups_rewritten, report.files_rewritten) == (1, 4)
    assert report.bytes_rewritten == sum(north)
    assert report.level == "minor"
    assert "4 data files" in report.reason
    assert report.before is not None
    assert (report.before.data_files, report.before.rows, report.before.snapshots) == (6, 12, 6)


def test_an_expiry_of_many_snapshots_is_planned_at_once(table: Table, tmp_path: Path) -> None:
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    head = metadata["snapshots"][-1]
    ids = range(10**15, 10**15 + 20_000)
    parents = [None, *ids]
    earlier = [
        {**head, "snapshot-id": id_, "parent-snapshot-id": parent} for id_, parent in zip(ids, parents, strict=False)
    ]
    changed = {**metadata, "snapshots": [*earlier, {**head, "parent-snapshot-id": ids[-1]}], "snapshot-log": []}
    (tmp_path / "long.metadata.json").write_text(json.dumps(changed))
    loaded = LoadedIcebergTable(StaticTable.from_metadata(f"file://{tmp_path}/long.metadata.json"))
    assert len(loaded.facts.snapshots) == 20_001

    started = time.process_time()
    report = plan_expiry(loaded, expiry())

    assert time.process_time() - started < 3
    assert report.snapshots_expired == tuple(map(str, ids))


# As Java's ``URLEncoder`` says: letters, digits and ``.-*_`` stay, and a space is a plus.
@pytest.mark.parametrize(
    ("region", "escaped"), [("a~b*c d", "a%7Eb*c+d"), ("%2A/~", "%252A%2F%7E"), ("é._-", "%C3%A9._-")]
)
def test_a_partition_is_named_and_left_alone_as_iceberg_escapes_it(table: Table, region: str, escaped: str) -> None:
    for place in range(2):
        table.append(pa.table({"id": [place], "region": [region]}))
    loaded = LoadedIcebergTable(table)
    names = {loaded.partition_name(file.spec_id, file.partition) for file in loaded.live_files(None).data}
    assert names == {"region=north", "region=south", f"region={escaped}"}

    report = plan_compaction(loaded, compaction(min_input_files=2, skip_partitions=(f"region={escaped}",)))
    assert (report.groups_rewritten, report.files_rewritten) == (2, 6)


def test_a_plan_changes_nothing(table: Table) -> None:
    before = table.metadata_location

    plan_compaction(LoadedIcebergTable(table), compaction())
    plan_expiry(LoadedIcebergTable(table), expiry())

    assert table.refresh().metadata_location == before


def test_where_narrows_the_plan_to_files_that_may_match(table: Table) -> None:
    arguments = {"min_input_files": 2, "where": "region = 'south'"}

    assert plan_compaction(LoadedIcebergTable(table), compaction(min_input_files=2)).files_rewritten == 6
    assert plan_compaction(LoadedIcebergTable(table), compaction(**arguments)).files_rewritten == 2


@pytest.mark.parametrize("where", ["amount >", "nothing = 1", "upper(region) = 'X'"], ids=["syntax", "column", "call"])
def test_a_where_that_pyiceberg_cannot_read_is_refused_by_its_text(table: Table, where: str) -> None:
    with pytest.raises(InvalidSpecError, match="where="):
        plan_compaction(LoadedIcebergTable(table), compaction(where=where, min_input_files=2))


def test_a_table_of_few_files_is_answered_without_opening_its_data_manifests(table: Table) -> None:
    for path in set(table.inspect.all_manifests()["path"].to_pylist()):
        Path(path.removeprefix("file://")).unlink()

    report = plan_compaction(LoadedIcebergTable(table), compaction(min_input_files=7))

    assert report.outcome is Outcome.NOTHING_DUE


@pytest.mark.parametrize("name", ["commit.manifest.target-size-bytes", "write.target-file-size-bytes"])
def test_a_target_size_that_is_no_number_is_refused_whatever_is_due(table: Table, name: str) -> None:
    with table.transaction() as change:
        change.set_properties({name: "8M"})
    with pytest.raises(BrokenMetadataError, match=f"{name}.*8M"):
        plan_compaction(LoadedIcebergTable(table), compaction(rewrite_manifests=False))


def test_full_plans_every_file(table: Table) -> None:
    report = plan_compaction(LoadedIcebergTable(table), compaction(level=CompactionLevel.FULL))

    assert (report.groups_rewritten, report.files_rewritten) == (2, 6)


def test_an_expiry_plan_names_what_goes_and_what_keeps_the_rest(table: Table) -> None:
    ids = [str(s.snapshot_id) for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(int(ids[1]), "lake.consumer.revenue").commit()

    report = plan_expiry(LoadedIcebergTable(table), expiry(retain_last=2))

    assert report.outcome is Outcome.PLANNED
    assert report.snapshots_expired == (ids[0], ids[2], ids[3])
    assert report.kept_by_refs == {ids[1]: "lake.consumer.revenue", ids[4]: "main", ids[5]: "main"}
    assert "not counted" in report.reason


def test_a_snapshot_that_a_replaced_branch_left_behind_goes_by_age(table: Table) -> None:
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_branch(ids[0], "lake_stage_x").commit()
    table.delete("id = 0", branch="lake_stage_x")
    own = table.refresh().metadata.refs["lake_stage_x"].snapshot_id

    kept = plan_expiry(LoadedIcebergTable(table), expiry())
    swept = plan_expiry(
        LoadedIcebergTable(table), expiry(expire_stage_branches_before=datetime.now(UTC) + timedelta(minutes=1))
    )

    assert str(own) not in kept.snapshots_expired
    assert swept.stage_branches_removed == ("lake_stage_x",)
    assert str(own) in swept.snapshots_expired


def test_nothing_is_due_when_all_snapshots_are_young(table: Table) -> None:
    assert plan_expiry(LoadedIcebergTable(table), expiry(expire_before=LONG_AGO)).outcome is Outcome.NOTHING_DUE


def test_an_expiry_of_shared_files_is_skipped_and_says_why(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})

    planned = plan_expiry(LoadedIcebergTable(table), expiry())
    assert (planned.outcome, planned.snapshots_expired) == (Outcome.SKIPPED, ())
    assert "gc.enabled is false" in planned.reason


@pytest.mark.parametrize(
    ("columns", "lacking"),
    [(("id",), "its partitions"), (("region",), "the table and its partitions"), ((), "the table and its partitions")],
)
def test_a_column_that_is_asked_for_and_not_counted_makes_statistics_due(
    table: Table, columns: tuple[str, ...], lacking: str
) -> None:
    head = table.metadata.current_snapshot_id
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": head, "sequence-number": 1, "fields": [1]}
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    file = {"snapshot-id": head, "statistics-path": "file:/nowhere.stats", **sizes, "blob-metadata": [blob]}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(file))

    spec = StatisticsSpec(catalog="lake", table="shop.orders", run=RUN, of_columns=columns)
    assert LoadedIcebergTable(table).plan_statistics(spec).reason == f"main's head lacks statistics of {lacking}"
