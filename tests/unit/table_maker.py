"""Make tables with one row, of any format version and properties, in a catalog of PyIceberg."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

if TYPE_CHECKING:
    pass

Make = Callable[..., Table]
# Properties, with _ for each dot.
ENCRYPTED: dict[str, str] = {"encryption_key-id": "k"}
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "Name", StringType()),
    NestedField(3, "score", DoubleType()),
    identifier_field_ids=[1],
)
ROW = pa.table(
    {"id": [1], "Name": ["a"], "score": [0.5]},
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("Name", pa.string()), ("score", pa.float64())]),
)


@pytest.fixture
def make(lake_catalog: SqlCatalog) -> Make:
    """Make a table with one row, of any format version and properties."""

    def run(name: str, version: int = 2, schema: Schema = COLUMNS, **properties: str) -> Table:
        given = {"format-version": str(min(version, 2)), **{k.replace("_", "."): v for k, v in properties.items()}}
        table = lake_catalog.create_table(name, schema, properties=given)
        table.append(ROW.select([field.name for field in schema.fields]))
        return table if version < 3 else as_version_3(lake_catalog, table)

    return run


def as_version_3(catalog: SqlCatalog, table: Table) -> Table:
    """Return the table as one of version 3: PyIceberg reads its metadata and does not write it yet."""
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    snapshots = [{**snapshot, "first-row-id": 0, "added-rows": 1} for snapshot in metadata["snapshots"]]
    upgraded = path.with_name("version-3.metadata.json")
    upgraded.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 1, "snapshots": snapshots}))
    name = ".".join(table.name())
    catalog.drop_table(name)
    return catalog.register_table(name, f"file://{upgraded}")
