"""An Iceberg table says of a change what it means for writers of Flink, and for readers of what was before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.update import SetLocationUpdate

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport
from airflow_lake_provider.contracts.specs.metadata_changes import TableUpgradeSpec
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.iceberg.metadata_facts import IcebergSnapshot
from airflow_lake_provider.planning.metadata_changes import plan_upgrade
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

STAYS = (
    "has position delete files of version 2; they stay valid, and are replaced by deletion vectors when their data "
    "files are changed or compacted"
)
OF_FLINK = {"flink.job-id": "job", "flink.max-committed-checkpoint-id": "7"}


@pytest.fixture
def written_by_flink(lake_catalog: SqlCatalog) -> LoadedIcebergTable:
    """A table of version 1 with one commit, that of a job of Flink."""
    schema = pa.schema([("id", pa.int64())])
    table = lake_catalog.create_table("shop.orders", schema=schema, properties={"format-version": "1"})
    table.append(pa.table({"id": [1]}, schema=schema), snapshot_properties=OF_FLINK)
    return LoadedIcebergTable(table)


def test_a_table_that_moved_has_files_where_it_was(lake_catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = lake_catalog.create_table("shop.moved", schema=schema)
    table.append(pa.table({"id": [1]}, schema=schema))
    before = table.location()
    assert LoadedIcebergTable(table).locations() == (before,)
    with table.transaction() as change:
        change._apply((SetLocationUpdate(location=f"{before}_new"),))
    table.append(pa.table({"id": [2]}, schema=schema))
    assert LoadedIcebergTable(lake_catalog.load_table("shop.moved")).locations() == (f"{before}_new", before)


def test_the_paths_that_earlier_metadata_declared_are_read_on_request(lake_catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = lake_catalog.create_table("shop.moved", schema=schema, properties={"write.data.path": "s3://b/first"})
    location = table.location()
    for path in ("s3://b/second", "s3://b/third"):
        with table.transaction() as change:
            change.set_properties({"write.data.path": path})
    loaded = LoadedIcebergTable(lake_catalog.load_table("shop.moved"))
    assert loaded.locations() == (location, "s3://b/third")
    earlier = ("s3://b/first", "s3://b/second")
    assert loaded.locations(of_earlier_versions=True) == (location, "s3://b/third", *earlier)
    # A version that is gone says nothing; those after it do.
    Path(loaded.facts.metadata_log[0][1].removeprefix("file://")).unlink()
    assert loaded.locations(of_earlier_versions=True) == (location, "s3://b/third", "s3://b/second")


def test_a_dot_within_a_level_of_a_name_is_none_between_two(lake_catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    names = ("shop", "a.b"), ("shop", "a", "b")
    tables = [lake_catalog.create_table(("shop", f"t{n}"), schema=schema) for n in range(2)]
    for table, levels in zip(tables, names, strict=True):
        table._identifier = levels
    assert [LoadedIcebergTable(table).facts.name for table in tables] == ["shop.a%2Eb", "shop.a.b"]


def test_bounds_older_than_the_type_of_their_column_say_nothing(lake_catalog: SqlCatalog, tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.date32())])
    table = lake_catalog.create_table("shop.days", schema=schema)
    table.append(pa.table({"day": [date(2026, 11, 26)]}, schema=schema))
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    # Version 3 lets a date become a timestamp, and files keep bounds of four bytes.
    metadata["schemas"][0]["fields"][0]["type"] = "timestamp"
    (tmp_path / "promoted.metadata.json").write_text(json.dumps(metadata))
    loaded = LoadedIcebergTable(StaticTable.from_metadata(f"file://{tmp_path}/promoted.metadata.json"))
    (file,) = loaded.live_files(None, loaded.column("day")).data
    assert (file.records, file.bounds) == (1, None)
    with pytest.raises(InvalidSpecError, match="does not fit the table"):
        loaded.live_files("day < '2026-01-01T00:00:00'")


def having(table: LoadedIcebergTable, facts: TableFacts) -> LoadedIcebergTable:
    """Return the table with other facts than PyIceberg can write."""
    table.__dict__["facts"] = facts
    return table


def newest_of(table: LoadedIcebergTable) -> IcebergSnapshot:
    newest = table.facts.newest()
    assert newest is not None
    return newest


def upgrade(table: LoadedIcebergTable, version: int, *, allow: bool = False) -> MetadataChangeReport:
    asked = RunIdentity.of("run")
    spec = TableUpgradeSpec(
        catalog="lake", table="shop.orders", run=asked, format_version=version, allow_other_writers=allow
    )
    return plan_upgrade(table, spec).report


def test_an_upgrade_to_version_2_harms_no_writer_and_changes_nothing_for_readers(
    written_by_flink: LoadedIcebergTable,
) -> None:
    assert upgrade(written_by_flink, 2).warnings == ()


def test_an_upgrade_to_version_3_warns_of_row_ids_of_old_deletes_and_of_writers(
    written_by_flink: LoadedIcebergTable,
) -> None:
    with pytest.raises(UnsupportedError, match="Flink job job"):
        upgrade(written_by_flink, 3)
    row_ids, job = upgrade(written_by_flink, 3, allow=True).warnings
    assert row_ids.startswith("rows get row ids with the next commit")
    assert job.startswith("Flink job job")
    newest = newest_of(written_by_flink)
    deleting = replace(newest, summary={**newest.summary, "total-position-deletes": "3"})
    table = having(written_by_flink, replace(written_by_flink.facts, snapshots={newest.id: deleting}))
    assert upgrade(table, 3, allow=True).warnings == (
        row_ids,
        f"shop.orders {STAYS}",
        job,
    )


def test_a_table_without_rows_is_upgraded_without_a_word(lake_catalog: SqlCatalog) -> None:
    table = lake_catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
    assert upgrade(LoadedIcebergTable(table), 3).warnings == ()


def test_rows_of_before_a_column_got_another_type_cannot_be_compared(written_by_flink: LoadedIcebergTable) -> None:
    shape, newest = written_by_flink.facts.shape, newest_of(written_by_flink)
    then = {"fields": [{"id": 1, "name": "id", "required": False, "type": "string"}]}
    shape = replace(shape, schemas={**shape.schemas, 7: then})
    table = having(written_by_flink, replace(written_by_flink.facts, read_shape=lambda: shape))
    assert table.incomparable_since(newest) is None
    why = table.incomparable_since(replace(newest, schema_id=7))
    assert f"replaced since snapshot {newest.id}, or rolled back" in str(why)
    assert "Columns have other types now: id was string, now long" in str(why)


def test_earlier_versions_are_read_from_a_moment_on_alone(orders: Table, append: Callable[..., int]) -> None:
    ids = [str(append(orders, number)) for number in range(3)]
    table = LoadedIcebergTable(orders)
    written = [at for at, _ in table.facts.metadata_log]
    assert [version.head() for version in table.versions_since(0)] == [None, *ids]
    assert [version.head() for version in table.versions_since(written[-1] + 1)] == ids[-1:]
