from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestEntry
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_lake_provider.tables.iceberg.manifest_entries import live_entries

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.fixture(params=[1, 2])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Files of two partition specs, some deleted, some in merged manifests that carry what was added earlier."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    properties = {"format-version": str(request.param), "commit.manifest.min-count-to-merge": "3"}
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_REGION, properties=properties)
    for place in range(5):
        table.append(pa.table({"id": [place, place + 10], "region": ["north", "south"]}))
        if place == 2:
            with table.update_spec() as spec:
                spec.add_field("id", IdentityTransform(), "id")
    table.delete("region = 'south'")
    yield table
    catalog.engine.dispose()


def known_of(entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.data_file
    values = tuple(file.partition[place] for place in range(len(file.partition)))
    bounds = (file.lower_bounds, file.upper_bounds, file.null_value_counts)
    size = (file.record_count, file.file_size_in_bytes)
    return (file.file_path, file.spec_id, values, *size, entry.snapshot_id, entry.sequence_number, *bounds)


def test_entries_are_those_that_pyiceberg_reads_with_a_reader_for_each_manifest(table: Table) -> None:
    head = table.current_snapshot()
    assert head is not None
    manifests = head.manifests(table.io)
    assert {manifest.partition_spec_id for manifest in manifests} == {0, 1}

    expected = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]

    assert [known_of(entry) for entry in live_entries("shop.orders", table.io, manifests)] == [
        known_of(entry) for entry in expected
    ]
    assert len(expected) == 5
