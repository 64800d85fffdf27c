"""Tables with columns that Spark has no type for, such as Trino writes: their files are told nevertheless."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, IntegerType, ListType, LongType, NestedField, StructType, TimeType

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import OrphanFilesSpec, RemovalMode, SnapshotExpirySpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots, remove_orphan_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import reachable_files
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN, names_of_files
from tests.spark.maintenance_flow import LONG_AGO
from tests.spark.upsert_flow import Flow

NOON = time(12, 0)
COLUMNS: Mapping[str, tuple[IcebergType, Any]] = {
    "plain": (TimeType(), NOON),
    "in a struct": (StructType(NestedField(7, "t", TimeType()), NestedField(8, "n", IntegerType())), {"t": NOON}),
    "in a list": (ListType(7, TimeType(), element_required=False), [NOON, None]),
}
PARTITIONS = {
    "no partition": PartitionSpec(),
    "by it": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "at")),
    "by another": PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id")),
}


def with_four_commits(flow: Flow, column: str, partition: str = "no partition") -> None:
    """Make a table by PyIceberg that is overwritten twice, so that only two of its data files are live."""
    kind, value = COLUMNS[column]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", kind))
    spec = PARTITIONS[partition]
    table = flow.catalog().create_table(flow.table, schema, properties={"format-version": "2"})
    with table.update_spec() as update:
        for field in spec.fields:
            update.add_field(schema.find_field(field.source_id).name, field.transform, field.name)
    for number in range(2):
        rows = pa.Table.from_pylist([{"id": number, "at": value}], schema=table.schema().as_arrow())
        table.overwrite(rows)
        table.append(rows)


def files_of(flow: Flow) -> tuple[set[str], set[str]]:
    """Return the names of data files, manifests and lists on disk, and of those that a snapshot names."""
    folder = flow.folder().parent
    on_disk = {path.name for path in folder.rglob("*") if path.suffix in (".parquet", ".avro")}
    return on_disk, names_of_files(flow.loaded())


def expire(flow: Flow) -> None:
    now = datetime.now(UTC) + timedelta(minutes=1)
    spec = SnapshotExpirySpec(
        catalog=CATALOG, table=flow.table, run=RUN, expire_before=now, expire_stage_branches_before=LONG_AGO
    )
    report = expire_snapshots(flow.spark, spec, Progress())
    assert (report.outcome, report.data_files_deleted) == (Outcome.DONE, 2)


@pytest.mark.parametrize(
    ("column", "partition"),
    [*((each, "no partition") for each in COLUMNS), ("plain", "by it"), ("plain", "by another")],
)
def test_an_expiry_by_spark_jobs_deletes_what_no_snapshot_names(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, column: str, partition: str
) -> None:
    monkeypatch.setattr(reachable_files, "MOST_FILES", 0)
    with_four_commits(flow, column, partition)
    rows = flow.records()
    expire(flow)
    on_disk, named = files_of(flow)
    assert on_disk == named
    assert flow.records() == rows


@pytest.mark.parametrize("column", COLUMNS)
def test_orphan_files_are_told_from_live_ones(flow: Flow, column: str) -> None:
    with_four_commits(flow, column)
    live, _ = files_of(flow)
    for path in (flow.folder().parent).rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    stray = flow.folder() / "00000-0-0b7f8a1e-stray.parquet"
    stray.write_bytes(b"stray")
    os.utime(stray, (1_600_000_000, 1_600_000_000))
    spec = OrphanFilesSpec(
        catalog=CATALOG,
        table=flow.table,
        run=RUN,
        mode=RemovalMode.DELETE,
        max_share=1.0,
        tables_checked=1,
        asked_at=datetime.now(UTC),
    )
    report = remove_orphan_files(flow.spark, spec, Progress())
    assert (report.outcome, report.files_removed) == (Outcome.DONE, 1)
    on_disk, _ = files_of(flow)
    assert on_disk == live
