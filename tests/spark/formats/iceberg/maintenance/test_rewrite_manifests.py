"""Rewrites of manifests alone: fewer lists, the same files, whatever spec and version they are of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.types import StructType
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import rewrite_manifests, rewrite_of_manifests


def live_paths(table: MaintainedTable) -> set[str]:
    """Data and delete files, by PyIceberg."""
    found = table.outside().scan().plan_files()
    return {path for task in found for path in (task.file.file_path, *(each.file_path for each in task.delete_files))}


def plain(kind: StructType, record: Any) -> dict[str, Any]:
    """Return a record of Avro by the names of its fields."""
    values = {field.name: (field.field_type, record[place]) for place, field in enumerate(kind.fields)}
    return {
        name: plain(of, value) if isinstance(of, StructType) and value is not None else value
        for name, (of, value) in values.items()
    }


def entries_of(table: MaintainedTable, location: str) -> list[dict[str, Any]]:
    """What an Avro file of the metadata says, with the fields that PyIceberg itself leaves out."""
    file: AvroFile[Any] = AvroFile(table.outside().io.new_input(location))
    with file as reader:
        return [plain(reader.schema.as_struct(), record) for record in reader]


def lineage_of_files(table: MaintainedTable) -> dict[str, tuple[int, int, int]]:
    """First row id and both sequence numbers of each live data file, inherited as the spec of Iceberg has it."""
    head, files = table.outside().metadata.current_snapshot(), dict[str, tuple[int, int, int]]()
    assert head is not None
    for manifest in entries_of(table, head.manifest_list):
        following = manifest["first_row_id"]
        for entry in entries_of(table, manifest["manifest_path"]) if manifest["content"] == 0 else ():
            file, numbers = entry["data_file"], (entry["sequence_number"], entry["file_sequence_number"])
            if entry["status"] == ManifestEntryStatus.DELETED:
                continue
            first = file["first_row_id"]
            if first is None:
                first, following = following, following + file["record_count"]
            sequence, of_file = (manifest["sequence_number"] if each is None else each for each in numbers)
            files[file["file_path"]] = first, sequence, of_file
    return files


def manifests(table: MaintainedTable) -> Counter[tuple[int, Any]]:
    """Manifests by spec and content, by PyIceberg."""
    outside = table.outside()
    head = outside.metadata.current_snapshot()
    assert head is not None
    return Counter((each.partition_spec_id, each.content) for each in head.manifests(outside.io))


def with_two_specs(table: MaintainedTable) -> MaintainedTable:
    """Two manifests of each of two partition specs."""
    for place in range(4):
        if place == 2:
            table.spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD bucket(4, id)")
        table.append(place * 10, 10, "north" if place % 2 else "south")
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_manifests_of_each_spec_are_merged_and_no_file_is_lost(spark: SparkSession, version: int) -> None:
    """apache/iceberg#16263, #16699, #17039: rows got other ids or sequence numbers by merged manifests."""
    # A writer of Iceberg merges the manifests of specs before the newest.
    as_written = {"commit.manifest-merge.enabled": "false"}
    table = with_two_specs(MaintainedTable(spark, version=version, partitioned=True, properties=as_written))
    if version >= 2:
        table.delete([3])
        table.delete([15])
    files, before = live_paths(table), manifests(table)
    lineage, rows = (lineage_of_files(table), table.lineage()) if version == 3 else ({}, {})
    planned = table.on_worker().plan_manifests(rewrite_of_manifests(table))

    report = rewrite_manifests(table)

    assert (planned.outcome, report.outcome) == (Outcome.PLANNED, Outcome.DONE)
    assert live_paths(table) == files
    if version == 3:
        assert (lineage_of_files(table), table.lineage()) == (lineage, rows)
        assert len(lineage) == len({first for first, *_ in lineage.values()}) == len(table.live_files())
    assert table.rows_read() == table.rows
    assert manifests(table) == Counter(before.keys())
    assert {before[id_, ManifestContent.DATA] for id_ in (0, 1)} == {2}
    assert (report.manifests_rewritten, report.manifests_added) == (before.total(), len(before))
    assert (planned.manifests_rewritten, planned.manifests_added) == (before.total(), len(before))
    assert len(report.committed) == 2
    again = rewrite_manifests(table)
    assert (again.outcome, again.committed) == (Outcome.NOTHING_DUE, ())
    assert table.on_worker().plan_manifests(rewrite_of_manifests(table)).outcome is Outcome.NOTHING_DUE


def merge(session: SparkSession, name: str) -> None:
    """Merge manifests by Iceberg's own procedure."""
    session.sql(f"CALL system.rewrite_manifests('{name}')")


def test_a_writer_that_has_merged_them_first_wins(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    for place in range(3):
        table.append(place * 10, 10)
    session = table.other_session()
    progress = ProgressThatRuns("rewrite", lambda: merge(session, table.name))

    report = rewrite_manifests(table, progress)

    assert (report.outcome, report.committed) == (Outcome.CONFLICT, ())
    assert "a writer was in the way" in report.reason
    assert report.after is not None
    assert report.after.manifests == 1
    assert table.rows_read() == table.rows
