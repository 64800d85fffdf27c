"""Tables of version 1 whose partition field was dropped: it stays as a void one, and makes no partition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_lake_provider.contracts.table_facts import TableShape
from airflow_lake_provider.iceberg.metadata_facts import read_facts
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.maintenance.policy import limits_of
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.made_tables import MIB, MadeDelete, MadeTable, spread
from tests.unit.maintenance.plans_of_numbers import in_short, plan, policy

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
VOID = PartitionField(2, 1000, VoidTransform(), "region")
BY_ID = PartitionField(1, 1001, IdentityTransform(), "id")
# So many manifests that their overlap counts, and none that a merge is due for.
LEFT = {"manifests": {"mergeable": 100}, "compaction": {"min_input_files": 5}}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


def written(catalog: SqlCatalog, *fields: PartitionField) -> Table:
    properties = {"format-version": "1", "commit.manifest-merge.enabled": "false"}
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=PartitionSpec(*fields), properties=properties)
    for number in range(22):
        table.append(pa.table({"id": [number], "region": ["eu"]}))
    return table


def test_a_table_without_a_partition_left_is_compacted_like_any_that_has_none(catalog: SqlCatalog) -> None:
    now, limits = datetime.now(UTC), limits_of(policy(**LEFT))
    health = health_of(LoadedIcebergTable(written(catalog, VOID)), now, limits)
    assert health.manifests is not None
    # No order of manifests helps a reader, so none is asked for after each commit.
    assert (health.manifests.overlap, health.hot_partitions) == (None, ())
    assert in_short(plan(health, **LEFT)) == ["compaction minor small-files"]


def test_a_void_field_beside_another_one_does_not_count(catalog: SqlCatalog) -> None:
    health = health_of(LoadedIcebergTable(written(catalog, VOID, BY_ID)), datetime.now(UTC))
    assert health.manifests is not None
    assert health.manifests.overlap == 0.0
    assert {each.partition for each in health.hot_partitions} <= {f"region=null/id={number}" for number in range(22)}


def test_an_equality_delete_without_a_partition_left_lies_on_files_of_every_earlier_one(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    made = MadeTable(files=spread(20, 450 * MIB), deletes=[MadeDelete("equality", 7)], is_dropped=True)
    loaded = LoadedIcebergTable(StaticTable.from_metadata(made.write(tmp_path / "t", now)))
    # As the spec of Iceberg says of delete files whose partition spec is unpartitioned.
    assert [len(each.delete_files) for each in loaded.live_files(None).data] == [1] * 20
    health = health_of(loaded, now + timedelta(hours=2))
    assert health.deletes is not None
    assert (health.deletes.equality_deletes, health.deletes.dangling_files) == (7, 0)
    assert in_short(plan(health)) == ["compaction major equality-deletes"]


def shape(*transforms: str, default: int = 0) -> TableShape:
    fields = [
        {"source-id": 1, "field-id": 1000 + place, "name": f"f{place}", "transform": each}
        for place, each in enumerate(transforms)
    ]
    metadata = {
        "format-version": 2,
        "location": "s3://b/t",
        "schemas": [{"schema-id": 0, "fields": []}],
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "default-spec-id": default,
    }
    return read_facts("t", metadata).shape


def test_a_table_is_partitioned_by_a_field_that_has_values() -> None:
    assert not shape("void").is_partitioned
    assert not shape("void", "void").is_partitioned
    assert shape("void", "day").is_partitioned
    assert not shape().is_partitioned
    assert not shape("day", default=7).is_partitioned
