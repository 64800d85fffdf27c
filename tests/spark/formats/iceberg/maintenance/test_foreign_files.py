"""Files that a table's metadata names and that are not the table's: no action of ours deletes one of them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import ExpiryReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import ForeignFiles, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import file_owners
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.file_owners import other_tables
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry
from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable


def expiry(table: MaintainedTable, foreign_files: ForeignFiles = ForeignFiles.REFUSE) -> SnapshotExpirySpec:
    now = datetime.now(UTC) + timedelta(minutes=1)
    return SnapshotExpirySpec(
        catalog=CATALOG,
        table=table.name,
        run=RUN,
        expire_before=now,
        expire_stage_branches_before=now,
        foreign_files=foreign_files,
    )


def expire(table: MaintainedTable, foreign_files: ForeignFiles = ForeignFiles.REFUSE) -> ExpiryReport:
    return expire_snapshots(table.spark, expiry(table, foreign_files), Progress())


def snapshots(table: MaintainedTable) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.outside().metadata.snapshots}


def ids_outside(table: MaintainedTable) -> list[int]:
    """Ids by PyIceberg, without Spark."""
    return sorted(table.outside().scan().to_arrow()["id"].to_pylist())


def orders(spark: SparkSession) -> MaintainedTable:
    """A table with two data files, written by two commits."""
    table = MaintainedTable(spark, version=2)
    table.append(0, 3)
    table.append(3, 3)
    return table


def spellings(table: MaintainedTable, folder: Path) -> dict[str, str]:
    """Locations of files that are not the table's, each a file that is there."""
    location = str(table.handle.java.location())
    own = hostile.on_disk(location)
    plain = {name: hostile.victim(folder, name) for name in ("scheme", "one_slash", "no_scheme", "slashes", "dots")}
    beside = hostile.victim(own.parent, f"{own.name}foo/data/beside")
    hostile.victim(folder, "linked/link")
    (own / "data" / "way").symlink_to(folder / "linked")
    up = "/".join([".."] * len(own.parts[1:]))
    return {
        "scheme": f"file://{plain['scheme']}",
        "one_slash": f"file:{plain['one_slash']}",
        "no_scheme": str(plain["no_scheme"]),
        "slashes": f"file:////{plain['slashes']}".replace("/////", "////"),
        "dots": f"{location}/{up}{plain['dots']}",
        "beside": f"file://{beside}",
        "link": f"{location}/data/way/link",
        "dots_in_data": f"{location}/data/../../{own.name}foo/data/beside2",
    }


