"""Tables of metadata alone: each way to be ill is named, a well table scores high, and nobody opens a data file."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_lake_provider.maintenance.health import TableHealth, health_of
from airflow_lake_provider.maintenance.score import HealthLimits
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.made_tables import ILL, MIB, MadeDelete, MadeFile, MadeTable, copied, spread, well_table

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def health(table: MadeTable, folder: Path, **declared: Any) -> TableHealth:
    loaded = StaticTable.from_metadata(table.write(folder / "t", NOW))
    return health_of(LoadedIcebergTable(loaded), NOW, HealthLimits(**declared))


# Nobody counts the bytes of a table that PyIceberg has parsed; a catalog's own reading does.
@pytest.mark.parametrize("illness", sorted(ILL.keys() - {"metadata-size"}))
def test_each_way_to_be_ill_is_found_and_said_with_its_remedy(illness: str, tmp_path: Path) -> None:
    found = health(ILL[illness], tmp_path)
    assert illness in [part.name for part in found.findings]
    assert found.score is not None
    assert found.score < 100
    reason = next(part.reason for part in found.findings if part.name == illness)
    assert "; " in reason
    assert reason.endswith(".")


@pytest.mark.parametrize("number", range(6))
def test_a_well_table_has_all_points_and_its_manifests_are_not_read(number: int, tmp_path: Path) -> None:
    found = health(well_table(number), tmp_path)
    assert (found.score, found.suspected, found.manifests_read, found.is_suspect) == (100, (), False, False)


def test_a_table_without_a_snapshot_has_nothing_to_mend(tmp_path: Path) -> None:
    found = health(MadeTable(files=[], ages=()), tmp_path)
    assert (found.score, found.snapshot, found.findings) == (100, None, ())
    assert found.snapshots is not None
    assert found.snapshots.oldest is None


def test_small_files_that_are_alone_in_their_partitions_are_none_to_mend(tmp_path: Path) -> None:
    alone = MadeTable(files=[MadeFile(MIB, day=day, manifest=day % 3) for day in range(20)])
    found = health(alone, tmp_path)
    assert found.suspected == ("small-files",)
    assert found.files is not None
    assert (found.files.small_files, found.files.mergeable_files, found.score) == (20, 0, 100)


def test_files_are_counted_by_their_size_against_the_target(tmp_path: Path) -> None:
    sizes = [*[1] * 30, 8 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 383 * MIB, 384 * MIB, 512 * MIB, 922 * MIB, 5000 * MIB]
    found = health(MadeTable(files=[MadeFile(size) for size in sizes]), tmp_path)
    assert found.files is not None
    assert found.files.target_bytes == 512 * MIB
    shares = [size / (512 * MIB) for size in sizes]
    ends = (0, 1 / 64, 1 / 16, 1 / 4, 3 / 4, 1.8, 1e9)
    expected = tuple(sum(low <= share < high for share in shares) for low, high in pairwise(ends))
    assert found.files.by_size == expected


def test_many_small_files_behind_large_ones_are_looked_for_in_what_commits_added(tmp_path: Path) -> None:
    files = [*spread(20, 512 * MIB), *(MadeFile(1000) for _ in range(8))]
    added = {"added-data-files": "8", "added-files-size": "8000"}
    before = {number: {"total-data-files": "20"} for number in range(4)}
    found = health(MadeTable(files=files, summaries={**before, 4: added}), tmp_path)
    assert found.suspected == ("small-files",)
    assert found.files is not None
    assert found.files.mergeable_files == 7


@pytest.mark.parametrize(
    "totals", [None, {"total-data-files": "no number"}, {"total-files-size": "-5"}], ids=["none", "words", "negative"]
)
def test_a_summary_that_does_not_count_is_no_proof_of_health(totals: dict[str, str] | None, tmp_path: Path) -> None:
    found = health(replace(ILL["small-files"], totals=totals), tmp_path)
    assert "no-summary" in found.suspected
    assert found.files is not None
    assert (found.files.data_files, found.files.data_bytes) == (20, 20 * MIB)
    assert "small-files" in [part.name for part in found.findings]


def test_manifests_correct_a_summary_that_lies(tmp_path: Path) -> None:
    lies = {"total-data-files": "999999", "total-files-size": "999999", "total-equality-deletes": "5"}
    found = health(MadeTable(files=spread(20, 450 * MIB), totals=lies), tmp_path)
    assert found.manifests_read
    assert (found.score, found.files and found.files.data_files) == (100, 20)


def test_a_partition_with_many_deletes_is_named(tmp_path: Path) -> None:
    rows = [MadeDelete("position", 3000, day=2)]
    found = health(MadeTable(files=spread(20, 450 * MIB), deletes=rows), tmp_path)
    assert found.deletes is not None
    assert [(each.partition, each.deleted_share) for each in found.deletes.partitions] == [("day=2", 0.5)]
    assert "partition-deletes" in [part.name for part in found.findings]


def test_deletes_are_told_apart_by_kind(tmp_path: Path) -> None:
    deletes = [
        MadeDelete("position", 2000, target=0),
        MadeDelete("vector", 300, target=1),
        MadeDelete("equality", 70),
        MadeDelete("position", 9, target=-1),
    ]
    found = health(MadeTable(files=spread(20, 450 * MIB), version=3, deletes=deletes), tmp_path).deletes
    assert found is not None
    assert (found.position_deletes, found.vector_deletes, found.equality_deletes) == (2009, 300, 70)
    assert (found.delete_files, found.deleted_rows, found.dangling_files) == (4, 2309, 1)


def test_hot_partitions_come_from_the_manifests_of_a_suspect(tmp_path: Path) -> None:
    found = health(ILL["small-files"], tmp_path)
    assert [(each.partition, each.commits, each.files) for each in found.hot_partitions] == [
        ("day=0", 1, 7),
        ("day=1", 1, 7),
        ("day=2", 1, 6),
    ]


def test_hot_partitions_come_from_summaries_where_a_table_has_them(tmp_path: Path) -> None:
    said = {place: {"partitions.day=7": "added-data-files=1"} for place in (2, 4)}
    found = health(MadeTable(files=spread(20, 450 * MIB), summaries=said), tmp_path)
    assert [(each.partition, each.commits, each.files) for each in found.hot_partitions] == [("day=7", 2, None)]
    assert found.hot_partitions[0].newest == NOW - timedelta(hours=1)
    assert found.hot_partitions[0].oldest == NOW - timedelta(hours=3)
    assert not found.manifests_read


def test_a_consumer_is_behind_by_what_it_has_not_read(tmp_path: Path) -> None:
    (consumer,) = health(ILL["consumers"], tmp_path).consumers
    assert (consumer.consumer, consumer.snapshot, consumer.commits) == ("report", "1", 4)
    assert consumer.behind == timedelta(days=8)


def test_old_rows_count_against_a_declared_limit_alone(tmp_path: Path) -> None:
    unchanged = replace(well_table(), ages=tuple(timedelta(days=day) for day in (4, 3, 2)))
    assert health(unchanged, tmp_path / "a").score == 100
    stale = health(unchanged, tmp_path / "b", fresh_within=timedelta(days=1))
    assert [part.name for part in stale.findings] == ["freshness"]
    assert stale.last_data_commit == NOW - timedelta(days=2)


def test_maintenance_is_known_by_its_action_and_changes_no_rows(tmp_path: Path) -> None:
    summaries = {4: {"operation": "replace"}, 3: {"operation": "replace", "lake.action": "compaction"}}
    found = health(MadeTable(files=spread(20, 450 * MIB), summaries=summaries), tmp_path)
    assert {action: run.snapshot for action, run in found.last_maintenance.items()} == {
        "replace": "5",
        "compaction": "4",
    }
    assert found.last_data_commit == NOW - timedelta(hours=3)


def test_a_copy_of_a_table_has_files_of_its_own_and_the_same_health(tmp_path: Path) -> None:
    original = ILL["small-files"].write(tmp_path / "t0", NOW)
    copy = copied(original, "t1")
    (tmp_path / "t0").rename(tmp_path / "gone")
    found = health_of(LoadedIcebergTable(StaticTable.from_metadata(copy)), NOW)
    assert found.manifests_read
    assert "small-files" in [part.name for part in found.findings]


def test_health_goes_through_json_and_back(tmp_path: Path) -> None:
    for number, table in enumerate([ILL["deletion-vectors"], ILL["consumers"], well_table()]):
        found = health(table, tmp_path / str(number))
        assert TableHealth.from_json(found.to_json()) == found
