"""Real tables for the fleet: 20 files, 5 snapshots and 3 manifests each, well or ill, many copies of two prototypes.

A well table has one file in each of 20 partitions. An ill one has ten small files in each of two partitions, and its
snapshots are ten days old.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.made_tables import copied, register

FILES = 20
ROWS = 5_000
# Files of an ill table that a merge spares: ten of each of two partitions become one.
MERGEABLE = 18
_OLD = timedelta(days=10)
_SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "day", IntegerType())
)
_BY_DAY = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"), spec_id=0)
# PyIceberg packs manifests otherwise, and a copy replaces paths in them.
_UNPACKED = {
    "write.avro.compression-codec": "null",
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "2",
}


def make_fleet(folder: Path, catalog: SqlCatalog, namespace: str, kinds: Sequence[str]) -> None:
    """Write a table for each kind, ``well`` or ``ill``, as ``<namespace>.t000`` and so on."""
    catalog.create_namespace(namespace)
    prototypes: dict[str, str] = {}
    locations: dict[str, str] = {}
    for number, kind in enumerate(kinds):
        name = f"t{number:03d}"
        if kind not in prototypes:
            prototypes[kind] = _prototype(folder, catalog, f"{namespace}.{name}", kind)
        else:
            locations[name] = _with_data(prototypes[kind], name)
    register(folder / "catalog.db", catalog.name, namespace, locations)


def _prototype(folder: Path, catalog: SqlCatalog, name: str, kind: str) -> str:
    table = catalog.create_table(
        name,
        _SCHEMA,
        location=f"file://{folder}/{name.replace('.', '/')}",
        partition_spec=_BY_DAY,
        properties=_UNPACKED,
    )
    days = list(range(FILES)) if kind == "well" else [number % 2 for number in range(FILES)]
    for place in range(5):
        # The third commit merges what there is into one manifest, so three are left.
        _append(table, days[place * 4 : place * 4 + 4], is_merged=place == 2)
    location = table.metadata_location
    file = Path(location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    for name_ in _UNPACKED:
        metadata["properties"].pop(name_, None)
    if kind == "ill":
        _age(metadata)
    file.write_text(json.dumps(metadata))
    return location


def _append(table: Table, days: Sequence[int], *, is_merged: bool) -> None:
    """Append a file for each day, by one commit: several of one day are files of their own."""
    with table.transaction() as transaction:
        update = transaction.update_snapshot()
        with update.merge_append() if is_merged else update.fast_append() as append:
            for place, day in enumerate(days):
                rows = pa.table(
                    {
                        "id": pa.array(range(place * ROWS, (place + 1) * ROWS), pa.int64()),
                        "name": pa.array([f"name {each % 997}" for each in range(ROWS)]),
                        "day": pa.array([day] * ROWS, pa.int32()),
                    }
                )
                for file in _dataframe_to_data_files(table_metadata=transaction.table_metadata, df=rows, io=table.io):
                    append.append_data_file(file)


def _age(metadata: dict[str, Any]) -> None:
    shift = int(_OLD.total_seconds() * 1000)
    for each in (*metadata["snapshots"], *metadata["snapshot-log"], *metadata["metadata-log"]):
        each["timestamp-ms"] -= shift
    metadata["last-updated-ms"] -= shift


def _with_data(location: str, name: str) -> str:
    """Copy a table, as another one; its data files are links."""
    source = Path(location.removeprefix("file://")).parent.parent
    moved = copied(location, name)
    file = Path(moved.removeprefix("file://"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "table-uuid": str(uuid.uuid4())}))
    for file in source.glob("data/**/*.parquet"):
        target = source.with_name(name) / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, target)
    return moved


def mergeable_files(table: Table) -> int:
    """Return the files that bin packing would still spare in the partitions: of those below 75 % of the target size."""
    target = int(table.properties.get("write.target-file-size-bytes", 512 * 1024**2))
    small: dict[Any, list[int]] = {}
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < 0.75 * target:
            small.setdefault((task.file.spec_id, str(task.file.partition)), []).append(task.file.file_size_in_bytes)
    return sum(len(sizes) - -(-sum(sizes) // target) for sizes in small.values())
