"""Partitions on a worker are those of the driver, and have the names that Iceberg gives them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, LongType, NestedField, PrimitiveType, TimestampType, TimestamptzType

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

MOMENT = 1_700_000_000_000_000
Partitioned = Callable[[PrimitiveType, list[Any]], LoadedIcebergTable]


@pytest.fixture
def partitioned(tmp_path: Path) -> Partitioned:
    """Make a table with two files in the partition of each value."""

    def made(kind: PrimitiveType, values: list[Any]) -> LoadedIcebergTable:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
        catalog.create_namespace("shop")
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
        by_value = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"))
        table = catalog.create_table("shop.orders", schema, partition_spec=by_value)
        rows = pa.table({"id": range(len(values)), "v": pa.array(values, schema.as_arrow().field("v").type)})
        for _ in range(2):
            table.append(rows)
        catalog.engine.dispose()
        return LoadedIcebergTable(table)

    return made


# What ``Transforms.identity().toHumanString`` of Iceberg 1.12 gives for these.
NUMBERS = {
    "1.1": 1.1,
    "0.1": 0.1,
    "100.0": 100.0,
    "-1234.5": -1234.5,
    "0.001": 0.001,
    "9.9E-4": 0.00099,
    "9999999.5": 9999999.5,
    "1.0E7": 1e7,
    "4.9E-324": 5e-324,
    "0.0": 0.0,
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "null": None,
}
TIMES = {
    "2023-11-14T22%3A13%3A20": MOMENT,
    "2023-11-14T22%3A13%3A20.5": MOMENT + 500_000,
    "2023-11-14T22%3A13%3A20.00001": MOMENT + 10,
    "2023-11-14T22%3A13%3A20.123456": MOMENT + 123_456,
}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (DoubleType(), NUMBERS),
        (FloatType(), {"1.1": 1.1, "1.0E7": 1e7, "1.6777216E7": 16777216.0, "3.4028235E38": 3.4028235e38}),
        (TimestampType(), TIMES),
        (TimestamptzType(), {f"{name}%2B00%3A00": value for name, value in TIMES.items()}),
    ],
    ids=["double", "float", "timestamp", "timestamptz"],
)
def test_a_partition_is_named_as_the_driver_names_it_and_left_alone(
    partitioned: Partitioned, kind: PrimitiveType, values: dict[str, Any]
) -> None:
    table = partitioned(kind, list(values.values()))
    named = {table.partition_name(file.spec_id, file.partition) for file in table.live_files(None).data}
    assert named == {f"v={name}" for name in values}
    run = RunIdentity.of("dag", "run", "task", "-1")
    for name in named:
        spec = CompactionSpec(catalog="lake", table="shop.orders", run=run, min_input_files=2, skip_partitions=(name,))
        report = plan_compaction(table, spec)
        assert (report.groups_rewritten, report.files_rewritten) == (len(values) - 1, 2 * len(values) - 2)


def test_doubles_that_round_to_one_float_are_partitions_of_their_own(partitioned: Partitioned) -> None:
    near = struct.unpack("<d", struct.pack("<q", struct.unpack("<q", struct.pack("<d", 1.1))[0] + 1))[0]
    table = partitioned(DoubleType(), [1.1, near])
    assert {file.partition for file in table.live_files(None).data} == {(1.1,), (near,)}
    # By the value itself, too: no file was to be read where the value in the manifest was another one.
    assert len(table.live_files("v = 1.1").data) == 2