def test_data_files_outside_the_table_are_kept_however_their_path_is_spelled(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = orders(spark)
    base = hostile.head(table)
    named = spellings(table, tmp_path)
    hostile.victim(
        hostile.on_disk(str(table.handle.java.location())).parent, f"{named['beside'].split('/')[-3]}/data/beside2"
    )
    hostile.add_data_file(table, *named.values())
    hostile.back_to(table, base)

    report = expire(table)

    assert report.outcome is Outcome.DONE
    assert {name for name, location in named.items() if not hostile.on_disk(location).exists()} == set()
    assert f"{len(named)} data files outside of the table's locations" in " ".join(report.warnings)
    assert report.data_files_deleted == 0
    assert snapshots(table) == {base}
    assert ids_outside(table) == sorted(table.rows)


def other_kinds(table: MaintainedTable, folder: Path) -> dict[str, Path]:
    """Let the metadata name a foreign file of each kind that add_files does not bring."""
    base = hostile.head(table)
    victims = {name: hostile.victim(folder, name) for name in ("deletes", "statistics", "partitions")}
    hostile.add_delete_file(table, f"file://{victims['deletes']}")
    hostile.add_statistics(table, f"file://{victims['statistics']}")
    hostile.add_statistics(table, f"file://{victims['partitions']}", partition=True)
    hostile.back_to(table, base)
    victims["manifest-list"] = folder / "manifest-list"

    def move_manifest_list(metadata: dict[str, Any]) -> None:
        gone = next(s for s in metadata["snapshots"] if s["snapshot-id"] != base and "parent-snapshot-id" in s)
        shutil.copy(hostile.on_disk(gone["manifest-list"]), victims["manifest-list"])
        gone["manifest-list"] = f"file://{victims['manifest-list']}"

    hostile.write_metadata(table, move_manifest_list)
    return victims


def test_other_files_outside_the_table_are_refused_before_the_commit_and_kept_when_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = orders(spark)
    victims = other_kinds(table, tmp_path)
    before = snapshots(table)

    with pytest.raises(UnsupportedError) as refused:
        expire(table)

    assert {name for name, path in victims.items() if str(path) not in str(refused.value)} == set()
    assert snapshots(table) == before
    with pytest.raises(UnsupportedError, match="manifest list"):
        plan_expiry(LoadedIcebergTable(table.outside()), expiry(table))
    report = expire(table, ForeignFiles.KEEP)
    assert report.outcome is Outcome.DONE
    assert report.delete_files_deleted == report.statistics_deleted == 0
    assert {name for name, path in victims.items() if not path.exists()} == set()
    assert ids_outside(table) == sorted(table.rows)


def test_files_outside_the_table_are_deleted_by_who_asks_for_it(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(spark)
    base = hostile.head(table)
    brought = hostile.victim(tmp_path, "brought")
    hostile.add_data_file(table, f"file://{brought}")
    hostile.back_to(table, base)
    victims = other_kinds(table, tmp_path)

    report = expire(table, ForeignFiles.DELETE)

    assert (report.data_files_deleted, report.delete_files_deleted, report.statistics_deleted) == (1, 1, 2)
    assert {name for name, path in {**victims, "brought": brought}.items() if path.exists()} == set()
    assert ids_outside(table) == sorted(table.rows)


def test_as_many_tables_of_the_namespace_are_looked_at_as_there_is_time_for_and_the_rest_is_said(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = orders(spark), orders(spark)
    everything = other_tables(table.handle)
    assert other.name.removeprefix(f"{CATALOG}.") in {found.name for found in everything.locations}
    assert everything.not_checked == []

    few = other_tables(table.handle, most=1)
    assert len(few.locations) == 1
    assert few.not_checked == [f"tables of the namespace beyond the first 1 of {len(everything.locations):,}"]
    # What an expiry before it has seen takes no time.
    assert other_tables(table.handle, seconds=-1) == everything
    monkeypatch.setattr(file_owners, "LOOK_SECONDS", 0.0)
    none = other_tables(table.handle, seconds=-1)
    assert none.locations == []
    assert none.not_checked == [
        f"{len(everything.locations):,} tables of the namespace, for which -1 seconds were over"
    ]


def test_expiries_of_an_application_look_at_a_table_once_a_minute_and_at_new_ones_each_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = orders(spark), orders(spark)

    def places(of: MaintainedTable) -> list[str]:
        session = of.other_session()
        found = other_tables(IcebergTable(session, CATALOG, TableName.parse(table.name))).locations
        return [place for each in found if each.name == of.name for place in (each.location, *each.declared)]

    (first,) = places(other)
    spark.sql(f"ALTER TABLE {other.name} SET TBLPROPERTIES ('write.data.path'='file://{tmp_path}')")
    assert places(other) == [first]
    assert places(orders(spark)) != []
    monkeypatch.setattr(file_owners, "LOOK_SECONDS", 0.0)
    assert places(other) == [first, f"file://{tmp_path}"]
    spark.sql(f"DROP TABLE {other.name}")
    assert places(other) == []


def test_a_live_file_that_is_also_named_as_something_to_delete_stays(spark: SparkSession) -> None:
    table = orders(spark)
    base = hostile.head(table)
    live = sorted(hostile.on_disk(file) for file in table.live_files())
    manifests = str(table.handle.java.currentSnapshot().manifestListLocation())
    hostile.add_delete_file(table, f"file:////{live[0]}")
    hostile.add_statistics(table, f"file:{live[1]}")
    hostile.add_statistics(table, manifests, partition=True)
    hostile.back_to(table, base)

    report = expire(table)

    assert report.outcome is Outcome.DONE
    assert report.delete_files_deleted == report.statistics_deleted == 0
    assert ids_outside(table) == sorted(table.rows)


def test_a_table_that_names_files_of_another_one_is_refused_and_both_stay_readable(spark: SparkSession) -> None:
    table, other = orders(spark), orders(spark)
    base = hostile.head(table)
    hostile.add_data_file(table, *other.live_files())
    hostile.back_to(table, base)

    with pytest.raises(UnsupportedError, match=f"2 data files of {other.name}"):
        expire(table)

    assert expire(table, ForeignFiles.KEEP).outcome is Outcome.DONE
    assert ids_outside(other) == sorted(other.rows)
    assert ids_outside(table) == sorted(table.rows)


def test_a_declared_path_that_reaches_over_other_tables_makes_nothing_the_tables_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, other = orders(spark), orders(spark)
    base = hostile.head(table)
    hostile.add_data_file(table, *other.live_files(), f"file://{hostile.victim(tmp_path, 'lone')}")
    hostile.back_to(table, base)
    wide = hostile.on_disk(str(table.handle.java.location())).parent
    for declared in (f"file://{wide}", "file:///", str(other.handle.java.location())):
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.data.path'='{declared}')")
        with pytest.raises(UnsupportedError, match=other.name):
            expire(table)
    assert ids_outside(other) == sorted(other.rows)
    assert (tmp_path / "lone").exists()


def test_a_table_that_is_registered_twice_is_refused_and_its_twin_stays_readable(spark: SparkSession) -> None:
    table = orders(spark)
    metadata = table.handle.java.operations().current().metadataFileLocation()
    twin = f"{table.name}_twin"
    spark.sql(f"CALL lake_default.system.register_table(table => '{twin}', metadata_file => '{metadata}')")
    files = table.live_files()

    with pytest.raises(UnsupportedError, match=f"{twin} has the same table uuid"):
        expire(table)

    report = expire(table, ForeignFiles.KEEP)
    assert report.outcome is Outcome.DONE
    assert len(report.snapshots_expired) == 1
    assert all(hostile.on_disk(file).exists() for file in files)
    assert spark.sql(f"SELECT count(*) FROM {twin}").collect()[0][0] == len(table.rows)


@pytest.mark.parametrize("kind", ["manifest list", "manifest", "no manifest list"])
def test_nothing_is_forgotten_where_a_file_of_a_snapshot_cannot_be_read(spark: SparkSession, kind: str) -> None:
    table = orders(spark)
    spark.sql(f"DELETE FROM {table.name} WHERE id < 3")
    first = table.handle.java.currentSnapshot()
    before = snapshots(table)
    oldest = table.handle.java.snapshot(table.outside().metadata.snapshots[0].snapshot_id)
    path = hostile.on_disk(str(oldest.manifestListLocation()))
    if kind == "manifest":
        path = hostile.on_disk(str(oldest.allManifests(table.handle.java.io())[0].path()))
    if kind == "no manifest list":
        path.write_text("nothing of Avro")
    else:
        path.unlink()
    assert first is not None

    for _ in range(2):
        with pytest.raises(UnsupportedError, match=f"(?s){path.name}.*drop the branches and tags that keep"):
            expire(table)
        assert snapshots(table) == before


@pytest.mark.parametrize(
    "named",
    ["outside", "dots", "beside", "data file", "manifest", "link", "other table", "no scheme"],
)
def test_no_commit_deletes_what_a_metadata_log_names_and_is_no_metadata_of_the_table(
    spark: SparkSession, tmp_path: Path, named: str
) -> None:
    table, other = orders(spark), orders(spark)
    location = str(table.handle.java.location())
    own = hostile.on_disk(location)
    up = "/".join([".."] * len((own / "metadata").parts[1:]))
    hostile.victim(tmp_path, "dots.metadata.json")
    hostile.victim(own.parent, f"{own.name}foo/metadata/1.metadata.json")
    hostile.victim(tmp_path, "linked/1.metadata.json")
    (own / "metadata" / "way").symlink_to(tmp_path / "linked")
    path = {
        "outside": f"file://{hostile.victim(tmp_path, 'outside.txt')}",
        "dots": f"{location}/metadata/{up}{tmp_path}/dots.metadata.json",
        "beside": f"file://{own.parent}/{own.name}foo/metadata/1.metadata.json",
        "data file": table.live_files()[0],
        "manifest": str(table.handle.java.currentSnapshot().manifestListLocation()),
        "link": f"{location}/metadata/way/1.metadata.json",
        "other table": str(other.handle.java.operations().current().metadataFileLocation()),
        "no scheme": str(hostile.victim(tmp_path, "1.metadata.json")),
    }[named]

    def name_it(metadata: dict[str, Any]) -> None:
        metadata["metadata-log"] = [{"metadata-file": path, "timestamp-ms": metadata["last-updated-ms"] - 10}]
        metadata["properties"] |= {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        }

    hostile.write_metadata(table, name_it)
    with pytest.raises(UnsupportedError, match="metadata log names"):
        expire(table)
    assert hostile.on_disk(path).exists()
    assert ids_outside(other) == sorted(other.rows)


def test_earlier_metadata_of_the_table_is_deleted_after_a_commit_wherever_it_lay(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = orders(spark)
    old = table.handle.java.operations().current().metadataFileLocation()
    moved = tmp_path / "metadata"
    properties = "'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='1'"
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.metadata.path'='file://{moved}', {properties})")

    assert expire(table).outcome is Outcome.DONE

    assert not hostile.on_disk(old).exists()
    assert ids_outside(table) == sorted(table.rows)
