"""Compaction leaves partitions alone by their paths: buckets, truncated texts, texts that no predicate could quote."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.maintenance.hot_partitions import hot_partitions
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact

QUOTED = 'it\'s "a" / ${b} = ü'
TERMS = {
    "bucket": ("bucket(4, id)",),
    "truncate": ("truncate(3, region)",),
    "text": ("region",),
    "no value": ("region",),
    "text and bucket": ("region", "bucket(2, id)"),
}


def files_by_partition(table: MaintainedTable) -> dict[str, set[str]]:
    """Data files of the current spec by the path of their partition, by PyIceberg."""
    outside = table.outside()
    found: dict[str, set[str]] = defaultdict(set)
    for task in outside.scan().plan_files():
        if task.file.spec_id == outside.spec().spec_id:
            found[outside.spec().partition_to_path(task.file.partition, outside.schema())].add(task.file.file_path)
    return found


@pytest.mark.parametrize(("term", "version"), [("bucket", 1), ("truncate", 2), ("no value", 3), ("text and bucket", 2)])
def test_hot_partitions_keep_their_files_and_all_others_are_merged(
    spark: SparkSession, term: str, version: int
) -> None:
    table = MaintainedTable(spark, version=version, properties={"write.summary.partition-limit": "50"})
    # Of an earlier spec. Iceberg takes them for the partition without values.
    table.append(0, 8, "south")
    table.append(8, 8, QUOTED)
    for field in TERMS[term]:
        spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD {field}")
    for place in range(2, 6):
        table.append(place * 8, 8, (None if term == "no value" else "south") if place % 2 else QUOTED)
    earlier = {task.file.file_path for task in table.outside().scan().plan_files()}
    before = files_by_partition(table)
    # As the plan of a fleet names them, by summaries.
    named = {each.partition for each in hot_partitions(list(table.on_worker().facts.ancestors()))}
    assert before.keys() <= named
    skipped = "region=null" if term == "no value" else min(before)
    asked: dict[str, Any] = {"level": CompactionLevel.MINOR, "min_input_files": 2, "skip_partitions": (skipped,)}
    planned = table.on_worker().plan_compaction(table.compaction(**asked))

    report = compact(table, **asked)

    after = files_by_partition(table)
    assert (planned.outcome, report.outcome) == (Outcome.PLANNED, Outcome.DONE)
    assert (planned.groups_rewritten, planned.files_rewritten) == (report.groups_rewritten, report.files_rewritten)
    assert before[skipped] <= after[skipped]
    earlier -= {path for paths in before.values() for path in paths}
    assert len(earlier) == 2
    assert (earlier <= set(table.live_files())) is (skipped == "region=null")
    assert all(before[name].isdisjoint(after[name]) for name in before.keys() - {skipped})
    assert table.rows_read() == table.rows


def test_a_partition_of_a_number_has_one_name_on_worker_and_driver(spark: SparkSession) -> None:
    table = MaintainedTable(spark, properties={"write.summary.partition-limit": "50"})
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (v DOUBLE)")
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD v")
    for _ in range(2):
        spark.sql(f"INSERT INTO {table.name} VALUES (1, 'a', 1, 1.1D), (2, 'a', 2, 1E7D), (3, 'a', 3, double('NaN'))")
    worker = table.on_worker()
    named = {worker.partition_name(file.spec_id, file.partition) for file in worker.live_files(None).data}
    assert named == {"v=1.1", "v=1.0E7", "v=NaN"}
    assert named == {each.partition for each in hot_partitions(list(worker.facts.ancestors()))}
    asked: dict[str, Any] = {"level": CompactionLevel.MINOR, "min_input_files": 2, "skip_partitions": ("v=1.1",)}
    planned = worker.plan_compaction(table.compaction(**asked))
    report = compact(table, **asked)
    assert (planned.groups_rewritten, planned.files_rewritten) == (2, 4)
    assert (planned.groups_rewritten, planned.files_rewritten) == (report.groups_rewritten, report.files_rewritten)
